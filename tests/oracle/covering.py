"""Covering arrays: few cases in which every pair of choices still meets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

Choices = dict[str, Sequence[Any]]
Choice = tuple[str, Any]
Pair = tuple[Choice, Choice]
Clash = Callable[[Choice, Choice], bool]


def pairs(choices: Choices, clash: Clash) -> set[Pair]:
    """All pairs of choices that can meet."""
    every = [[(name, value) for value in values] for name, values in choices.items()]
    return {pair for a, b in itertools.combinations(every, 2) for pair in itertools.product(a, b) if not clash(*pair)}


def met(case: dict[str, Any]) -> set[Pair]:
    """The pairs that meet in a case, whose order is that of the choices."""
    return set(itertools.combinations(case.items(), 2))


def covering_array(choices: Choices, clash: Clash, tries: int = 10) -> list[dict[str, Any]]:
    """Cases in which every pair of choices that can meet does. Greedy, and the same every time.

    >>> len(covering_array({"a": (1, 2), "b": (1, 2), "c": (1, 2)}, lambda x, y: False))
    4
    """
    return _Search(choices, clash).run(tries)


class _Search:
    """Choices are numbered, and sets of them are bits of an integer: of those that can meet a choice, and have not."""

    def __init__(self, choices: Choices, clash: Clash):
        self.every: list[Choice] = [(name, value) for name, values in choices.items() for value in values]
        number = {choice: i for i, choice in enumerate(self.every)}
        self.groups = [[number[name, value] for value in values] for name, values in choices.items()]
        self.group_of = {i: g for g, group in enumerate(self.groups) for i in group}
        self.can_meet = [0] * len(self.every)
        for a, b in pairs(choices, clash):
            self._link(self.can_meet, number[a], number[b])
        self.missing = list(self.can_meet)
        self.luck = random.Random(0)

    @staticmethod
    def _link(links: list[int], a: int, b: int) -> None:
        links[a] ^= 1 << b
        links[b] ^= 1 << a

    def run(self, tries: int) -> list[dict[str, Any]]:
        cases = []
        while any(self.missing):
            best = max((self._case() for _ in range(tries)), key=self._news)
            cases.append(dict(self.every[i] for i in sorted(best)))
            for a, b in itertools.combinations(best, 2):
                if self.missing[a] >> b & 1:
                    self._link(self.missing, a, b)
        return cases

    def _news(self, case: list[int]) -> int:
        """How many pairs meet for the first time."""
        return sum(self.missing[a] >> b & 1 for a, b in itertools.combinations(case, 2))

    def _case(self) -> list[int]:
        """A missing pair, and for the rest always the choice that meets most of the others for the first time."""
        a = self.luck.choice([i for i, partners in enumerate(self.missing) if partners])
        b = self.luck.choice([i for i in range(len(self.every)) if self.missing[a] >> i & 1])
        case, chosen = [a, b], 1 << a | 1 << b
        rest = [group for g, group in enumerate(self.groups) if g not in (self.group_of[a], self.group_of[b])]
        for group in self.luck.sample(rest, len(rest)):
            possible = [i for i in group if self.can_meet[i] & chosen == chosen]
            new = max(self.luck.sample(possible, len(possible)), key=lambda i: (self.missing[i] & chosen).bit_count())
            case.append(new)
            chosen |= 1 << new
        return case
