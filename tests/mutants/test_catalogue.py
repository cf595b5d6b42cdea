"""The catalogue still fits the code: every mutation applies, is Python, and names tests that exist."""

from __future__ import annotations

import ast
import functools

import pytest

from .catalogue import MUTATIONS
from .mutation import ROOT, Mutation, StaleMutation, mutation
from .run import Outcome, verdict

WANTED = 80


def test_names_are_unique_and_many():
    names = [one.name for one in MUTATIONS]
    assert len(set(names)) == len(names) >= WANTED


@pytest.mark.parametrize("one", MUTATIONS, ids=lambda one: one.name)
def test_every_mutation_applies_and_its_tests_exist(one, request):
    one.mutated((ROOT / one.path).read_text())
    assert one.tests and one.meaning.endswith(".")
    for test in one.tests:
        file, _, name = test.partition("::")
        assert name.partition("[")[0] in functions_of(file), f"{file} has no test {name}"
        known = collected(request.session, file)
        assert not known or f"tests/{test}" in known, f"pytest finds no {test}"


@functools.cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def collected(session: pytest.Session, file: str) -> set[str]:
    """The ids in a file, with and without parameters, if the whole suite is being run; otherwise none."""
    options = session.config.option
    whole = all((ROOT / path).resolve() in (ROOT, ROOT / "tests", ROOT / "src") for path in session.config.args)
    if not whole or options.keyword or options.deselect:
        return set()
    ids = {item.nodeid for item in session.items if item.nodeid.startswith(f"tests/{file}::")}
    return ids | {one.partition("[")[0] for one in ids}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("a = 1", "a = 2", "occurs 2 times"),
        ("c", "d", "occurs 0 times"),
        ("b =", "b", "no Python"),
        ("b", "b ", "no code"),
    ],
)
def test_a_mutation_that_does_not_fit_is_refused(old, new, sentence):
    with pytest.raises(StaleMutation, match=sentence):
        mutation("x", "x.py", old, new, "Nothing.", "x.py::x").mutated("a = 1\nb = 3\na = 1\n")


FAILED = "FAILED tests/a.py::test_b[x - y] - "


@pytest.mark.parametrize(
    ("status", "output", "what"),
    [
        (1, FAILED + "AssertionError: 1 is not 2", "caught"),
        (1, FAILED + "assert 1 == 2", "caught"),
        (None, "", "caught"),  # it never ends
        (0, "1 passed", "survived"),
        (1, FAILED + "NameError: name 'x' is not defined", "no program"),
        (1, "ERROR tests/a.py::test_b - fixture failed", "no program"),
        (2, "ERROR tests/a.py - SyntaxError", "no program"),
        (4, "ERROR: not found: tests/a.py::test_c", "no program"),
    ],
)
def test_only_a_test_that_fails_counts(status, output, what):
    one = Mutation("x", "x.py", "a", "b", "Nothing.", ("a.py::test_b",))
    assert verdict(one, Outcome(status, output, 1.0)).what == what
