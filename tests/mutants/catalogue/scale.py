"""Shards, devices and processes: mistakes that would change numbers, or leave a process waiting for ever."""

from __future__ import annotations

from ..mutation import mutation

BY_HAND = "test_shards.py::test_an_update_is_that_of_shards_joined_by_hand"
STATISTICS = "test_shards.py::test_batch_statistics_are_those_of_all_shards"
TAKEN_OUT = "test_shards.py::test_what_a_batch_norm_takes_out_has_no_gradient"
REPORTS = "test_shards.py::test_reports_are_joined_by_what_they_are"
GROUPS = "programs/test_spread.py::test_devices_are_given_to_seeds_first_and_then_to_shards"
WATCH = "hosts/test_watch.py"
SHARDED = "programs/simulators/sharded.py"
SHARING = "programs/simulators/sharing.py"
HOST_SHARDS = "programs/simulators/test_sharded.py"
INSIDE = f"{HOST_SHARDS}::test_shards_on_the_host_are_those_inside_jax"
RESUMED = f"{HOST_SHARDS}::test_a_resumed_run_with_shards_goes_on[Savable]"
DIVIDED = f"{HOST_SHARDS}::test_what_cannot_be_divided_is_one_sentence"
TWO_ON_SIMULATORS = "hosts/test_simulators.py::test_two_processes_train_on_simulators_what_one_does"
PLACED = "experiments/test_placed.py"

MUTATIONS = [
    mutation(
        "shards-gradient-clipped-before-it-is-joined",
        "algorithms/descent.py",
        "gradient = shards.mean(gradient)",
        "gradient = shards.mean(\n"
        "            optax.tree.scale(jnp.minimum(1.0, hyper.max_grad_norm / optax.tree.norm(gradient)), gradient)\n"
        "        )",
        "Every shard shortens its own gradient, so that the step depends on how many there are.",
        BY_HAND,
    ),
    mutation(
        "shards-gradients-added",
        "shards.py",
        "return jax.lax.pmean(tree, axes())",
        "return jax.lax.psum(tree, axes())",
        "The gradient grows with the number of shards.",
        BY_HAND,
    ),
    mutation(
        "shards-same-environments",
        "programs/compiled.py",
        "shards.own_key(env_key)",
        "env_key",
        "All shards play the same episodes.",
        BY_HAND,
    ),
    mutation(
        "shards-same-exploration",
        "programs/compiled.py",
        "shards.own_key(collect_key), shards.own_key(learn_key)",
        "collect_key, shards.own_key(learn_key)",
        "All shards explore alike.",
        BY_HAND,
    ),
    mutation(
        "shards-own-batch-norm",
        "networks/norms.py",
        "            if shards.axes():\n                return BatchNormOfShards",
        "            if False:\n                return BatchNormOfShards",
        "Every shard normalises by its own batch.",
        f"{STATISTICS}[batch]",
    ),
    mutation(
        "shards-batch-norm-forgets-at-once",
        "networks/norms.py",
        "self.momentum * mean.value + (1.0 - self.momentum) * center",
        "center",
        "Acting normalises by the last minibatch alone.",
        f"{STATISTICS}[batch]",
    ),
    mutation(
        "shards-roundings-as-gradients",
        "networks/norms.py",
        "if norm not in BATCH or not trains or not shards.axes():",
        "if True:",
        "Biases before a batch norm follow roundings, which differ from one number of devices to another.",
        f"{TAKEN_OUT}[mlp-3]",
    ),
    mutation(
        "shards-biases-without-gradient-behind-running-statistics",
        "networks/norms.py",
        "if norm not in BATCH or not trains or not shards.axes():",
        "if norm not in BATCH or not shards.axes():",
        "A bias that has an effect is not learned.",
        f"{TAKEN_OUT}[mlp-3]",
    ),
    mutation(
        "shards-input-bias-without-gradient-before-a-border",
        "networks/torsos.py",
        'return "none" if self.same else self.norm',
        "return self.norm",
        "Where a border of zeros tells where it is added, the input's bias is not learned.",
        f"{TAKEN_OUT}[grid-4]",
    ),
    mutation(
        "shards-variance-without-that-between-them",
        "networks/norms.py",
        "jnp.stack([away, var + jnp.square(away)])",
        "jnp.stack([away, var])",
        "The variance of a batch leaves out how far its shards lie apart.",
        f"{STATISTICS}[batch_renorm]",
    ),
    mutation(
        "shards-episodes-averaged",
        "programs/totals.py",
        "sums[i] / count if is_mean(name) else sums[i]",
        "sums[i] / count",
        "The number of episodes is that of one shard.",
        REPORTS,
    ),
    mutation(
        "shards-fault-of-one-lost",
        "programs/totals.py",
        "jnp.where(fault == worst, Fault.NONE, fault)",
        "jnp.where(fault <= worst, Fault.NONE, fault)",
        "A fault in one shard has no name.",
        REPORTS,
    ),
    mutation(
        "devices-shards-first",
        "programs/spread.py",
        "key=lambda pair: (pair[0] * pair[1], pair[0])",
        "key=lambda pair: (pair[0] * pair[1], pair[1])",
        "Devices are given to shards first, which must be joined in every gradient step.",
        f"{GROUPS}[2-4-devices4-groups4]",
    ),
    mutation(
        "hosts-silence-is-patience",
        "hosts/watch.py",
        "if now - heard > patience:",
        "if now - heard > 1e9:",
        "The others wait for ever for a process that was killed.",
        f"{WATCH}::test_a_silent_process_is_named",
    ),
    mutation(
        "hosts-own-failure",
        "hosts/watch.py",
        "            if number != self.place.process:\n                self._told",
        "            if number >= 0:\n                self._told",
        "A process takes its own failure for another's.",
        f"{WATCH}::test_a_failure_is_passed_on_at_once",
    ),
    mutation(
        "hosts-options-not-compared",
        "hosts/meeting.py",
        "if about.get(name) != theirs.get(name)]",
        "if name not in theirs]",
        "Processes with different options train together.",
        "hosts/test_meeting.py::test_different_options_or_versions_are_named_to_all",
    ),
    mutation(
        "simulator-shards-same-exploration",
        SHARDED,
        "tuple(fold(collect, shard) for shard in self.sharing.here)",
        "tuple(fold(collect, 0 * shard) for shard in self.sharing.here)",
        "All shards of a run on simulators explore alike.",
        INSIDE,
    ),
    mutation(
        "simulator-shards-same-minibatches",
        SHARDED,
        "self.algorithm.update(learner, given.rollout, shards.own_key(key), hyper)",
        "self.algorithm.update(learner, given.rollout, key, hyper)",
        "All shards shuffle alike, which is not what shards inside of JAX do.",
        INSIDE,
    ),
    mutation(
        "simulator-shards-reports-of-one",
        SHARDED,
        "return learner, join_shards(report(learner, metrics, given.finished))",
        "return learner, report(learner, metrics, given.finished)",
        "A row counts the episodes of one shard. JAX refuses what is not the same on all shards.",
        INSIDE,
    ),
    mutation(
        "simulator-shards-same-seeds",
        "programs/simulators/seeds.py",
        "keys if shard is None else _fold(keys, shard)",
        "keys",
        "The simulators of all shards play the same episodes.",
        f"{HOST_SHARDS}::test_shards_have_their_share_of_the_environments_and_seeds_of_their_own",
    ),
    mutation(
        "simulator-shards-all-environments-each",
        "programs/simulators/groups.py",
        "num_train = config.env.num_envs // config.shards",
        "num_train = config.env.num_envs",
        "Every shard has the environments of the whole run.",
        f"{HOST_SHARDS}::test_shards_have_their_share_of_the_environments_and_seeds_of_their_own",
    ),
    mutation(
        "simulator-shards-restored-from-the-first",
        SHARDED,
        "one.simulators.restore(saved.envs[shard])",
        "one.simulators.restore(saved.envs[0])",
        "After a resume all shards go on from the simulators of the first.",
        RESUMED,
    ),
    mutation(
        "simulator-shards-streams-of-the-first",
        SHARDED,
        "jax.tree.map(lambda x: x[:, shard], (saved.stream, saved.greedy))",
        "jax.tree.map(lambda x: x[:, 0], (saved.stream, saved.greedy))",
        "After a resume all shards act on what the first had seen.",
        RESUMED,
    ),
    mutation(
        "simulator-shards-new-episodes-alike",
        SHARDED,
        "episode_seeds(self.seeds, self.layout, update, shard)",
        "episode_seeds(self.seeds, self.layout, update)",
        "After a resume all shards start the same new episodes.",
        f"{HOST_SHARDS}::test_new_episodes_after_a_resume_are_not_those_of_the_start",
    ),
    mutation(
        "simulator-shards-not-divided-by-processes",
        SHARING,
        "if shards % count:",
        "if shards < count:",
        "A process would have a part of a shard.",
        f"{DIVIDED}[options1-4-3-shards is 4 and there are 3 processes; .* try shards 3]",
    ),
    mutation(
        "players-share-of-the-wrong-process",
        "programs/simulators/player.py",
        "uniform = of_all[part * own : (part + 1) * own]",
        "uniform = of_all[:own]",
        "Every process explores like the first one in an evaluation.",
        f"{HOST_SHARDS}::test_players_share_out_the_episodes_of_an_evaluation",
    ),
    mutation(
        "hosts-simulators-evaluated-by-one",
        SHARING,
        "(messages[:1] if same else messages)",
        "messages[:1]",
        "An evaluation has the episodes of the first process only.",
        TWO_ON_SIMULATORS,
    ),
    mutation(
        "hosts-simulators-all-from-the-first-shard",
        SHARING,
        "range(index * each, (index + 1) * each)",
        "range(0, each)",
        "Every process steps the simulators of the first shards.",
        TWO_ON_SIMULATORS,
    ),
    mutation(
        "launchers-open-mpi-without-an-address",
        "hosts/processes.py",
        '{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"} <= os.environ.keys()',
        '{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"} > os.environ.keys()',
        "Under a newer Open MPI the user is told that there is none.",
        "hosts/test_launchers.py::test_the_place_of_a_process_is_read_from_its_launcher",
    ),
    mutation(
        "fleet-failures-on-a-cluster-lost",
        "fleet/placement.py",
        "found = {outcome.arm.out.resolve(): outcome for outcome in outcomes}",
        "found = {outcome.arm.out.resolve(): Outcome(outcome.arm) for outcome in outcomes}",
        "A run that failed on Ray is reported as complete.",
        "fleet/test_arms.py::test_a_failure_elsewhere_is_told_whatever_paths_the_cluster_was_given",
    ),
    mutation(
        "reproduce-elsewhere-no-deadline",
        "experiments/placed.py",
        "if not fits(arm, self.share, self.seeds, deadline):",
        "if not fits(arm, self.share, self.seeds, Deadline(None)):",
        "Arms are begun elsewhere after the time is up.",
        f"{PLACED}::test_after_the_deadline_nothing_is_begun_elsewhere",
    ),
    mutation(
        "reproduce-elsewhere-tuples-lost",
        "experiments/placed.py",
        "tuple(_as_given(each) for each in value) if isinstance(value, list) else value",
        "value",
        "A result says that it was made with a list where a serial one says a tuple.",
        f"{PLACED}::test_an_arm_can_be_sent",
    ),
    mutation(
        "tune-record-goes-back",
        "search/study.py",
        "        with self._alone():  # also while it reads",
        "        with contextlib.nullcontext():  # also while it reads",
        "A worker writes trials over what another has written since it read them.",
        "search/test_study.py::test_a_record_never_goes_back",
    ),
]
