"""The algorithms that PQN is compared with: buffers, target networks, policies and their advantages."""

from __future__ import annotations

from ..mutation import mutation

REPLAY = "algorithms/replay.py"
DQN = "algorithms/dqn.py"
PQN_REPLAY = "algorithms/pqn_replay.py"
PPO = "algorithms/ppo.py"
SAMPLING = "algorithms/sampling.py"
ACTOR_CRITIC = "networks/actor_critic.py"
CONFIG = "config.py"

FROM_BUFFER = "oracle/test_oracle.py::test_learning_from_a_buffer_is_that_of_the_oracle"
BY_PPO = "oracle/test_oracle.py::test_ppo_learns_what_the_oracle_learns"
SAMPLES = "algorithms/test_replay.py::test_samples_are_consecutive_steps_that_were_stored"
USABLE = "algorithms/test_replay.py::test_what_is_no_transition_or_has_no_successor_is_not_usable"
FILLING = "algorithms/test_replay.py::test_updates_that_only_fill_the_buffer_are_counted_exactly"
FIRST_STEP = "algorithms/test_replay.py::test_the_first_gradient_step_is_taken_when_the_buffer_has_enough"
NOT_FITTING = "algorithms/test_replay.py::test_a_buffer_that_does_not_fit_is_refused_in_a_sentence"
HOLDS = "test_config.py::test_a_buffer_holds_what_is_sampled"
MOVES = "algorithms/test_dqn.py::test_the_target_network_moves_every_so_many_updates"
LEAVES = "algorithms/test_dqn.py::test_what_the_update_leaves_is_the_target_it_learned_from"
DOUBLE = "algorithms/test_dqn.py::test_with_double_the_network_chooses_and_the_target_network_says_what_it_is_worth"
RETURN_ENDS = "algorithms/test_dqn.py::test_a_return_ends_with_the_value_of_a_step_whose_successor_is_unknown"
ERROR = "algorithms/test_dqn.py::test_the_error_and_its_slope_on_both_sides_of_one"
N_STEP = "test_returns.py::test_n_step_returns_are_those_of_the_definition"
ADVANTAGES = "algorithms/test_ppo.py::test_advantages_are_discounted_sums_of_td_errors"
CLIP = "algorithms/test_ppo.py::test_gradients_at_the_edges_of_the_clip"
VALUE_CLIP = "algorithms/test_ppo.py::test_gradients_of_values_that_moved_too_far"
ABSENT = "algorithms/test_ppo.py::test_an_agent_without_a_legal_action_has_no_part_in_the_loss"
NO_TRANSITION = "algorithms/test_ppo.py::test_what_is_no_transition_has_no_part_in_the_loss"
NORMALISED = "algorithms/test_ppo.py::test_advantages_are_normalised_over_those_that_count"
DRAWN = "algorithms/test_ppo.py::test_every_action_is_drawn_and_no_epsilon_is_on_record"
NOTED = "algorithms/test_sampling.py::test_what_is_noted_is_what_learning_will_need"
LEGAL = "algorithms/test_sampling.py::test_probabilities_and_entropy_are_those_of_the_legal_actions"
REFUSED = "algorithms/test_sampling.py::test_options_that_would_have_no_effect_are_refused"
TEAM_VALUE = "algorithms/test_sampling.py::test_one_agent_has_the_value_of_the_team"
SAMPLED = "test_exploration.py::test_sampled_frequencies_are_the_probabilities"
NEVER_SAMPLED = "test_exploration.py::test_illegal_actions_are_never_sampled"

BUFFERS = [
    mutation(
        "replay-separate-statistics-are-joint",
        REPLAY,
        "batch.inputs if joint else self.learned(batch)",
        "batch.inputs",
        "Batch statistics that should be those of the states are those of their successors as well.",
        f"{FROM_BUFFER}[pqn-replay-vdn-none-replayed-limit-compiled-separate]",
    ),
    mutation(
        "replay-separate-statistics-value-in-training",
        REPLAY,
        "out: PyTree = self.actor.network.apply(variables, batch.carry, batch.inputs)",
        "out, _ = self.actor.network.apply(variables, batch.carry, batch.inputs, True, mutable=['batch_stats'])",
        "With separate statistics, successors are valued with those of their own batch.",
        f"{FROM_BUFFER}[pqn-replay-vdn-none-replayed-limit-compiled-separate]",
    ),
    mutation(
        "replay-across-the-write-head",
        REPLAY,
        "start = buffer.current_index - self.sequence - back",
        "start = buffer.current_index - self.sequence + back",
        "Sequences of the last rollout are made of its end and of the oldest steps.",
        SAMPLES,
    ),
    mutation(
        "replay-newest-of-one-environment",
        REPLAY,
        "env = jax.random.randint(jax.random.fold_in(key, 1), (count,), 0, envs)",
        "env = jax.random.randint(jax.random.fold_in(key, 1), (count,), 0, 1)",
        "The share of the last rollout is that of its first environment.",
        SAMPLES,
    ),
    mutation(
        "replay-newest-only-the-last-step",
        REPLAY,
        "back = jax.random.randint(key, (count,), 0, self.config.learner.rollout_steps)",
        "back = jax.random.randint(key, (count,), 0, 1)",
        "Of the last rollout only the last step is learned from.",
        SAMPLES,
    ),
    mutation(
        "replay-samples-too-short",
        REPLAY,
        "drawn = trajectory_buffer.sample(buffer, key, count * old, self.sequence, period=1).experience",
        "drawn = trajectory_buffer.sample(buffer, key, count * old, self.sequence, period=2).experience",
        "Half of the steps in the buffer never start a sequence.",
        SAMPLES,
    ),
    mutation(
        "replay-share-exchanged",
        CONFIG,
        "old = round(config.replay.share * batch)",
        "old = round((1 - config.replay.share) * batch)",
        "A share of 1 learns from the last rollout alone.",
        SAMPLES,
    ),
    mutation(
        "replay-new-sequences-are-old-ones",
        REPLAY,
        "orders.append(count * old + jnp.arange(count * new)",
        "orders.append(jnp.arange(count * new)",
        "The share of the last rollout is drawn and never used.",
        SAMPLES,
    ),
    mutation(
        "replay-fake-steps-usable",
        REPLAY,
        "jnp.ones(rollout.action.shape[:2], bool) if rollout.valid is None else rollout.valid",
        "jnp.ones(rollout.action.shape[:2], bool)",
        "The step in which a simulator only resets is learned from as if it were a transition.",
        USABLE,
    ),
    mutation(
        "replay-cut-steps-usable",
        REPLAY,
        "usable if rollout.truncated is None else usable & ~rollout.truncated",
        "usable",
        "A step that cut an episode short takes the next episode's first state for its successor.",
        USABLE,
    ),
    mutation(
        "replay-ends-forgotten",
        REPLAY,
        "ended=rollout.discount == 0.0",
        "ended=rollout.discount < 0.0",
        "Returns flow across the ends of episodes.",
        USABLE,
    ),
    mutation(
        "replay-open-episodes-continue-elsewhere",
        REPLAY,
        "starts = jnp.all(inputs.first[1:], axis=-1)",
        "starts = jnp.all(inputs.first[1:] & False, axis=-1)",
        "After a resume with new episodes, a step is followed by the start of another episode.",
        "algorithms/test_replay.py::test_a_new_episode_follows_no_step_of_an_episode_that_is_still_open",
    ),
    mutation(
        "replay-starts-an-update-late",
        REPLAY,
        "return -(-needed // config.learner.rollout_steps) - 1",
        "return -(-needed // config.learner.rollout_steps)",
        "Learning starts one update after `replay.start`.",
        FILLING,
    ),
    mutation(
        "replay-starts-by-environment",
        REPLAY,
        "max(-(-config.replay.start // config.env.num_envs), steps_to_sample(config))",
        "max(config.replay.start, steps_to_sample(config))",
        "`replay.start` counts the steps of one environment: learning starts N times too late.",
        FILLING,
    ),
    mutation(
        "replay-starts-before-a-sequence-fits",
        REPLAY,
        "max(-(-config.replay.start // config.env.num_envs), steps_to_sample(config))",
        "-(-config.replay.start // config.env.num_envs)",
        "The first gradient steps are taken on steps that never were.",
        FILLING,
    ),
    mutation(
        "replay-learns-while-it-fills",
        REPLAY,
        "learns = state.updates >= self.filling_updates",
        "learns = state.updates >= 0",
        "The network learns from an empty buffer.",
        FIRST_STEP,
    ),
    mutation(
        "replay-optimiser-moves-while-it-fills",
        REPLAY,
        "            opt=kept(after.opt, state.opt),\n",
        "",
        "The optimiser's averages are those of gradients that were never taken.",
        FIRST_STEP,
    ),
    mutation(
        "replay-size-of-one-seed",
        REPLAY,
        "return self.config.seeds * self.config.shards * size(",
        "return size(",
        "A buffer that does not fit for all seeds is found out by the device.",
        NOT_FITTING,
    ),
    mutation(
        "replay-never-refused",
        REPLAY,
        "        if needed > has:\n",
        "        if needed < 0 * has:\n",
        "A buffer that does not fit is found out by the device, after minutes of compiling.",
        NOT_FITTING,
    ),
    mutation(
        "config-sequence-without-lookahead",
        CONFIG,
        "return config.learner.burn_in + config.segment_length + config.target.n_step",
        "return config.learner.burn_in + config.segment_length",
        "A sample lacks the states that its targets bootstrap from.",
        HOLDS,
    ),
    mutation(
        "config-share-needs-no-room",
        CONFIG,
        "before = config.learner.rollout_steps - 1 if sequences_of(config)[1] else 0",
        "before = 0",
        "Sequences of the last rollout run across the write head of a small buffer.",
        HOLDS,
    ),
    mutation(
        "config-foreign-options-accepted",
        CONFIG,
        "for check in (_check_groups, _check_counters,",
        "for check in (_check_counters,",
        "An option of another algorithm is recorded as if it had an effect.",
        "test_config.py::test_options_of_another_algorithm_are_refused",
    ),
]

TARGETS = [
    mutation(
        "dqn-target-moves-every-update",
        DQN,
        "jnp.where(state.updates % self.config.target.interval == 0, hyper.target_rate, 0.0)",
        "hyper.target_rate",
        "`target.interval` does nothing.",
        MOVES,
    ),
    mutation(
        "dqn-target-never-moves",
        DQN,
        "return work._replace(fixed=target)",
        "return work._replace(fixed=state.target)",
        "The target network stays as it was initialised.",
        LEAVES,
    ),
    mutation(
        "dqn-target-moves-the-wrong-way",
        DQN,
        "old + rate * (new - old)",
        "new + rate * (old - new)",
        "The target network moves by 1 − rate.",
        MOVES,
    ),
    mutation(
        "dqn-double-asks-the-target-twice",
        DQN,
        "best = jnp.argmax(masked(q, batch.avail)",
        "best = jnp.argmax(masked(says, batch.avail)",
        "Double Q-learning is plain Q-learning.",
        DOUBLE,
    ),
    mutation(
        "dqn-double-asks-the-network-twice",
        DQN,
        "chosen = jnp.take_along_axis(says, best",
        "chosen = jnp.take_along_axis(q, best",
        "With `target.double` the target network has no say.",
        DOUBLE,
    ),
    mutation(
        "dqn-double-ignores-masks",
        DQN,
        "best = jnp.argmax(masked(q, batch.avail)",
        "best = jnp.argmax(masked(q, None)",
        "Targets bootstrap from illegal actions.",
        DOUBLE,
    ),
    mutation(
        "dqn-double-values-the-dead",
        DQN,
        "            chosen = jnp.where(jnp.any(batch.avail, axis=-1), chosen, 0.0)\n",
        "            chosen = jnp.where(jnp.any(batch.avail, axis=-1), chosen, chosen)\n",
        "An agent without a legal action adds to the target but not to the prediction.",
        DOUBLE,
    ),
    mutation(
        "dqn-mixes-by-the-network",
        DQN,
        "return self.actor.joint_value(target.params, says, batch.avail, batch.world)",
        "return self.actor.joint_value(params, says, batch.avail, batch.world)",
        "QMIX's targets are mixed by the weights that are being learned.",
        FROM_BUFFER,
    ),
    mutation(
        "dqn-huber-is-squared",
        DQN,
        "return optax.huber_loss(difference)",
        "return super().error(difference)",
        "`target.loss huber` does nothing.",
        ERROR,
    ),
    mutation(
        "dqn-values-of-the-same-step",
        DQN,
        "n_step_returns(rewards[:-1], discounts[:-1], values[1:],",
        "n_step_returns(rewards[:-1], discounts[:-1], values[:-1],",
        "Targets bootstrap one step too early.",
        RETURN_ENDS,
    ),
    mutation(
        "replay-return-of-a-cut-step",
        REPLAY,
        "rewards = jnp.where(batch.usable, batch.reward, values)",
        "rewards = batch.reward",
        "A return that reaches a cut step has its reward, with an old network's value in it, for its value.",
        RETURN_ENDS,
    ),
    mutation(
        "replay-return-flows-through-a-cut",
        REPLAY,
        "discounts = jnp.where(batch.usable & ~batch.ended, hyper.gamma, 0.0)",
        "discounts = jnp.where(~batch.ended, hyper.gamma, 0.0)",
        "A return runs from one episode into the next where the first was cut.",
        RETURN_ENDS,
    ),
    mutation(
        "replay-return-flows-through-an-end",
        REPLAY,
        "discounts = jnp.where(batch.usable & ~batch.ended, hyper.gamma, 0.0)",
        "discounts = jnp.where(batch.usable, hyper.gamma, 0.0)",
        "A return runs from one episode into the next.",
        RETURN_ENDS,
    ),
    mutation(
        "replay-gradient-through-targets",
        REPLAY,
        "values = jax.lax.stop_gradient(self.values(params, q, batch, fixed))",
        "values = self.values(params, q, batch, fixed)",
        "Targets pull on the network: no longer a semi-gradient.",
        FROM_BUFFER,
    ),
    mutation(
        "replay-l2-forgotten",
        REPLAY,
        "mean(self.error(target - chosen), counts) + l2_penalty(self.config.learner, params, hyper)",
        "mean(self.error(target - chosen), counts)",
        "The ℓ2 terms do nothing with a buffer.",
        FROM_BUFFER,
    ),
    mutation(
        "replay-loss-on-the-burn-in",
        REPLAY,
        "q = q[self.config.learner.burn_in :]",
        "q = q[: len(q) - self.config.learner.burn_in]",
        "The values of the wrong steps are learned.",
        FROM_BUFFER,
    ),
    mutation(
        "pqn-replay-one-step-targets",
        PQN_REPLAY,
        "values[1:], hyper.lam)",
        "values[1:], 0.0)",
        "λ does nothing within the sequences of a buffer.",
        FROM_BUFFER,
    ),
    mutation(
        "returns-n-step-one-short",
        "returns.py",
        "    for ahead in reversed(range(n)):\n",
        "    for ahead in reversed(range(n - 1)):\n",
        "An n-step return lacks its last reward.",
        N_STEP,
    ),
    mutation(
        "returns-n-step-value-too-early",
        "returns.py",
        "total = next_values[n - 1 :]",
        "total = next_values[:count]",
        "An n-step return ends with the value after its first step.",
        N_STEP,
    ),
]

POLICIES = [
    mutation(
        "ppo-advantage-without-its-value",
        PPO,
        "Noted(rollout.extra, rollout.value, targets - rollout.value)",
        "Noted(rollout.extra, rollout.value, targets)",
        "The advantage is the return: no baseline.",
        ADVANTAGES,
    ),
    mutation(
        "ppo-advantage-of-the-next-state",
        PPO,
        "Noted(rollout.extra, rollout.value, targets - rollout.value)",
        "Noted(rollout.extra, rollout.value, targets - next_values)",
        "The baseline is the value of the next state.",
        ADVANTAGES,
    ),
    mutation(
        "ppo-larger-of-the-two",
        PPO,
        "return -jnp.minimum(ratio * advantage",
        "return -jnp.maximum(ratio * advantage",
        "The clip lets through what it should cut.",
        CLIP,
    ),
    mutation(
        "ppo-clip-on-one-side",
        PPO,
        "jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage",
        "jnp.clip(ratio, 0.0, 1.0 + clip) * advantage",
        "Bad actions are pushed down without end.",
        CLIP,
    ),
    mutation(
        "ppo-value-clip-of-the-smaller-error",
        PPO,
        "error = jnp.maximum(error, jnp.square(batch.target - near))",
        "error = jnp.minimum(error, jnp.square(batch.target - near))",
        "Clipped values learn from the smaller error.",
        VALUE_CLIP,
    ),
    mutation(
        "ppo-value-clip-always",
        PPO,
        "        if self.config.ppo.clip_value:\n",
        "        if not self.config.ppo.clip_value:\n",
        "`ppo.clip_value` means its opposite.",
        VALUE_CLIP,
    ),
    mutation(
        "ppo-half-forgotten",
        PPO,
        "return 0.5 * error",
        "return error",
        "The values' loss weighs twice what it should.",
        VALUE_CLIP,
    ),
    mutation(
        "ppo-entropy-minimised",
        PPO,
        "- hyper.ppo_entropy * entropy",
        "+ hyper.ppo_entropy * entropy",
        "Exploration is punished.",
        BY_PPO,
    ),
    mutation(
        "ppo-value-weight-ignored",
        PPO,
        "policy + hyper.ppo_value_weight * value",
        "policy + value",
        "`ppo.value_weight` does nothing.",
        BY_PPO,
    ),
    mutation(
        "ppo-clip-compiled-in",
        PPO,
        "expand(advantage, ratio), hyper.ppo_clip)",
        "expand(advantage, ratio), self.config.ppo.clip)",
        "A sweep over the clip trains every member with the same one.",
        "algorithms/test_base.py::test_a_traced_option_is_not_part_of_the_program[ppo]",
    ),
    mutation(
        "ppo-old-probabilities-forgotten",
        PPO,
        "ratio = jnp.exp(now.log_probability - noted.log_probability)",
        "ratio = jnp.exp(now.log_probability - jax.lax.stop_gradient(now.log_probability))",
        "The ratio is always 1: nothing is ever clipped.",
        BY_PPO,
    ),
    mutation(
        "ppo-absent-agents-learn",
        PPO,
        "agents = counted(batch, batch.action)",
        "agents = batch.valid",
        "Agents without a legal action push the policy.",
        ABSENT,
    ),
    mutation(
        "ppo-values-of-absent-agents",
        PPO,
        "noted, hyper), counted(batch, values))",
        "noted, hyper), batch.valid)",
        "Agents without a legal action push the values.",
        ABSENT,
    ),
    mutation(
        "ppo-normalised-with-absent-agents",
        PPO,
        "counts = counted(batch, advantage)",
        "counts = batch.valid",
        "The spread of advantages is that of agents that did nothing, too.",
        NORMALISED,
    ),
    mutation(
        "ppo-normalised-by-the-variance",
        PPO,
        "return centred / (jnp.sqrt(shards.mean(mean(jnp.square(centred), counts))) + 1e-8)",
        "return centred / (shards.mean(mean(jnp.square(centred), counts)) + 1e-8)",
        "Advantages have no standard deviation of 1.",
        NORMALISED,
    ),
    mutation(
        "ppo-fake-steps-learned",
        PPO,
        "entropy = mean(now.entropy, agents)",
        "entropy = mean(now.entropy, None)",
        "The entropy of steps that are no transitions is maximised.",
        NO_TRANSITION,
    ),
    mutation(
        "ppo-acts-greedily",
        PPO,
        "return jnp.float32(1.0)",
        "return jnp.float32(0.0)",
        "Nothing is explored.",
        DRAWN,
    ),
    mutation(
        "policy-probability-of-illegal-actions",
        SAMPLING,
        "    logs = jax.nn.log_softmax(masked(logits, avail))\n",
        "    logs = jax.nn.log_softmax(masked(logits, None))\n",
        "Illegal actions share in the probability.",
        LEGAL,
    ),
    mutation(
        "policy-entropy-of-illegal-actions",
        SAMPLING,
        "terms = terms if avail is None else jnp.where(avail, terms, 0.0)",
        "terms = terms",
        "An agent without a legal action has the entropy of a uniform choice.",
        LEGAL,
    ),
    mutation(
        "policy-notes-another-probability",
        SAMPLING,
        "extra=log_probability(logits, seen.avail, action)",
        "extra=log_probability(logits, None, action)",
        "The noted probability counts illegal actions; with masks the first ratio is not 1.",
        NOTED,
    ),
    mutation(
        "policy-critic-blind",
        SAMPLING,
        "return flat_world(obs, world) if self.config.ppo.critic",
        "return flat_world(obs, 0.0 * world) if self.config.ppo.critic",
        "MAPPO's critic sees a world of zeros.",
        NOTED,
    ),
    mutation(
        "policy-each-agent-its-own-value",
        SAMPLING,
        'of_team = self.config.ppo.critic == "world" or self.spec.num_agents == 1',
        'of_team = self.config.ppo.critic == "world"',
        "A single agent has a team's axis.",
        TEAM_VALUE,
    ),
    mutation(
        "policy-foreign-options-accepted",
        SAMPLING,
        "            if value != default:\n",
        "            if False:\n",
        "A mixer, a dueling head or ℓ2 terms are recorded as if they had an effect.",
        REFUSED,
    ),
    mutation(
        "critic-memory-never-cleared",
        ACTOR_CRITIC,
        "jnp.any(inputs.first, axis=-1, keepdims=True)",
        "jnp.any(inputs.first & False, axis=-1, keepdims=True)",
        "The memory of MAPPO's critic survives episodes.",
        BY_PPO,
    ),
    mutation(
        "critic-memory-of-the-actor",
        ACTOR_CRITIC,
        'critic(carry["critic"] if carry else (), inputs, train)',
        'critic(initial_carry(config, *carry["critic"][0].shape[:2]) if carry else (), inputs, train)',
        "The critic forgets everything at the start of a segment.",
        BY_PPO,
    ),
    mutation(
        "sampling-ignores-epsilon",
        "exploration.py",
        "return jnp.where(uniform < epsilon, drawn,",
        "return jnp.where(uniform < 1.0, drawn,",
        "Evaluations of a policy are not greedy.",
        SAMPLED,
    ),
    mutation(
        "sampling-off-by-one",
        "exploration.py",
        "drawn = jnp.argmax(total > position[..., None] * total[..., -1:], axis=-1)",
        "drawn = jnp.argmax(total >= position[..., None] * total[..., -1:], axis=-1)",
        "A draw of 0 takes an illegal first action.",
        NEVER_SAMPLED,
    ),
]

MUTATIONS = [*BUFFERS, *TARGETS, *POLICIES]
