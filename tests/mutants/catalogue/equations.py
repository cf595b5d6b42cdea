"""Equations: λ-returns and exploration."""

from __future__ import annotations

from ..mutation import mutation

MUTATIONS = [
    mutation(
        "returns-lambda-swapped",
        "returns.py",
        "(1.0 - lam) * next_value + lam * following",
        "lam * next_value + (1.0 - lam) * following",
        "λ weighs the one-step value instead of the longer return.",
        "test_returns.py::test_matches_the_definition",
    ),
    mutation(
        "returns-start-from-nothing",
        "returns.py",
        "backwards, next_values[-1], (",
        "backwards, 0.0 * next_values[-1], (",
        "The last return of a rollout gives λ of its weight to 0 instead of V(s_T).",
        "test_returns.py::test_matches_the_definition",
    ),
    mutation(
        "returns-forwards",
        "returns.py",
        "reverse=True",
        "reverse=False",
        "Returns are accumulated from the past instead of the future.",
        "test_returns.py::test_matches_the_definition",
    ),
    mutation(
        "exploration-mask-ignored-by-argmax",
        "exploration.py",
        "greedy = jnp.argmax(masked(q, avail), axis=-1)",
        "greedy = jnp.argmax(q, axis=-1)",
        "The greedy action may be illegal.",
        "test_exploration.py::test_illegal_actions_are_never_chosen_nor_bootstrapped_from",
    ),
    mutation(
        "exploration-mask-ignored-by-target",
        "exploration.py",
        "jnp.max(masked(q, avail), axis=-1), 0.0)",
        "jnp.max(q, axis=-1), 0.0)",
        "Targets bootstrap from actions that are not legal.",
        "test_exploration.py::test_illegal_actions_are_never_chosen_nor_bootstrapped_from",
    ),
    mutation(
        "exploration-illegal-worth-nothing",
        "exploration.py",
        "jnp.finfo(q.dtype).min)",
        "0.0)",
        "An illegal action counts as 0, which is the best where all values are negative.",
        "test_exploration.py::test_illegal_actions_are_never_chosen_nor_bootstrapped_from",
    ),
    mutation(
        "exploration-never-the-last-action",
        "exploration.py",
        "explore = jnp.minimum(position * choices, choices - 1)",
        "explore = jnp.minimum(position * (choices - 1), choices - 1)",
        "Random actions never include the last one.",
        "test_exploration.py::test_frequencies[None-0.5]",
    ),
    mutation(
        "exploration-legal-rank-off-by-one",
        "exploration.py",
        "> rank[..., None]",
        ">= rank[..., None]",
        "Among masked actions the random one is off by one.",
        "test_exploration.py::test_frequencies[avail1-0.5]",
    ),
    mutation(
        "exploration-inverted",
        "exploration.py",
        "jnp.where(uniform < epsilon, explore, greedy)",
        "jnp.where(uniform < epsilon, greedy, explore)",
        "ε is the probability of acting greedily.",
        "test_exploration.py::test_greedy_without_exploration",
    ),
    mutation(
        "exploration-schedule-stops-early",
        "exploration.py",
        "1e-8), 0.0, 1.0)",
        "1e-8), 0.0, 0.9)",
        "ε and the learning rate never reach the end of their schedule.",
        "test_exploration.py::test_linear_schedule",
    ),
]
