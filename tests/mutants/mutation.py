"""A mutation: one deliberate mistake in one file, as data."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("src/pqn")


class StaleMutation(Exception):
    """A mutation that no longer fits the code it was written for."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """Replace `old` by `new` in one file.

    Mutations know nothing of functions or lines: when code moves to another file, only `file` has to follow.
    """

    name: str
    file: str
    """Below src/pqn."""
    old: str
    """Occurs exactly once in the file."""
    new: str
    meaning: str
    """What a user would suffer from, in a sentence."""
    tests: tuple[str, ...]
    """Ids below tests/ as pytest knows them; with the mutation, at least one of these must fail."""

    def mutated(self, source: str) -> str:
        """The text of the file with the mistake in it.

        Raises:
          StaleMutation: `old` does not occur exactly once, or the result is not Python.
        """
        found = source.count(self.old)
        if found != 1:
            raise StaleMutation(f"{self.name}: {self.old!r} occurs {found} times in {self.file}; it must occur once")
        text = source.replace(self.old, self.new)
        try:
            same = ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
        except SyntaxError as error:
            raise StaleMutation(f"{self.name}: {self.file} is no Python afterwards: {error}") from error
        if same:
            raise StaleMutation(f"{self.name} changes no code of {self.file}")
        return text

    @property
    def path(self) -> Path:
        """Relative to the root of the repository."""
        return PACKAGE / self.file


def mutation(name: str, file: str, old: str, new: str, meaning: str, *tests: str) -> Mutation:
    """A `Mutation`, in the order in which catalogues write it down."""
    return Mutation(name, file, old, new, meaning, tests)
