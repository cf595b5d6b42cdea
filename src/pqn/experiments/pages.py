"""Tables as Markdown: a page for each experiment, the overview, and the README's table. All of it from results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pqn.errors import ConfigError
from pqn.experiments import numbers, runner, theory_tables
from pqn.experiments.chosen import RULE, Choice, choices, results, retired
from pqn.experiments.numbers import Chosen
from pqn.experiments.paper import EXPERIMENTS, Arm, Experiment, experiment
from pqn.experiments.speed_table import speed_table
from pqn.experiments.tables import (
    NOTHING,
    caption,
    cell,
    counted,
    drawn,
    estimate_text,
    improvement_table,
    number_text,
    percent,
    public_name,
    results_table,
    row,
    seeds,
    shares,
    unit,
)
from pqn.progress import clock, human


def page(entry: Experiment, out: Path) -> str:
    """The page of an experiment."""
    chosen = choices(entry, out)
    parts = [f"# {entry.title}", _introduction(entry)]
    parts += ["## Results", results_table(entry, out, chosen), caption(entry, chosen)] if chosen else []
    if chosen and drawn(entry, chosen):
        parts += ["![Learning curves](curves.png)", _figure_caption(entry, chosen)]
    parts += [part for part in (improvement_table(entry, chosen), _notes(entry), _made(entry, out, chosen)) if part]
    parts += [part for part in (_absent(entry, out, chosen),) if part]
    return "\n\n".join(parts) + "\n"


def overview(out: Path) -> str:
    """One row for each experiment: how much of it there is, ours and the paper's."""
    lines = ["| experiment | in the paper | arms with results | share of the budget | seeds | ours | the paper |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for entry in EXPERIMENTS.values():
        chosen = choices(entry, out)
        link = f"[{entry.title}]({entry.name}/README.md)"
        published = "; ".join(figure.text for figure in entry.published) or _paper_values(entry) or entry.claim
        cells = [link, entry.where, f"{len(chosen)} of {len(entry.arms)}", shares(chosen), seeds(chosen)]
        lines.append(row([*cells, headline(entry, chosen), published]))
    return "\n".join(lines)


def readme_table(out: Path) -> str:
    """The README's table: experiments that have results, one row for a task or, where there are many, for all."""
    lines = ["| task | PQN here | seeds | share of the paper's steps | the paper's code, on the same GPU | the paper |"]
    lines += ["|---|---|---|---|---|---|"]
    public = numbers.public_results(out)
    for name in ("classic", "minatar", "craftax", "craftax-rnn", "smax", "overcooked", "hanabi", "pong"):
        entry = experiment(name)
        chosen = choices(entry, out)
        method = _leading(entry, chosen)
        if method is None:
            continue
        total = numbers.aggregate(entry, chosen, method)
        if total is not None:
            title = f"[{entry.title}](results/{name}/README.md), {method}, {total.tasks} tasks: {unit(entry, True)}"
            scores = [estimate_text(total, 2), str(total.seeds), shares(chosen)]
            lines.append(row([title, *scores, NOTHING, NOTHING]))
            continue
        for arm, choice in chosen.items():
            if arm.method == method:
                lines.append(row(_readme_row(entry, arm, choice, public)))
    return "\n".join(lines)


def _readme_row(entry: Experiment, arm: Arm, choice: Choice, public: dict[str, numbers.Public]) -> list[str]:
    found = numbers.estimate_of(entry, choice)
    title = f"[{arm.task}](results/{entry.name}/README.md), `{arm.preset}`: {entry.unit}"
    paper = next((other.paper for other in entry.arms if other.task == arm.task and other.paper is not None), None)
    code = public.get(public_name(entry, arm.task) or "")
    return [
        title,
        estimate_text(found, entry.digits),
        str(found.seeds),
        percent(choice.result.share),
        _code(entry, code),
        NOTHING if paper is None else number_text(paper, entry.digits),
    ]


def _code(entry: Experiment, found: numbers.Public | None) -> str:
    if found is None or found.value is None:
        return NOTHING
    return f"{number_text(found.value * entry.scale, entry.digits)} ({found.seeds} seeds)"


def table(name: str, out: Path) -> str:
    """The table of an experiment by its name, for other pages.

    Raises:
      ConfigError: there is no such experiment.
    """
    entry = experiment(name)
    chosen = choices(entry, out)
    if not chosen:
        return "No results yet."
    return f"{results_table(entry, out, chosen)}\n\n{caption(entry, chosen)}"


def part(name: str, out: Path) -> str:
    """A generated part of a page by its name: `overview`, `readme`, `rule`, …, or `table EXPERIMENT`.

    Raises:
      ConfigError: there is no such part.
    """
    if name.startswith("table "):
        return table(name.removeprefix("table "), out)
    made = {
        "overview": lambda: overview(out),
        "readme": lambda: readme_table(out),
        "rule": lambda: RULE,
        "speeds": lambda: speed_table(out),
        "baird learners": lambda: theory_tables.baird_table(out),
        "lemma norms": lambda: theory_tables.lemma_table(out),
        "deepsea depths": lambda: theory_tables.deepsea_table(out),
    }
    if name not in made:
        raise ConfigError(f"there is no generated part {name!r}; there are {', '.join(made)} and `table EXPERIMENT`")
    return made[name]()


def _figure_caption(entry: Experiment, chosen: Chosen) -> str:
    return (
        f"*{entry.curve or entry.unit} over {entry.curve_axis}; interquartile mean of {counted(chosen)} and its "
        "95 % bootstrap interval (one seed: the line alone).*"
    )


# --------------------------------------------------------------------------------------------------------------- text


def _introduction(entry: Experiment) -> str:
    lines = [f"{'In the paper' if entry.in_paper else 'Its place'}: {entry.where}."]
    lines += [f"The paper: {entry.claim}"] if entry.claim else []
    lines += [f"- {figure.text} ({figure.where})" for figure in entry.published]
    whole = clock(60 * entry.minutes())
    command = f"pqn reproduce {entry.name}"
    lines += [f"\n`{command}` runs all {len(entry.arms)} arms with {entry.seeds} seed(s), on one H200 in about {whole} "
              f"(estimated). `{command} --dry-run` shows the commands."]  # fmt: skip
    return "\n".join(lines)


def _notes(entry: Experiment) -> str:
    return "\n".join(["## To compare", "", *(f"- {note}" for note in entry.notes)]) if entry.notes else ""


def _made(entry: Experiment, out: Path, chosen: Chosen) -> str:
    """How each result that counts was made."""
    if not chosen:
        return ""
    heads = ["arm", "result", "commit", "device", "steps", "seeds", "wall time", "compiling", "steps/s", "peak memory"]
    lines = ["## How these were made", "", row([*heads, "remarks"]), "|" + "---|" * (len(heads) + 1)]
    for arm, (path, result, _) in chosen.items():
        remarks = [*result.notes, *([f"not recorded: {', '.join(result.missing)}"] if result.missing else [])]
        remarks += ["the code differed from its commit"] if result.last.dirty else []
        remarks += [] if result.origin == "pqn reproduce" else [result.origin]
        remarks += ["commits differ between its processes"] if result.mixed else []
        link = f"[{result.last.date[:10]}]({path.relative_to(out / entry.name).as_posix()})"
        steps = f"{human(result.steps)} of {human(result.budget)}"
        lines.append(row([
            f"`{arm.name}`", link, (result.last.commit or NOTHING)[:7], result.device, steps, str(len(result.seeds)),
            _time(result.seconds.get("wall")), _time(result.seconds.get("compile")),
            NOTHING if result.steps_per_second is None else human(result.steps_per_second),
            NOTHING if result.peak_bytes is None else f"{result.peak_bytes / 1e9:.2f} GB",
            "; ".join(remarks),
        ]))  # fmt: skip
    first = next(iter(chosen))
    lines += ["", f"Any row again: `{runner.command(first)}`, with the name of its arm.", "", RULE]
    return "\n".join(lines)


def _absent(entry: Experiment, out: Path, chosen: Chosen) -> str:
    """What is not there, what failed, what was passed over and why."""
    gone, lines = retired(out), []
    missing = [arm.name for arm in entry.arms if arm not in chosen]
    lines += [f"- No complete result yet: {', '.join(f'`{name}`' for name in missing)}."] if missing else []
    for arm in entry.arms:
        good, damaged = results(arm, out)
        lines += [f"- Damaged and not used: {error}." for error in damaged]
        lines += [f"- `{arm.name}` failed, {why}" for why in runner.failures(arm, out)]
        for path, result in good:
            name = path.relative_to(out).as_posix()
            if name in gone:
                lines.append(f"- Retired: [{path.name}]({path.relative_to(out / entry.name).as_posix()}). {gone[name]}")
            elif not result.complete:
                link = f"[{path.name}]({path.relative_to(out / entry.name).as_posix()})"
                done = f"{human(result.steps)} of {human(result.budget)} steps"
                lines.append(
                    f"- Stopped early and in no table: `{arm.name}`, {link}, {done}; {'; '.join(result.notes)}."
                )
    return "\n".join(["## What is not there", "", *lines]) if lines else ""


def headline(entry: Experiment, chosen: Chosen) -> str:
    """Our method's results in a few words."""
    method = _leading(entry, chosen)
    if method is None:
        return NOTHING
    total = numbers.aggregate(entry, chosen, method)
    if total is not None:
        return f"{estimate_text(total, 2)}: {unit(entry, True)}, {total.tasks} tasks"
    if entry.name == "num-envs":
        return "see the page"
    told = [f"{arm.task} {cell(entry, choice)}" for arm, choice in chosen.items() if arm.method == method]
    return f"{method}: {', '.join(told[:9])}"


def _leading(entry: Experiment, chosen: Chosen) -> str | None:
    """The method that speaks for us: with results on most tasks, the published one where there is a tie."""
    counts = Counter(arm.method for arm in chosen if arm.algorithm == "pqn" or entry.metric in _OF_THEORY)
    best = {"baird": "LayerNorm + ℓ2", "deepsea": "LayerNorm", "lemma": "LayerNorm"}.get(entry.name)
    if best is not None:
        return best if counts[best] else None
    order = [method for method in entry.methods if counts[method]]
    return max(order, key=lambda method: counts[method]) if order else None


_OF_THEORY = ("converged", "regularised", "solved_episode")


def _paper_values(entry: Experiment) -> str:
    told = [f"{arm.method} {number_text(arm.paper, entry.digits)}" for arm in entry.arms if arm.paper is not None]
    return ", ".join(told) if len(told) <= 4 else ""


def _time(seconds: float | None) -> str:
    return NOTHING if seconds is None else clock(seconds)
