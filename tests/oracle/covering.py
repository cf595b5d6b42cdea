"""Covering arrays: few cases in which every pair of choices still meets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

Choices = dict[str, Sequence[Any]]
Pair = tuple[tuple[str, Any], tuple[str, Any]]
Clash = Callable[[tuple[str, Any], tuple[str, Any]], bool]


def pairs(choices: Choices, clash: Clash) -> set[Pair]:
    """All pairs of choices that can meet."""
    every = [[(name, value) for value in values] for name, values in choices.items()]
    return {pair for a, b in itertools.combinations(every, 2) for pair in itertools.product(a, b) if not clash(*pair)}


def met(case: dict[str, Any]) -> set[Pair]:
    """The pairs that meet in a case, whose order is that of the choices."""
    return set(itertools.combinations(case.items(), 2))


def covering_array(choices: Choices, clash: Clash, tries: int = 6) -> list[dict[str, Any]]:
    """Cases in which every pair of choices that can meet does. Greedy, and the same every time.

    >>> len(covering_array({"a": (1, 2), "b": (1, 2), "c": (1, 2)}, lambda x, y: False))
    4
    """
    luck, missing, cases = random.Random(0), pairs(choices, clash), []
    ordered = sorted(missing, key=repr)
    while missing:
        ordered = [pair for pair in ordered if pair in missing]
        seeds = luck.sample(ordered, min(tries, len(ordered)))
        candidates = [_case(choices, clash, missing, pair, luck) for pair in seeds]
        best = max(candidates, key=lambda case: len(met(case) & missing))
        cases.append(best)
        missing -= met(best)
    return cases


def _case(choices: Choices, clash: Clash, missing: set[Pair], pair: Pair, luck: random.Random) -> dict[str, Any]:
    """A case with `pair` in it, each other choice being the one that meets most others for the first time."""
    case = dict(pair)
    place = {name: i for i, name in enumerate(choices)}
    for name in luck.sample(list(choices), len(choices)):
        if name in case:
            continue
        possible = [v for v in choices[name] if not any(clash(other, (name, v)) for other in case.items())]
        luck.shuffle(possible)

        def news(value: Any, name: str = name) -> int:
            new = (name, value)
            ordered = ((new, old) if place[name] < place[old[0]] else (old, new) for old in case.items())
            return sum(pair in missing for pair in ordered)

        case[name] = max(possible, key=news)
    return {name: case[name] for name in choices}
