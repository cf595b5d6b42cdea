"""Callbacks: your own look at a run while it trains, and ways to end it early.

    pqn.train(config, callbacks=[pqn.callbacks.StopAtReturn(475), lambda moment: print(moment.step, moment.mean)])

A function is called after every greedy evaluation. An object with a method `see` is called after every row of the
metrics, and about once a second between them. Both get a `Moment`. To end the run, a callback returns why, in a
sentence, or True. Then a checkpoint is saved, summary.json says why the run ended, and `pqn.train` returns as usual.

A callback cannot change what a run computes. When a run is resumed, the objects are first shown all rows of its earlier
processes (`Moment.replayed`), so that they decide as if the run had not been interrupted; functions are not called for
these. The clock of `Moment.seconds`, and with it `TimeBudget`, starts anew. An object may be given to one run after the
other: its method `begin`, if it has one, is called before each.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import numpy as np

from pqn.errors import ConfigError, RunError
from pqn.fields import Within, brief, checked
from pqn.programs.evaluation import mean
from pqn.runs.json_text import to_json
from pqn.runs.metrics import Row

Decision = str | bool | None
"""Why the run should end, in a sentence; or just whether."""


class Moment(NamedTuple):
    """What a callback sees of a run."""

    row: Row | None
    """The row of metrics.jsonl that was just written; None between rows."""
    update: int
    step: int
    """Environment steps so far, per seed."""
    seconds: float
    """Since this process began to work on the run."""
    run: Path
    """The run directory."""
    replayed: bool = False
    """Whether an earlier process wrote the row, before the run was resumed."""

    @property
    def is_evaluation(self) -> bool:
        return self.row is not None and self.row.get("kind") == "eval"

    @property
    def returns(self) -> np.ndarray | None:
        """The greedy returns of an evaluation [S, E]; NaN where an episode did not end. None at other moments."""
        if self.row is None or not self.is_evaluation:
            return None
        try:
            return np.array(self.row.get("returns"), float)  # null becomes NaN
        except (TypeError, ValueError) as error:
            raise RunError(f"{self.run} has an evaluation whose returns are no numbers") from error

    @property
    def mean(self) -> float | None:
        """Mean greedy return of an evaluation over all seeds; None at other moments, and where no episode ended."""
        returns = self.returns
        return None if returns is None else mean(returns)


@runtime_checkable
class Callback(Protocol):
    """An object that sees all moments of a run."""

    def see(self, moment: Moment) -> object:
        """A `Decision`: why the run should end, in a sentence, or True; None or False to go on.

        Optional method:
          begin() -> None: called before the first moment of every `train` and `resume`, for an object that remembers.
        """
        ...


@dataclasses.dataclass
class StopAtReturn:
    """Ends a run when the mean greedy return of an evaluation, over all seeds, is at least `threshold`."""

    threshold: float

    def __post_init__(self) -> None:
        self.threshold = checked("StopAtReturn: threshold", float, self.threshold)

    def see(self, moment: Moment) -> Decision:
        reached = moment.mean
        if reached is None or reached < self.threshold:
            return None
        return f"the greedy return {reached:.6g} has reached {self.threshold:g}"


@dataclasses.dataclass
class StopWithoutImprovement:
    """Ends a run after so many evaluations in a row whose mean greedy return was not the best one so far.

    Args:
      evaluations: how many.
      by: a return is better than another if it is higher by more than this.
    """

    evaluations: int
    by: float = 0.0

    def __post_init__(self) -> None:
        self.evaluations = checked(
            "StopWithoutImprovement: evaluations", Annotated[int, Within(1, 10**6)], self.evaluations
        )
        self.by = checked("StopWithoutImprovement: by", Annotated[float, Within(0.0)], self.by)
        self.begin()

    def begin(self) -> None:
        self.best: float | None = None
        self.since = 0

    def see(self, moment: Moment) -> Decision:
        if not moment.is_evaluation:
            return None
        reached = moment.mean
        if reached is not None and (self.best is None or reached > self.best + self.by):
            self.best, self.since = reached, 0
            return None
        self.since += 1
        if self.since < self.evaluations:
            return None
        best = "there was none" if self.best is None else f"the best one is {self.best:.6g}"
        return f"the greedy return has not improved in {self.since} evaluations; {best}"


@dataclasses.dataclass
class TimeBudget:
    """Ends a run after so many minutes of this process, compiling included; a resumed run has them anew."""

    minutes: float

    def __post_init__(self) -> None:
        self.minutes = checked("TimeBudget: minutes", Annotated[float, Within(above=0.0)], self.minutes)

    def see(self, moment: Moment) -> Decision:
        if moment.replayed or moment.seconds < 60.0 * self.minutes:
            return None
        return f"the time budget of {self.minutes:g} minutes is used up"


@dataclasses.dataclass
class EachEvaluation:
    """Calls a function with the moment of every evaluation; what a plain function among the callbacks becomes."""

    function: Callable[[Moment], object]

    def see(self, moment: Moment) -> object:
        return self.function(moment) if moment.is_evaluation and not moment.replayed else None


Callbacks = Callback | Callable[[Moment], object] | Iterable[Callback | Callable[[Moment], object]]
"""What `pqn.train` takes: one callback or several."""


def as_callbacks(given: Callbacks | None) -> tuple[Callback, ...]:
    """All of them as objects.

    Raises:
      ConfigError: one is neither a function nor an object with a method `see`.
    """
    if given is None:
        return ()
    if isinstance(given, Callback) or not isinstance(given, Iterable):
        return (_as_callback(given),)
    return tuple(_as_callback(one) for one in given)


def _as_callback(one: object) -> Callback:
    if isinstance(one, type):
        raise ConfigError(f"callbacks has the class {one.__name__}; give an object of it, as in {one.__name__}(…)")
    if isinstance(one, Callback):
        return one
    if callable(one):
        return EachEvaluation(one)
    raise ConfigError(
        f"callbacks has {brief(one)}; a callback is a function of a Moment, or an object with a method `see`"
    )


def waits_in_vain(callbacks: Sequence[Callback], evaluations: int) -> str | None:
    """A sentence for the user where a callback looks at evaluations only, of which the run has none."""
    kinds = (StopAtReturn, StopWithoutImprovement, EachEvaluation)
    names = [_name(callback) for callback in callbacks if isinstance(callback, kinds)]
    if evaluations or not names:
        return None
    return f"the callback {names[0]} waits for evaluations, and this run has none: eval.count is 0"


def begin(callbacks: Sequence[Callback]) -> None:
    """Tells all callbacks that a run begins, or goes on: what they remember of another one must not end it."""
    for callback in callbacks:
        getattr(callback, "begin", lambda: None)()


def ask(callbacks: Sequence[Callback], moment: Moment) -> str | None:
    """Shows a moment to all callbacks, and returns the first reason to end the run.

    Raises:
      ConfigError: a callback returned something else.
    """
    if callbacks and moment.row is not None:
        moment = moment._replace(row=json.loads(to_json(moment.row)))  # as it stands in the file, and theirs to change
    reasons = [_reason(callback, callback.see(moment)) for callback in callbacks]
    return next((reason for reason in reasons if reason), None)


def _reason(callback: Callback, said: object) -> str | None:
    if said is None or isinstance(said, bool | np.bool_):
        return f"{_name(callback)} asked for it" if said else None
    if isinstance(said, str):
        return " ".join(said.split()) or f"{_name(callback)} asked for it"
    raise ConfigError(
        f"the callback {_name(callback)} returned {brief(said)}; it must return why the run should end, in a text, or "
        "None"
    )


def _name(callback: Callback) -> str:
    named = callback.function if isinstance(callback, EachEvaluation) else type(callback)
    return getattr(named, "__name__", type(named).__name__)
