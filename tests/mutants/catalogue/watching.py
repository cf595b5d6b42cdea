"""Films, runs under way, exported agents, plots."""

from __future__ import annotations

from ..mutation import mutation

EPISODES, COMPOSE, SIMULATED = "watch/episodes.py", "watch/compose.py", "watch/simulated.py"
LIVE, MODEL, FORMATS, HUB = "watch/live.py", "export/model.py", "export/formats.py", "export/hub.py"
FILM_TESTS, LIVE_TESTS = "watch/test_film.py", "watch/test_live.py"
AS_EVALUATED = f"{FILM_TESTS}::test_memory_and_exploration_are_those_of_an_evaluation"
EPISODE = "export/test_formats.py::test_an_episode_goes_as_the_agents_does"

MUTATIONS = [
    mutation(
        "watch-other-games",
        EPISODES,
        "stream, result = begin(reset_key)",
        "stream, result = begin(explore_key)",
        "A film shows other games than the evaluation of the same seed.",
        AS_EVALUATED,
    ),
    mutation(
        "watch-forgets",
        EPISODES,
        "**seen._asdict(), carry=carry)",
        "**seen._asdict())",
        "An agent with memory is filmed without it.",
        AS_EVALUATED,
    ),
    mutation(
        "watch-same-draw-at-every-step",
        EPISODES,
        "jax.random.fold_in(explore_key, t)",
        "jax.random.fold_in(explore_key, 0)",
        "An agent that explores repeats itself in a film.",
        AS_EVALUATED,
    ),
    mutation(
        "watch-end-of-an-episode-is-the-next-ones-start",
        COMPOSE,
        "if moment.after is not None:\n        end = _painted(painter, moment, place, over=True)",
        "if moment.after is None:\n        end = _painted(painter, moment, place, over=True)",
        "The end of an episode is never seen.",
        f"{FILM_TESTS}::test_an_environment_of_ones_own_draws_itself_to_the_end",
    ),
    mutation(
        "watch-first-seed-plays",
        "watch/film.py",
        "index = opened.index_of(options.train_seed)",
        "index = 0",
        "A film of one seed shows another.",
        f"{FILM_TESTS}::test_the_episodes_are_those_of_an_evaluation",
    ),
    mutation(
        "watch-simulators-with-other-seeds",
        SIMULATED,
        "env_seeds(reset_key[None], episodes)",
        "env_seeds(explore_key[None], episodes)",
        "A film of a simulator shows other games than its evaluation.",
        f"{FILM_TESTS}::test_a_simulator_draws_itself",
    ),
    mutation(
        "watch-atari-without-its-time-limit",
        "envs/adapters/atari.py",
        "self._twin.restart(up)",
        "pass",
        "After a time limit, the film shows a game that the agent does not play.",
        "envs/adapters/test_rendering.py::test_ataris_colours_are_of_the_same_game",
    ),
    mutation(
        "watch-outcome-after-the-reset",
        "envs/autoreset.py",
        "return out.state, self._per_agent(out.obs)",
        "return state.inner, self._per_agent(out.obs)",
        "The last picture of an episode is one step old.",
        f"{FILM_TESTS}::test_an_environment_of_ones_own_draws_itself_to_the_end",
    ),
    mutation(
        "watch-a-dead-process-trains",
        LIVE,
        "return False  # closing the file lets go of it at once",
        "return True  # closing the file lets go of it at once",
        "`pqn watch` waits for ever for a run whose process number was given away.",
        f"{LIVE_TESTS}::test_the_lock_tells_who_is_alive",
    ),
    mutation(
        "watch-stopped-is-finished",
        LIVE,
        'phase="finished" if done else "stopped"',
        'phase="finished"',
        "A run that was killed is called finished.",
        f"{LIVE_TESTS}::test_a_run_that_nobody_trains_is_stopped",
    ),
    mutation(
        "export-without-the-mask",
        MODEL,
        "jnp.argmax(masked(scores, avail), axis=-1)",
        "jnp.argmax(scores, axis=-1)",
        "An exported agent takes illegal actions.",
        "export/test_formats.py::test_masks_decide",
    ),
    mutation(
        "export-memory-in-the-wrong-place",
        MODEL,
        "jax.tree.unflatten(self._structure, carry)",
        "jax.tree.unflatten(self._structure, carry[::-1])",
        "The parts of an exported agent's memory are exchanged.",
        f"{EPISODE}[lstm]",
    ),
    mutation(
        "export-ignores-starts",
        MODEL,
        'first = self._with_agents(given["first"]) if "first" in given',
        'first = ~self._with_agents(given["first"]) if "first" in given',
        "An exported agent clears its memory at every step but the first.",
        f"{EPISODE}[gru]",
    ),
    mutation(
        "export-never-compares",
        FORMATS,
        "if not difference <= TOLERANCE:",
        "if difference < 0:",
        "A file that computes something else is written.",
        "export/test_formats.py::test_a_wrong_translation_is_not_written",
    ),
    mutation(
        "export-pushes-what-a-link-points-to",
        HUB,
        " and not (run / name).is_symlink()",
        "",
        "A link in somebody's run makes `pqn push` upload any file of the user's.",
        "export/test_hub.py::test_a_video_goes_along",
    ),
    mutation(
        "plot-means-of-rows",
        "runs/columns.py",
        "np.nan_to_num(values) * weights[:, None], starts)",
        "np.nan_to_num(values), starts)",
        "A curve of the loss weighs rows of few updates like rows of many.",
        "runs/test_columns.py::test_neighbouring_rows_are_pooled_by_their_updates",
    ),
    mutation(
        "plot-clips",
        "report/style.py",
        "figure.set_size_inches(width + columns * wide, height + rows * tall)",
        "figure.set_size_inches(width, height)",
        "Long legends and titles are cut off.",
        "report/test_figures.py::test_nothing_is_clipped",
    ),
]
