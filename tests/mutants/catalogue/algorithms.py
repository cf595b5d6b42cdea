"""Algorithm 1: acting, targets and loss, gradient steps, segments, hyperparameters."""

from __future__ import annotations

from ..mutation import mutation

ACTING = "algorithms/acting.py"
BASE = "algorithms/base.py"
DESCENT = "algorithms/descent.py"
PQN = "algorithms/pqn.py"
SEGMENTS = "algorithms/segments.py"
# All cases of the oracle, in order, up to the first that fails: which one that is depends on the covering array.
ORACLE = "oracle/test_oracle.py::test_the_compiled_program_learns_what_the_oracle_learns"
OWN_NAME = "algorithms/test_base.py::test_each_traced_option_has_its_own_name"
NOT_COMPILED_IN = "algorithms/test_base.py::test_a_traced_option_is_not_part_of_the_program[pqn]"

LEARNING = [
    mutation(
        "returns-shifted-values",
        PQN,
        "jnp.concatenate([rollout.value[1:], rollout.last_value[None]])",
        "jnp.concatenate([rollout.value[2:], rollout.last_value[None], rollout.last_value[None]])",
        "Every λ-target uses the value one step too late, as a public library does.",
        "envs/adapters/test_gymnasium.py::test_no_fake_transition_is_learned_from[same_step]",
    ),
    mutation(
        "learner-schedule-of-its-own-ignored",
        BASE,
        "config.learner, config.schedule_updates",
        "config.learner, config.updates",
        "A shortened run does not keep the schedules of the full one.",
        "algorithms/test_schedules.py::test_the_record_says_what_the_program_does",
    ),
    mutation(
        "learner-epsilon-off-by-one",
        DESCENT,
        "return hyper.epsilon(state.updates)",
        "return hyper.epsilon(state.updates + 1)",
        "ε is that of the next update.",
        "algorithms/test_schedules.py::test_the_record_says_what_the_program_does",
    ),
    mutation(
        "learner-epsilon-decay-ignored",
        BASE,
        "else learner.eps_decay) * updates",
        "else 1.0) * updates",
        "ε falls over the whole run, whatever eps_decay says.",
        "algorithms/test_schedules.py::test_the_record_says_what_the_program_does",
    ),
    mutation(
        "schedule-cosine-is-a-line",
        "algorithms/schedules.py",
        'return Cosine() if kind == "cosine" else Linear()',
        "return Linear()",
        "cosine does nothing.",
        "algorithms/test_shapes.py::test_epsilon",
    ),
    mutation(
        "schedule-jump-too-late",
        "algorithms/schedules.py",
        "xp.sum(shares <= x)",
        "xp.sum(shares < x)",
        "A jump comes after its place.",
        "algorithms/test_shapes.py::test_the_learning_rate",
    ),
    mutation(
        "learner-rate-never-decays",
        BASE,
        "else learner.lr_finish",
        "else learner.lr",
        "lr_decay does nothing.",
        "algorithms/test_schedules.py::test_the_record_says_what_the_program_does",
    ),
    mutation(
        "learner-rate-decays-by-epoch",
        DESCENT,
        "state.updates.astype(jnp.float32) * number",
        "state.updates.astype(jnp.float32) * self.config.learner.epochs",
        "The learning rate hardly falls: gradient steps are counted by epochs.",
        "algorithms/test_descent.py::test_gradient_steps_are_counted_since_the_start_of_the_run",
    ),
    mutation(
        "learner-half-forgotten",
        PQN,
        "return 0.5 * mean(jnp.square(",
        "return mean(jnp.square(",
        "The loss lacks its ½: gradients, and with them clipping, are twice as large.",
        "algorithms/test_pqn.py::test_the_loss_is_half_the_mean_squared_error_of_the_actions_taken[0]",
        ORACLE,
    ),
    mutation(
        "learner-loss-on-the-burn-in",
        PQN,
        "q = q[self.config.learner.burn_in :]",
        "q = q[: len(q) - self.config.learner.burn_in]",
        "Every SMAX preset learns the values of the wrong steps.",
        "algorithms/test_pqn.py::test_the_loss_is_half_the_mean_squared_error_of_the_actions_taken[2]",
        ORACLE,
    ),
    mutation(
        "learner-adam-for-radam",
        DESCENT,
        "return optax.scale_by_radam() if",
        "return optax.scale_by_adam() if",
        "The optimiser is Adam, which moves further in the first steps.",
        "algorithms/test_descent.py::test_the_optimiser_is_the_one_that_is_named",
        ORACLE,
    ),
    mutation(
        "learner-no-shuffling",
        DESCENT,
        "jnp.argsort(jax.random.bits(key, (epochs, count)), axis=1)",
        "jnp.argsort(jnp.zeros((epochs, count)), axis=1)",
        "Minibatches are consecutive steps.",
        "algorithms/test_descent.py::test_every_epoch_is_an_order_of_its_own_of_all_segments",
    ),
    mutation(
        "learner-one-order-for-all-epochs",
        DESCENT,
        "jax.random.bits(key, (epochs, count))",
        "jnp.broadcast_to(jax.random.bits(key, (count,)), (epochs, count))",
        "Every epoch has the same minibatches.",
        "algorithms/test_descent.py::test_every_epoch_is_an_order_of_its_own_of_all_segments",
    ),
    mutation(
        "learner-batch-statistics-lost",
        DESCENT,
        "return Progress(after, stats, opt)",
        "return Progress(after, progress.stats, opt)",
        "Running statistics never move: acting normalises by mean 0 and variance 1.",
        "algorithms/test_descent.py::test_statistics_move_and_acting_reads_them",
    ),
    mutation(
        "learner-l2-forgotten",
        PQN,
        "return hyper.l2_final * final + hyper.l2_inner * inner",
        "return hyper.l2_final * final + 0.0 * inner",
        "l2_inner does nothing.",
        "algorithms/test_pqn.py::test_l2_shrinks_its_own_kernels[l2_inner]",
    ),
    mutation(
        "learner-agent-without-action-counts",
        PQN,
        "jnp.where(jnp.any(batch.avail, axis=-1), chosen, 0.0)",
        "jnp.where(jnp.any(batch.avail, axis=-1), chosen, chosen)",
        "A dead agent adds to the team's prediction but not to its target.",
        "algorithms/test_pqn.py::test_an_agent_without_a_legal_action_contributes_nothing",
    ),
    mutation(
        "learner-fake-steps-learned",
        SEGMENTS,
        "        return batch.valid\n",
        "        return None\n",
        "The step in which a simulator only resets is learned from as if it were a transition.",
        "envs/adapters/test_gymnasium.py::test_the_loss_does_not_see_what_is_no_transition",
    ),
    mutation(
        "learner-clipping-off",
        DESCENT,
        "hyper.max_grad_norm / jnp.maximum(norm, 1e-12)",
        "1.0 + 0.0 * norm",
        "Gradients are never clipped.",
        "algorithms/test_pqn.py::test_gradients_are_clipped",
    ),
    mutation(
        "learner-gradient-through-fresh-targets",
        PQN,
        "jax.lax.stop_gradient(self.actor.joint_value(params, q, batch.avail, batch.world))",
        "self.actor.joint_value(params, q, batch.avail, batch.world)",
        "Recomputed targets pull on the network: no longer a semi-gradient.",
        "networks/test_memory.py::test_targets_of_the_first_gradient_step_are_the_same_either_way",
    ),
    mutation(
        "learner-fresh-targets-end-wrongly",
        SEGMENTS,
        "after=fold(next_values)[-1:]",
        "after=fold(next_values)[:1]",
        "Recomputed targets bootstrap from the value after a segment's first step.",
        "networks/test_memory.py::test_targets_of_the_first_gradient_step_are_the_same_either_way",
    ),
    mutation(
        "learner-segments-mix-environments",
        SEGMENTS,
        "return jnp.moveaxis(x, 1, 0).reshape(length, -1, *x.shape[3:])",
        "return x.reshape(length, -1, *x.shape[3:])",
        "A segment is made of steps that do not follow each other.",
        "algorithms/test_pqn.py::test_cut_keeps_time_within_segments",
    ),
    mutation(
        "learner-carry-of-other-segments",
        SEGMENTS,
        "carry=jax.tree.map(lambda x: x[order], segments.carry)",
        "carry=jax.tree.map(lambda x: x[: len(order)], segments.carry)",
        "After shuffling, segments start from the memory of others.",
        "algorithms/test_pqn.py::test_pick_takes_the_same_segments_of_every_field",
    ),
    mutation(
        "learner-never-clears-memory",
        ACTING,
        "return Inputs(obs, first,",
        "return Inputs(obs, jnp.zeros_like(first),",
        "No collector says where episodes start, so memory survives them; each is the other's oracle and agrees.",
        "programs/test_seeds_and_starts.py::test_first_marks_the_observations_that_start_an_episode",
    ),
    mutation(
        "learner-world-instead-of-observations",
        ACTING,
        "if world is None else world",
        "if world is None else 0.0 * world",
        "QMIX mixes by a world that is always 0.",
        "learning/test_multiagent.py::test_a_truncated_episode_bootstraps_from_its_true_last_world[qmix]",
    ),
]

HYPER = [
    mutation(
        "hyper-options-in-another-order",
        BASE,
        "for name, (group, option) in TRACED.items()}",
        "for name, (group, option) in zip(TRACED, sorted(TRACED.values()), strict=True)}",
        "Every traced option has the value of another one.",
        OWN_NAME,
    ),
    mutation(
        "hyper-gamma-is-lambda",
        BASE,
        "for name, (group, option) in TRACED.items()}",
        'for name, (group, option) in TRACED.items()} | {"gamma": learner.lam, "lam": learner.gamma}',
        "γ and λ are exchanged.",
        OWN_NAME,
    ),
    mutation(
        "hyper-epsilon-rises",
        BASE,
        "at(self.eps_start, self.eps_finish,",
        "at(self.eps_finish, self.eps_start,",
        "ε starts where it should end.",
        "algorithms/test_base.py::test_epsilon_falls_from_start_to_finish_and_the_rate_from_its_option",
    ),
    mutation(
        "hyper-lambda-compiled-in",
        PQN,
        "lambda_returns(rollout.reward, rollout.discount, next_values, hyper.lam)",
        "lambda_returns(rollout.reward, rollout.discount, next_values, self.config.learner.lam)",
        "A sweep over λ trains every member with the same λ.",
        NOT_COMPILED_IN,
    ),
    mutation(
        "hyper-clipping-compiled-in",
        DESCENT,
        "hyper.max_grad_norm / jnp.maximum(norm, 1e-12)",
        "self.config.learner.max_grad_norm / jnp.maximum(norm, 1e-12)",
        "A sweep over max_grad_norm clips every member alike.",
        NOT_COMPILED_IN,
    ),
]

ACTED = [
    mutation(
        "acting-noted-value-of-illegal-actions",
        ACTING,
        "Note(self.joint_value(policy.params, q, seen.avail, seen.world))",
        "Note(self.joint_value(policy.params, q, None, seen.world))",
        "The values that targets are made of ignore which actions are legal.",
        "algorithms/test_acting.py::test_only_legal_actions_are_taken_and_valued",
    ),
    mutation(
        "acting-last-value-of-illegal-actions",
        ACTING,
        "return self.joint_value(policy.params, q, seen.avail, seen.world)",
        "return self.joint_value(policy.params, q, None, seen.world)",
        "The value after a rollout ignores which actions are legal.",
        "algorithms/test_acting.py::test_only_legal_actions_are_taken_and_valued",
    ),
    mutation(
        "acting-options-of-the-past-exchanged",
        ACTING,
        "last_action if network.last_action else None, reward if network.last_reward else None",
        "last_action if network.last_reward else None, reward if network.last_action else None",
        "A network that asks for its last action is shown its last reward.",
        "algorithms/test_acting.py::test_the_network_is_shown_what_its_options_say",
    ),
    mutation(
        "acting-without-statistics",
        DESCENT,
        "return Policy(state.params, state.stats)",
        "return Policy(state.params, jax.tree.map(jnp.ones_like, state.stats))",
        "With batch norms, acting normalises by mean 1 and variance 1, whatever was learned.",
        "algorithms/test_descent.py::test_statistics_move_and_acting_reads_them",
    ),
    mutation(
        "algorithm-name-ignored",
        "algorithms/__init__.py",
        "{config.algorithm.replace('-', '_')}",
        "pqn",
        "Every algorithm is PQN, whatever the configuration says.",
        "algorithms/test_make_algorithm.py::test_the_name_chooses_the_class",
    ),
    mutation(
        "algorithm-network-not-checked",
        "algorithms/__init__.py",
        "    algorithm.check()\n",
        "",
        "A torso that cannot take the observations ends in a traceback of flax.",
        "algorithms/test_make_algorithm.py::test_a_network_that_cannot_take_the_observations_is_refused",
    ),
]

IN_PARTS = [
    mutation(
        "work-first-gradient-steps-again",
        BASE,
        "jax.lax.dynamic_slice_in_dim(x, start, count)",
        "jax.lax.dynamic_slice_in_dim(x, 0 * start, count)",
        "Where simulators step meanwhile, the first gradient steps are taken again and again, and the others never.",
        "algorithms/test_base.py::test_a_part_of_the_work_is_some_of_its_gradient_steps",
    ),
    mutation(
        "work-learning-rate-of-the-first-steps",
        BASE,
        "self._replace(orders=orders, steps=steps)",
        "self._replace(orders=orders, steps=self.steps[:count])",
        "In an update of several parts each part has the learning rates of the first.",
        "algorithms/test_base.py::test_a_part_of_the_work_is_some_of_its_gradient_steps",
    ),
    mutation(
        "update-never-counted",
        DESCENT,
        "progress.opt, state.updates + 1, ",
        "progress.opt, state.updates, ",
        "ε and the learning rate stay where they start.",
        "algorithms/test_descent.py::test_an_update_is_counted_and_reported_as_the_mean_of_its_steps",
    ),
    mutation(
        "update-reports-its-last-step",
        DESCENT,
        "{name: jnp.mean(value) for name, value in metrics.items()}",
        "{name: value[-1] for name, value in metrics.items()}",
        "The loss on record is that of one minibatch.",
        "algorithms/test_descent.py::test_an_update_is_counted_and_reported_as_the_mean_of_its_steps",
    ),
]

MUTATIONS = [*LEARNING, *HYPER, *ACTED, *IN_PARTS]
