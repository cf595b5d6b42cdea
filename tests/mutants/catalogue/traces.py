"""Traces that are rewritten, and Craftax on two of its floors."""

from __future__ import annotations

from ..mutation import mutation

TRACES = "traces.py"
FLOORS = "envs/adapters/craftax_floors.py"
CHOICE = "test_traces.py::test_a_small_update_is_a_choice_with_the_same_result"
BOUNDED = "test_traces.py::test_a_floor_beyond_the_second_is_the_second"
STEPS = "envs/adapters/test_craftax_floors.py::test_every_step_is_that_of_the_package[18-50]"
GOD = "envs/adapters/test_craftax_floors.py::test_with_god_mode_a_step_down_is_one_floor"

MUTATIONS = [
    mutation(
        "traces-set-adds",
        TRACES,
        'old + update if eqn.primitive.name == "scatter-add" else update',
        "old + update",
        "On a GPU, environments add where they should replace.",
        CHOICE,
    ),
    mutation(
        "traces-every-bit-is-touched",
        TRACES,
        'jnp.where(here, old + update if eqn.primitive.name == "scatter-add" else update, old)',
        'old + jnp.where(here, update, 0) if eqn.primitive.name == "scatter-add" else jnp.where(here, update, old)',
        "A number that nobody changed loses its sign if it is −0.",
        "test_traces.py::test_a_sum_leaves_every_other_bit_alone",
    ),
    mutation(
        "traces-any-axis-is-enough",
        TRACES,
        "here = here & (",
        "here = here if place else (",
        "An update of one square changes its whole row.",
        CHOICE,
    ),
    mutation(
        "traces-clipped-updates-are-dropped",
        TRACES,
        "not (one_place and drops)",
        "not one_place",
        "An update that is to land on the border of an array is lost.",
        "test_traces.py::test_other_updates_stay_as_they_are",
    ),
    mutation(
        "traces-partial-windows-are-chosen",
        TRACES,
        "length != (1 if axis in chosen else operand.shape[axis])",
        "False",
        "An update of two rows fails or is laid over the wrong rows.",
        "test_traces.py::test_other_updates_stay_as_they_are",
    ),
    mutation(
        "traces-loops-keep-their-updates",
        TRACES,
        'if eqn.primitive.name in ("scan", "while", "cond", "jit"):',
        'if eqn.primitive.name in ("scan", "cond", "jit") and not eqn.params.get("length"):',
        "What an environment does in its loops is not rewritten.",
        f"{CHOICE}[in a loop]",
    ),
    mutation(
        "traces-all-indices-bounded",
        TRACES,
        "jnp.where(level, jnp.minimum(indices, last), indices)",
        "jnp.minimum(indices, last)",
        "Every square beyond the second row is taken for one of the second.",
        BOUNDED,
    ),
    mutation(
        "traces-writes-are-not-bounded",
        TRACES,
        "as_traced(eqn, x, y, jnp.minimum(first, last), *rest)",
        "as_traced(eqn, x, y, first - last, *rest)",
        "What is built on a lower floor is built on the ground floor.",
        f"{BOUNDED}[write a window]",
    ),
    mutation(
        "floors-another-floor",
        FLOORS,
        "jax.lax.dynamic_index_in_dim(floors, floor, keepdims=False)",
        "floors[1]",
        "Craftax's player sees the first dungeon on every floor below it.",
        STEPS,
    ),
    mutation(
        "floors-nothing-is-kept",
        FLOORS,
        "two[1], floor, 0)",
        "two[1], floor * 0 + 1, 0)",
        "What happens on a lower floor is written into the first dungeon.",
        STEPS,
    ),
    mutation(
        "floors-ground-is-forgotten",
        FLOORS,
        "floors.at[0].set(two[0])",
        "floors",
        "Plants on the ground floor never ripen, and nothing built there stays.",
        STEPS,
    ),
    mutation(
        "floors-new-floor-unrewarded",
        FLOORS,
        "self._reward(state, after)",
        "self._reward(moved, after)",
        "Entering a floor for the first time is not rewarded.",
        STEPS,
    ),
    mutation(
        "floors-sleepers-climb",
        FLOORS,
        "jnp.where(jnp.logical_or(state.is_sleeping, state.is_resting), self._noop, action)",
        "action",
        "A player who sleeps on a ladder changes the floor.",
        STEPS,
    ),
    mutation(
        "floors-climbed-twice",
        FLOORS,
        "jnp.where(jnp.any(action == self._stairs), self._noop, action)",
        "action",
        "With god_mode one step down is two floors.",
        GOD,
    ),
    mutation(
        "migrations-wide-maps",
        "runs/migrations.py",
        "return _narrowed(contents)",
        "return contents",
        "A run of Craftax by an older version cannot be resumed.",
        "runs/test_migrations.py::test_maps_of_craftax_become_as_narrow_as_they_are_now",
    ),
]
