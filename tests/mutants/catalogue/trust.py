"""What a user is told, and what a folder of somebody else may do: answers instead of silence, data instead of code."""

from __future__ import annotations

from ..mutation import mutation

FILES, AGENT, STUDY = "runs/files.py", "agent.py", "search/study.py"

MUTATIONS = [
    mutation(
        "outputs-replace-devices",
        FILES,
        'if kind not in (None, "a file"):\n        raise RunError(f"cannot write {path}: it is {kind}; name a file")',
        "if False:\n        raise RunError(path)",
        "`-o /dev/null` replaces the device by a file.",
        "runs/test_files.py::test_only_a_file_is_replaced",
    ),
    mutation(
        "outputs-replace-links",
        FILES,
        "return Path(os.path.realpath(path))\n\n\ndef write_atomically",
        "return Path(path)\n\n\ndef write_atomically",
        "A link of the user's is replaced by a file.",
        "runs/test_files.py::test_a_link_of_the_user_leads_to_the_file",
    ),
    mutation(
        "journal-keeps-torn-lines",
        STUDY,
        "if whole < size:",
        "if False:",
        "A worker that is killed while it writes makes the search unreadable.",
        "search/test_study.py::test_a_line_torn_by_a_kill_does_not_end_the_search",
    ),
    mutation(
        "agent-numbers-overflow",
        AGENT,
        "fits = _all_finite(cast) if rounded else np.array_equal(array, cast)",
        "fits = rounded or np.array_equal(array, cast)",
        "An observation that is too large for its type becomes infinity.",
        "test_play.py::test_numbers_that_the_type_cannot_hold",
    ),
    mutation(
        "agent-team-without-the-dead",
        AGENT,
        "mask.any(axis=(-2, -1)).all()",
        "mask.any(axis=-1).all()",
        "A team cannot act once one of its members is dead.",
        "test_agent.py::test_an_agent_of_a_team_may_have_no_legal_action",
    ),
    mutation(
        "callbacks-remember-the-last-run",
        "training/loop.py",
        "        begin(callbacks)\n",
        "",
        "A callback ends a run because of what it saw in another.",
        "training/test_callbacks.py::test_one_object_for_one_run_after_the_other",
    ),
    mutation(
        "interrupt-swallowed-by-imports",
        "cli/interrupts.py",
        "if _importing(frame):",
        "if False:",
        "Ctrl-C while JAX is imported is taken for an error of a library, and training goes on.",
        "cli/test_interrupts.py::test_while_something_is_imported_it_ends_the_process",
    ),
    mutation(
        "sweep-varies-the-name-of-the-preset",
        "config.py",
        'if name == "preset":',
        "if False:",
        "A sweep over presets trains one of them under the names of the others.",
        "test_bad_input.py::test_a_command_line_that_is_wrong",
    ),
    mutation(
        "results-of-other-types",
        "experiments/envelope.py",
        "            _check_types(part)\n",
        "            pass\n",
        "A result whose numbers are texts ends a report in a traceback.",
        "experiments/test_envelope.py::test_a_result_that_contradicts_itself_is_refused",
    ),
    mutation(
        "seed-of-another-run",
        "runs/opened.py",
        "if not 0 <= index < count:",
        "if False:",
        "A seed that was not trained is answered with another one's weights.",
        "test_training.py::test_agent_acts_like_the_trained_network",
    ),
]
