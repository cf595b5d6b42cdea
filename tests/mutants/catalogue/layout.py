"""How a run's state and options are laid out: in memory, in checkpoints, and in those of older versions."""

from __future__ import annotations

from ..mutation import mutation

PACKING = "algorithms/packing.py"
MIGRATIONS = "runs/migrations.py"
UNPACKED = "algorithms/test_packing.py::test_unpacked_is_what_was_packed"
PACKED_AGAIN = "algorithms/test_packing.py::test_a_state_that_was_named_is_packed_again_to_the_bit"
SNAPSHOT = "programs/test_snapshot.py::test_a_restored_state_is_the_saved_one_to_the_bit"
NAMES = "runs/test_migrations.py::test_numbers_become_names"
OLD_NAMES = "test_config.py::test_the_names_of_older_runs_are_read"

MUTATIONS = [
    mutation(
        "packing-small-arrays-exchanged",
        PACKING,
        "iter(_split(next(rest), ends))",
        "iter(_split(next(rest), ends)[-2::-1])",
        "After a gradient step, small arrays have each other's numbers.",
        f"{UNPACKED}[CPU-mixed]",
    ),
    mutation(
        "packing-vector-of-odd-length",
        PACKING,
        "rest = -sum(leaf.size for leaf in small) % ALIGNED",
        "rest = 0",
        "Where the parameters are an odd number of numbers, an optimiser takes five times as long on two cores.",
        "algorithms/test_packing.py::test_small_arrays_are_one_vector_and_large_ones_follow",
    ),
    mutation(
        "packing-large-arrays-exchanged",
        PACKING,
        "in zip(leaves, is_turned, strict=True) if",
        "in reversed(list(zip(leaves, is_turned, strict=True))) if",
        "After a gradient step, two large matrices of one shape have changed places.",
        f"{UNPACKED}[CPU-mixed]",
    ),
    mutation(
        "packing-vector-in-another-order",
        PACKING,
        "small = [leaf.reshape(-1) for leaf in leaves if",
        "small = [leaf.reshape(-1) for leaf in leaves[::-1] if",
        "The vector is unpacked in another order than it was packed in: every small array gets numbers of others.",
        f"{UNPACKED}[CPU-all small]",
    ),
    mutation(
        "packing-two-limits",
        PACKING,
        "tuple(leaf.size >= LARGE for leaf in leaves)",
        "tuple(leaf.size > LARGE for leaf in leaves)",
        "An array of exactly the limit is packed as a large one and unpacked as a small one.",
        f"{UNPACKED}[CPU-mixed]",
    ),
    mutation(
        "packing-columns-for-rows",
        PACKING,
        "return part.reshape(*part.shape[:-1], *shape)",
        'return part.reshape(*part.shape[:-1], *shape, order="F")',
        "Matrices are unpacked column by column.",
        f"{UNPACKED}[CPU-mixed]",
    ),
    mutation(
        "packing-turned-and-not-turned-back",
        PACKING,
        "return next(rest).swapaxes(-1, -2) if turned else next(rest)",
        "part = next(rest); return part.reshape(*part.shape[:-2], *shape) if turned else part",
        "On a CPU, tall matrices are unpacked with their numbers in another order.",
        f"{UNPACKED}[CPU-mixed]",
    ),
    mutation(
        "layer-norm-mean-of-other-channels",
        "networks/norms.py",
        "jnp.full((x.shape[-1], 1), 1.0 / x.shape[-1], x.dtype)",
        "jnp.full((x.shape[-1], 1), 1.0 / x.shape[-2], x.dtype)",
        "On a CPU, LayerNorm of images subtracts a multiple of the mean.",
        "networks/test_networks.py::test_layer_norm_is_flaxs_with_its_gradients",
    ),
    mutation(
        "packing-layout-in-the-checkpoint",
        PACKING,
        "x.unpack() if _is_packed(x) else x",
        "x",
        "Checkpoints hold the optimiser's memory layout, and the next layout cannot resume them.",
        "algorithms/test_packing.py::test_a_named_state_has_the_trees_that_were_packed",
    ),
    mutation(
        "packing-optimiser-lost-at-a-resume",
        PACKING,
        "jax.vmap(pack)(part) if _is_packed(place) else part",
        "place if _is_packed(place) else part",
        "A resumed run starts with the moments of a new optimiser.",
        PACKED_AGAIN,
    ),
    mutation(
        "packing-moments-exchanged-at-a-resume",
        PACKING,
        "parts = structure.flatten_up_to(state)",
        "parts = structure.flatten_up_to(state)\n"
        "    packs = [i for i, place in enumerate(places) if _is_packed(place)]\n"
        "    parts = [parts[packs[::-1][packs.index(i)]] if i in packs else part for i, part in enumerate(parts)]",
        "After a resume the optimiser takes the means of the gradients for those of their squares.",
        PACKED_AGAIN,
    ),
    mutation(
        "program-moments-exchanged-at-a-resume",
        "programs/base.py",
        "return packed_again(saved, like)",
        "return packed_again(saved._replace(opt=saved.opt._replace(mu=saved.opt.nu, nu=saved.opt.mu)), like)",
        "After a resume the optimiser takes the means of the gradients for those of their squares.",
        SNAPSHOT,
    ),
    mutation(
        "program-layout-in-the-checkpoint",
        "programs/compiled.py",
        "state._replace(learner=saved_learner(state.learner))",
        "state",
        "Checkpoints hold the optimiser's memory layout, and the next layout cannot resume them.",
        SNAPSHOT,
    ),
    mutation(
        "renamed-old-values-not-read",
        "renamed.py",
        "VALUES.get(old, {}).get(value, value)",
        "VALUES.get(new, {}).get(value, value)",
        "A run of an older version cannot be read, since a value of its has another name now.",
        "test_config.py::test_the_names_of_older_runs_are_read",
    ),
    mutation(
        "migration-moments-in-another-order",
        MIGRATIONS,
        "pieces = iter(np.split(vector, np.cumsum(np.array(small, int))[:-1], axis=-1))",
        "pieces = iter(np.split(vector[:, ::-1], np.cumsum(np.array(small, int))[:-1], axis=-1))",
        "A run of an older version goes on with moments that belong to other parameters.",
        NAMES,
    ),
    mutation(
        "migration-large-moments-in-another-order",
        MIGRATIONS,
        "rest = iter(packed)",
        "rest = iter(packed[::-1])",
        "Two large matrices of one shape get each other's moments.",
        f"{NAMES}[shapes1]",
    ),
    mutation(
        "migration-mu-from-nu",
        MIGRATIONS,
        "packed = [contents.arrays[name] for name in",
        'packed = [contents.arrays[name.replace("/mu/", "/nu/")] for name in',
        "A run of an older version goes on with squares of gradients for their means.",
        NAMES,
    ),
    mutation(
        "migration-another-limit",
        MIGRATIONS,
        "LARGE = 2**17",
        "LARGE = 2**17 - 2**9",
        "Runs of an older version with a matrix just below the limit are said not to be resumable.",
        NAMES,
    ),
    mutation(
        "migration-only-of-mu",
        MIGRATIONS,
        "    for prefix in MOMENTS:\n",
        "    for prefix in MOMENTS[:1]:\n",
        "Half of an older optimiser's state keeps numbers for names, and the run cannot go on.",
        NAMES,
    ),
    mutation(
        "renamed-into-another-option",
        "renamed.py",
        '"eval.beside": "simulators.greedy_envs"',
        '"eval.beside": "eval.num_envs"',
        "An old run's greedy environments are read as the number of its evaluation episodes.",
        OLD_NAMES,
    ),
    mutation(
        "renamed-value-not-translated",
        "renamed.py",
        'VALUES = {"env.cores": {"apart": "reserved"}}',
        "VALUES: dict = {}",
        "Runs that reserved cores under the old name cannot be read.",
        OLD_NAMES,
    ),
    mutation(
        "renamed-two-options-exchanged",
        "renamed.py",
        '    "save.logs": "log.rows",\n',
        '    "save.logs": "save.checkpoints",\n',
        "An old run's number of rows is read as its number of checkpoints.",
        OLD_NAMES,
    ),
    mutation(
        "renamed-what-was-given-is-changed",
        "renamed.py",
        "{name: dict(part) if isinstance(part, Mapping) else part for name, part in data.items()}",
        "dict(data)",
        "Reading a configuration changes the caller's own, and reading it again gives another.",
        OLD_NAMES,
    ),
]
