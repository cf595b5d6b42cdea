"""What the page says about one run, section by section."""

from __future__ import annotations

import math
import shlex

import numpy as np

from pqn.progress import clock, human
from pqn.report.html import commands
from pqn.report.html.comparison import outcome
from pqn.report.html.gather import RunRecord, number_of, shorten, text_of
from pqn.report.html.markup import Child, Html, element
from pqn.report.html.tables import NONE, cell, number, table, value
from pqn.runs.configs import flat

MOST_SEEDS = 64  # rows of the evaluation's table


def heading(run: RunRecord) -> list[Child]:
    """What was trained, and whether it has ended."""
    complete = run.summary is not None
    state = "complete" if complete else f"not complete: {human(run.steps)} of {human(run.config.steps)} steps"
    return [
        element("span", run.config.env.name, class_="tag"),
        element("span", f"preset {run.config.preset}", class_="tag"),
        element("span", f"{run.config.seeds} seed{'s' if run.config.seeds > 1 else ''}", class_="tag"),
        element("span", f"{human(run.steps)} steps each", class_="tag"),
        element("span", state, class_="tag good" if complete else "tag open"),
    ]


def cards(run: RunRecord) -> Html:
    """The numbers that one looks for first."""
    found, summary = outcome(run), run.summary or {}
    seconds, compiling = number_of(summary, "wall_seconds"), number_of(summary, "compile_seconds")
    speed = number_of(summary, "steps_per_second")
    device = text_of(summary, "device") or text_of(run.provenance, "device")
    interval = "" if math.isnan(found.low) else f"95 % interval {number(found.low)} to {number(found.high)}"
    several = run.config.seeds > 1
    entries = [
        ("Greedy return" + (", IQM over seeds" if several else ""), number(found.iqm), interval),
        ("Mean over the run", number(found.over_run), "of all greedy evaluations"),
        ("Speed", NONE if speed is None else f"{human(speed)}/s", "environment steps, all seeds together"),
        (
            "Time",
            NONE if seconds is None else clock(seconds),
            f"{compiling:.1f} s of it compiling" if compiling else "",
        ),
        ("Device", device or NONE, ""),
    ]
    return element(
        "dl",
        [
            element(
                "div",
                element("dt", name),
                element("dd", value, class_="long" if len(value) > 12 else None),
                element("dd", note, class_="note") if note else None,
            )
            for name, value, note in entries
        ],
        class_="cards",
    )


def evaluation(run: RunRecord) -> Child:
    """A table of the last greedy evaluation: one row for each seed."""
    last = run.evaluation
    if last is None:
        return element("p", "No greedy evaluation was made yet.")
    rows = []
    for index, values in enumerate(last.returns[:MOST_SEEDS]):
        known = values[~np.isnan(values)]
        numbers = (
            [known.mean(), known.std(), known.min(), np.median(known), known.max()] if len(known) else [math.nan] * 5
        )
        cells = [run.config.seed + index, *map(float, numbers), len(values), len(values) - len(known)]
        rows.append([cell(value) for value in cells])
    names = ("seed", "mean", "std", "lowest", "median", "highest", "episodes", "unfinished")
    how = "greedy, the first full episode of each environment; unfinished episodes are in no mean"
    note = f"After {last.step} steps: {how}."
    left = len(last.returns) - MOST_SEEDS
    return [
        table(names, rows, "Last greedy evaluation", hidden=True),
        element("p", note + (f" {left} more seeds are not shown." if left > 0 else ""), class_="note"),
    ]


def stability(run: RunRecord) -> Child:
    """What `pqn stability` measured."""
    found = run.stability
    if found is None:
        return None
    names = {
        "largest eigenvalue of the symmetrised TD Jacobian": ("largest", "value"),
        "of it, off-policy": ("largest", "off_policy"),
        "of it, from the nonlinear network": ("largest", "nonlinear"),
        "smallest eigenvalue (fastest contraction)": ("smallest",),
        "largest, with the theorem's ℓ2": ("regularised", "value"),
        "along the update that is being taken": ("update", "value"),
        "root mean square TD error": ("td_rms",),
        "parameters": ("parameters",),
        "transitions": ("transitions",),
    }
    rows = [[name, cell(number_of(found, *path))] for name, path in names.items()]
    largest = number_of(found, "largest", "value")
    verdict = (
        "The largest eigenvalue is missing."
        if largest is None
        else f"The largest eigenvalue is {number(largest)}: along its worst direction the expected update "
        + ("pushes away." if largest > 0 else "contracts.")
    )
    step = text_of(found, "step")
    return [
        element("p", verdict, f" Measured after {step} steps." if step else None),
        table(("quantity", "value"), rows, "Stability of TD learning", sortable=False, hidden=True),
    ]


def pictures(run: RunRecord) -> Child:
    """Films of the agent."""
    shown: list[Child] = []
    for picture in run.pictures:
        label = f"{picture.name} of {run.label}"
        film = (
            element("video", controls=True, muted=True, loop=True, playsinline=True, src=picture.uri, aria_label=label)
            if picture.is_film
            else element("img", src=picture.uri, alt=label)
        )
        shown.append(element("figure", film, element("figcaption", picture.name)))
    return element("div", shown, class_="films") if shown else None


def configuration(run: RunRecord) -> list[Child]:
    """What differs from the preset, and every option."""
    against = "the preset" if run.preset is not None else "the defaults"
    rows = [[element("code", name), value(here), value(there)] for name, (here, there) in run.changed.items()]
    changed = (
        table(("option", "this run", against), rows, f"Options that differ from {against}", sortable=False)
        if rows
        else element("p", f"Every option has the value of {against}.")
    )
    everything = [[element("code", name), value(entry)] for name, entry in flat(run.config).items()]
    return [
        changed,
        element(
            "details",
            element("summary", f"All {len(everything)} options"),
            table(("option", "value"), everything, "All options", sortable=False),
        ),
    ]


def provenance(run: RunRecord) -> Html:
    """Versions, commit, machine. The name of the machine is left out: a report is sent to others."""
    source = run.provenance
    words = source.get("command")
    command = shlex.join(map(str, words)) if isinstance(words, list) else None
    commit = text_of(source, "git", "commit")
    git = source.get("git")
    dirty = isinstance(git, dict) and git.get("dirty") is True
    entries = {
        "date": text_of(source, "time"),
        "command": None if command is None else shorten(command),
        "commit": commit and f"{commit}{', with changes that are not committed' if dirty else ''}",
        "platform": text_of(source, "platform"),
        "CPU cores": text_of(source, "cpus"),
        "device": text_of(source, "device"),
        "run": text_of(source, "run"),
        **run.versions,
    }
    rows = [[name, element("code", entry)] for name, entry in entries.items() if entry]
    return table(("what", "value"), rows, "Versions and origin", sortable=False, hidden=True)


def go_on(run: RunRecord) -> Html:
    """Commands, each with a button that copies it."""
    again = commands.reproduce(run)
    entries = {"Resume": commands.resume(run), "Evaluate": commands.evaluate(run), "Reproduce": again}
    shown = [command_line(name, command) for name, command in entries.items() if command]
    if again is None:
        shown.append(element("p", "The environment was given in Python: only that code can train this again."))
    return element("div", shown, class_="commands")


def command_line(name: str, command: str) -> Html:
    """A command with its name and a button that copies it."""
    return element(
        "div",
        element("span", name, class_="name"),
        element("pre", element("code", command), tabindex="0"),
        element("button", "Copy", type="button", class_="copy", aria_label=f"Copy the command: {name}"),
        class_="command",
    )
