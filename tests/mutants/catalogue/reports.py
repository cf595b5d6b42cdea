"""Reports: what a page says of runs, and what it must never let through."""

from __future__ import annotations

from ..mutation import mutation

STATISTICS = "report/statistics.py"
MARKUP = "report/html/markup.py"
PAGE = "report/html/page.py"
TRUST = "report/html/test_report.py::test_no_text_of_a_run_becomes_markup"

MUTATIONS = [
    mutation(
        "improvement-draws-count-for-nothing",
        STATISTICS,
        "won = (ours > theirs) + 0.5 * (ours == theirs)",
        "won = (ours > theirs) + 0.0 * (ours == theirs)",
        "Two equal runs are each said to be probably worse than the other.",
        "report/test_statistics.py::test_probability_of_improvement_by_counting_pairs",
    ),
    mutation(
        "improvement-counts-missing-scores",
        STATISTICS,
        "known = ~np.isnan(ours) & ~np.isnan(theirs)",
        "known = ~np.isnan(ours) | ~np.isnan(theirs)",
        "A seed without a finished episode counts as a loss.",
        "report/test_statistics.py::test_probability_of_improvement_leaves_missing_scores_out",
    ),
    mutation(
        "improvement-resamples-one-side",
        STATISTICS,
        "sides.append(scores[rng.integers(runs, size=(resamples, runs, tasks)), np.arange(tasks)])",
        "sides.append(np.broadcast_to(scores, (resamples, runs, tasks)) if sides else "
        "scores[rng.integers(runs, size=(resamples, runs, tasks)), np.arange(tasks)])",
        "The interval of an improvement ignores how few runs the other side has.",
        "report/test_statistics.py::test_the_interval_of_an_improvement_matches_enumeration",
    ),
    mutation(
        "report-text-is-markup",
        MARKUP,
        "parts.append(html.escape(_visible(child)))",
        "parts.append(_visible(child))",
        "The name of an environment can run a script in the page of whoever opens the report.",
        TRUST,
    ),
    mutation(
        "report-attributes-are-markup",
        MARKUP,
        """f' {name}="{html.escape(_visible(str(value)))}"'""",
        """f' {name}="{_visible(str(value))}"'""",
        "The name of a film can end its attribute and begin another element.",
        TRUST,
    ),
    mutation(
        "report-data-ends-its-element",
        MARKUP,
        """for letter in "<>&\\u2028\\u2029":""",
        """for letter in "&\\u2028\\u2029":""",
        "Numbers of a run are followed by whatever script their neighbour brings.",
        "report/html/test_report.py::test_markup_escapes_by_construction",
    ),
    mutation(
        "report-allows-any-script",
        PAGE,
        "script-src {_hash(_script())}",
        "script-src 'unsafe-inline'",
        "A mistake in the escaping of a text becomes a script that runs.",
        "report/html/test_report.py::test_the_page_allows_its_own_script_and_nothing_else",
    ),
    mutation(
        "report-believes-the-name-of-a-film",
        "report/html/media.py",
        "if content[place : place + len(magic)] != magic:",
        "if content[place : place + len(magic)] == b'':",
        "A file that calls itself a film is handed to the browser as one.",
        "report/html/test_report.py::test_films_that_are_too_large_or_none_are_said_and_left_out",
    ),
    mutation(
        "report-commands-are-not-quoted",
        "report/html/commands.py",
        """return shlex.join(["pqn", "resume", _place(run.path)])""",
        """return " ".join(["pqn", "resume", _place(run.path)])""",
        "A directory's name runs another command in the shell of whoever copies the line.",
        "report/html/test_report.py::test_commands_quote_what_they_are_given",
    ),
    mutation(
        "report-reproduces-without-changes",
        "report/html/commands.py",
        "words += _option(name, value, before)",
        "words += _option(name, before, before)",
        "The command that reproduces a run trains the preset instead.",
        "report/html/test_report.py::test_the_command_trains_the_same_once_more",
    ),
    mutation(
        "report-compares-environments",
        "report/html/comparison.py",
        "groups.setdefault(run.config.env.name, []).append(place)",
        "groups.setdefault('', []).append(place)",
        "Returns of two games are compared as if they were of one.",
        "report/html/test_report.py::test_runs_in_different_environments_are_not_compared",
    ),
    mutation(
        "report-bands-without-seeds",
        "report/html/charts.py",
        "band = aggregate_curve(self.values, resamples=RESAMPLES)",
        "band = aggregate_curve(self.values[:, :1], resamples=RESAMPLES)",
        "Line and band of a chart are those of the first seed.",
        "report/html/test_report.py::test_a_page_shows_what_the_files_say",
    ),
]
