"""Runs one arm of an experiment, to its result: `run_arm(arm, share, seeds, out)` gives the path of the envelope.

Everything that is not finished lies in `out/runs/<experiment>/<arm>/<attempt>/`: a run directory for each batch of
seeds, which resumes to the bit, and `calls.jsonl`, a line for each process that worked on it. The next call goes on
there, on this machine or on another one that has the directory. Only when every seed is at its end is the envelope
written, in one step; `done` then names it.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pqn.config import Config
from pqn.errors import ConfigError, PqnError, RunError, reason
from pqn.experiments import envelope, from_runs, longer
from pqn.experiments.deadline import Deadline
from pqn.experiments.envelope import Envelope
from pqn.experiments.paper import Arm, experiment
from pqn.experiments.record import CALLS, Call, now, write_json
from pqn.fleet.arms import Left
from pqn.progress import Progress
from pqn.runs import files
from pqn.runs.begun import begun
from pqn.runs.directory import SUMMARY
from pqn.runs.json_text import parse_json, to_json

RUNS = "runs"
DONE, FAILED = "done", "failed.json"
USABLE = 0.85  # of a device's memory


class TimeIsUp(Left):
    """The deadline came before the arm was finished; what was done is saved."""


def run_arm(
    arm: Arm,
    share: float,
    seeds: int,
    out: Path,
    *,
    again: bool = False,
    deadline: Deadline | None = None,
    gigabytes: float | None = None,
    overrides: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Runs an arm, or goes on with it, until its result is written.

    Args:
      arm: what to run.
      share: of its budget, in (0, 1]; schedules stay those of the whole.
      seeds: how many, from 0 on.
      out: where results go, and below `runs` what is not finished.
      again: make another result where there is one already.
      deadline: when to save and stop.
      gigabytes: device memory to use; by default most of what the device has. Seeds that do not fit together are
        trained one batch after the other.
      overrides: options on top of the arm's, recorded in the result.
      progress: where to report.

    Returns:
      The path of the envelope.

    Raises:
      TimeIsUp: at the deadline.
      PqnError: the arm failed, with a sentence that says how.
    """
    if not arm.known:
        raise ConfigError(f"{arm.experiment}/{arm.name}: there is no preset {arm.preset!r} yet")
    progress = progress or Progress()
    deadline = deadline or Deadline(None)
    found = None if again else finished(arm, share, seeds, out)
    attempt = unfinished(arm, share, seeds, out)
    if found is not None and attempt is None:
        return found
    attempt = attempt or new_attempt(arm, share, seeds, out)
    _note_call(attempt, Call.now(command(arm, share, seeds)))
    try:
        with deadline.enforced():
            result = _work(arm, share, seeds, attempt, gigabytes, overrides or {}, progress)
        path = envelope.write(out, result)
    except (PqnError, KeyboardInterrupt) as error:
        if deadline.passed:
            raise TimeIsUp(f"{arm.experiment}/{arm.name} goes on at the next call") from error
        raise
    files.write_atomically(attempt / DONE, f"{path.relative_to(out)}\n".encode())
    (attempt / FAILED).unlink(missing_ok=True)
    return path


def command(arm: Arm, share: float = 1.0, seeds: int | None = None) -> str:
    """What a reader types to make a result of this arm."""
    words = ["pqn", "reproduce", arm.experiment, "--arms", arm.name]
    words += [] if share == 1.0 else ["--share", f"{share:g}"]
    words += [] if seeds in (None, experiment(arm.experiment).seeds) else ["--seeds", str(seeds)]
    return shlex.join(words)


# ---------------------------------------------------------------------------------------------------------- attempts


def finished(arm: Arm, share: float, seeds: int, out: Path) -> Path | None:
    """The newest complete result of this share, or of a larger one, with as many seeds."""
    found = complete(arm, share, seeds, out)
    return found[-1] if found else None


def complete(arm: Arm, share: float, seeds: int, out: Path) -> list[Path]:
    """All complete results of this share, or of a larger one, with as many seeds."""
    return [
        path
        for path, result in envelope.read_arm(out, arm.experiment, arm.name)
        if isinstance(result, Envelope) and result.complete and result.share >= share and len(result.seeds) >= seeds
    ]


def unfinished(arm: Arm, share: float, seeds: int, out: Path) -> Path | None:
    """An attempt that was begun and has no result yet."""
    return next((path for path in _attempts(arm, share, seeds, out) if not files.is_file(path / DONE)), None)


def new_attempt(arm: Arm, share: float, seeds: int, out: Path) -> Path:
    """A new directory to work in."""
    number = max((_number(path) for path in _attempts(arm, share, seeds, out)), default=0) + 1
    path = _folder(arm, out) / f"share-{share:g}-seeds-{seeds}-attempt-{number}"
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise RunError(f"cannot write to {path}: {reason(error)}; choose another --out") from error
    return path


def _folder(arm: Arm, out: Path) -> Path:
    return out / RUNS / arm.experiment / arm.name


def _attempts(arm: Arm, share: float, seeds: int, out: Path) -> list[Path]:
    """The attempts at a share, oldest first. A copy that somebody made, such as attempt-1-old, is none."""
    found = _folder(arm, out).glob(f"share-{share:g}-seeds-{seeds}-attempt-*")
    return sorted((path for path in found if _number(path)), key=_number)


def _number(attempt: Path) -> int:
    """Its number; 0 where the name has none."""
    found = re.search(r"-attempt-([0-9]{1,9})$", attempt.name)
    return int(found[1]) if found else 0


def _note_call(attempt: Path, call: Call) -> None:
    """One more line in `calls.jsonl`; a torn last line, of a process that was killed, is ended first."""
    path = attempt / CALLS
    data = files.read_bytes(path, files.MOST_JSON) if files.is_file(path) else b""
    kept = data[: data.rfind(b"\n") + 1]
    files.write_atomically(path, kept + to_json(dataclasses.asdict(call)).encode() + b"\n")


def calls(attempt: Path) -> list[Call]:
    """The processes that worked on an attempt, and on the smaller shares that its runs go on from.

    Raises:
      RunError: a file does not say who did.
    """
    found: dict[bytes, Call] = {}
    for path in (*sorted(attempt.glob(f"*/{CALLS}")), attempt / CALLS):
        for line in files.read_bytes(path, files.MOST_JSON).splitlines():
            try:
                found[line] = Call(**cast(dict[str, Any], parse_json(line)))
            except (ValueError, TypeError) as error:
                raise RunError(f"{path} is damaged: a line of it does not say which process worked here") from error
    return list(found.values())


def note_failure(arm: Arm, share: float, seeds: int, out: Path, error: BaseException) -> None:
    """Keeps why an arm failed, for the report; forgotten when it succeeds."""
    attempt = unfinished(arm, share, seeds, out)
    if attempt is not None:
        write_json(attempt / FAILED, {"date": now(), "error": " ".join(str(error).split())})


def failures(arm: Arm, out: Path) -> list[str]:
    """Why attempts at an arm have failed, in words."""
    found = []
    for path in sorted(_folder(arm, out).glob(f"*/{FAILED}")):
        try:
            content = files.read_json(path)
        except RunError as error:  # it does not keep the other arms from being listed
            content = {"date": "nobody knows when", "error": error}
        if isinstance(content, dict) and not files.is_file(path.parent / DONE):
            found.append(files.shown(f"{content.get('date')}: {content.get('error')}"))
    return found


# ---------------------------------------------------------------------------------------------------------- the work


def _work(
    arm: Arm, share: float, seeds: int, attempt: Path, gigabytes: float | None, overrides: Mapping[str, object],
    progress: Progress,
) -> Envelope:  # fmt: skip
    """The result of an arm. Whatever was finished before is not done again."""
    line = command(arm, share, seeds)
    if arm.program != "training":
        return _computed(arm, share, seeds, attempt, line, overrides, progress)
    config = arm.config(seeds, share).replace(overrides)
    done = [path for path in _folder(arm, attempt.parents[3]).glob("share-*") if files.is_file(path / DONE)]
    paths = [_train(part, attempt, done, progress) for part in batches(config, arm, gigabytes)]
    result = from_runs.envelope_of(arm, paths, share, calls(attempt), line)
    return dataclasses.replace(result, notes=_told(overrides))


def batches(config: Config, arm: Arm, gigabytes: float | None) -> list[Config]:
    """The configuration cut into as few batches of seeds as fit into the device's memory."""
    room = device_gigabytes() if gigabytes is None else gigabytes
    size = max(1, min(config.seeds, int(USABLE * room / arm.gigabytes))) if room else config.seeds
    return [
        config.replace(seed=config.seed + first, seeds=min(size, config.seeds - first))
        for first in range(0, config.seeds, size)
    ]


def device_gigabytes() -> float | None:
    """Memory of the first device; None where JAX does not say, as on a CPU."""
    import jax

    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    return None if limit is None else limit / 1e9


def _train(config: Config, attempt: Path, finished: Sequence[Path], progress: Progress) -> Path:
    """Trains one batch of seeds, or goes on with it: from where it stopped, or from the end of a smaller share."""
    from pqn.training import resume, train

    last = config.seed + config.seeds - 1
    path = attempt / (f"seed-{last}" if config.seeds == 1 else f"seeds-{config.seed}-{last}")
    if not files.kind_of(path):
        shorter = longer.copy_beginning(config, path, finished)
        if shorter is not None:
            progress.note(f"{path.name} goes on from the end of {shorter.name}")
    planned = longer.as_begun(config, path)
    known = begun(path, planned, "this experiment", progress.warn)
    if known and files.is_file(path / SUMMARY) and planned.total_steps == config.total_steps:
        return path
    if known:
        resume(path, total_steps=config.total_steps, env=config.env.name, progress=progress)
    else:
        train(config, out=path, progress=progress)
    return path


def _computed(
    arm: Arm, share: float, seeds: int, attempt: Path, line: str, overrides: Mapping[str, object], progress: Progress
) -> Envelope:
    """The result of an experiment that is not a training. It is short, and begins anew when it was interrupted."""
    import time

    from pqn.device import enable_compilation_cache
    from pqn.experiments.computations import compute
    from pqn.runs.provenance import peak_memory

    enable_compilation_cache()
    began = time.perf_counter()
    found = compute(arm, share, seeds, overrides, progress.status if progress.live else None)
    return Envelope(
        arm.experiment, arm.name, arm.task, arm.method, arm.algorithm, arm.preset, line, calls(attempt)[-1:],
        seeds=list(range(seeds)),
        share=share,
        steps=found.steps,
        budget=found.budget,
        complete=True,
        metric=experiment(arm.experiment).metric,
        final=found.final,
        evaluation={},
        curves=found.curves,
        seconds={"wall": round(time.perf_counter() - began, 3), "compile": None, "train": None},
        steps_per_second=None,
        peak_bytes=peak_memory(),
        replay_bytes=None,
        config=found.config,
        runs=[f"{attempt.name}-{os.urandom(8).hex()}"],
        notes=_told(overrides),
    )  # fmt: skip


def _told(overrides: Mapping[str, object]) -> list[str]:
    return [f"{name} = {value}" for name, value in overrides.items()]
