"""Shards, devices and processes: mistakes that would change numbers, or leave a process waiting for ever."""

from __future__ import annotations

from ..mutation import mutation

BY_HAND = "test_shards.py::test_an_update_is_that_of_shards_joined_by_hand"
STATISTICS = "test_shards.py::test_batch_statistics_are_those_of_all_shards"
TAKEN_OUT = "test_shards.py::test_what_a_batch_norm_takes_out_has_no_gradient"
REPORTS = "test_shards.py::test_reports_are_joined_by_what_they_are"
GROUPS = "programs/test_spread.py::test_devices_are_given_to_seeds_first_and_then_to_shards"
WATCH = "hosts/test_watch.py"

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
        "axis_name=axes)(x)",
        "axis_name=None)(x)",
        "Every shard normalises by its own batch.",
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
]
