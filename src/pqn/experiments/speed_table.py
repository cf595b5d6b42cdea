"""How fast trainings were, from results that had the device to themselves, beside the paper's own code."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pqn.experiments.chosen import results, retired
from pqn.experiments.envelope import Envelope
from pqn.experiments.numbers import read_public
from pqn.experiments.paper import EXPERIMENTS
from pqn.progress import human

EVALUATIONS = {"paper": "with evaluations", "final": "with a final evaluation", "off": "without evaluations"}


class Timed(NamedTuple):
    """A training whose speed was recorded."""

    preset: str
    task: str | None
    result: Envelope

    @property
    def whole(self) -> float | None:
        """Steps of all seeds per second of the whole run, compiling not counted."""
        wall, compiling = self.result.seconds.get("wall"), self.result.seconds.get("compile")
        if wall is None or compiling is None or wall <= compiling:
            return None
        return self.result.steps * len(self.result.seeds) / (wall - compiling)


def timed(out: Path) -> list[Timed]:
    """Of each preset and number of seeds the newest training on an H200 with a recorded speed.

    Where the published setting was timed, ours is left out: the two hardly differ.
    """
    gone, newest = retired(out), {}
    for entry in EXPERIMENTS.values():
        for arm in entry.arms:
            for path, result in results(arm, out)[0]:
                name = path.relative_to(out).as_posix()
                if result.steps_per_second and result.complete and "H200" in result.device and name not in gone:
                    public = next((a.public for a in entry.arms if a.task == arm.task and a.public), None)
                    key = (entry.name, result.preset, len(result.seeds))
                    known = newest.get(key)
                    if known is None or known.result.last.date < result.last.date:
                        newest[key] = Timed(result.preset, public, result)
    names = {each.preset for each in newest.values()}
    return [each for each in newest.values() if f"{each.preset}-paper" not in names]


def speed_table(out: Path) -> str:
    """The table as Markdown."""
    public = read_public(
        out,
        lambda rows: {
            (row["name"], row["seeds"]): f"{human(row['steps_per_s'])} ({EVALUATIONS[row['test']]})" for row in rows
        },
    )
    lines = ["| preset | seeds | training, steps/s | whole run, steps/s | the paper's code, steps/s | commit |"]
    lines += ["|---|---|---|---|---|---|"]
    for each in timed(out):
        told = public.get((each.task, len(each.result.seeds)), "–")
        whole = "–" if each.whole is None else human(each.whole)
        speed, commit = human(each.result.steps_per_second or 0.0), (each.result.last.commit or "")[:7]
        lines.append(f"| `{each.preset}` | {len(each.result.seeds)} | {speed} | {whole} | {told} | {commit} |")
    caption = (
        "*Steps of all seeds together per second. Training: without compiling, evaluations and checkpoints. Whole run: "
        "with evaluations and checkpoints, without compiling. One run each, on an H200 without other programs.*"
    )
    return "\n".join([*lines, "", caption])
