"""The rules of the source tree, as tests over its syntax. Nothing of `pqn` is imported.

`python tests/test_house.py` lists every offender with its file and line, and counts them by room. A room is a file or
a folder directly below src/pqn.

Every import counts, wherever it is written: at the top of a file, inside a function, under TYPE_CHECKING, and as the
name of a module in a string ("pqn.play", or the start of f"pqn.cli.{command}"). Imports for types are not exempt: a
reader has to know the other room as well, and a type that two rooms share belongs into the earlier one.
"""

from __future__ import annotations

import ast
import functools
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A room may import from its own row and from the rows above.
LAYERS = (
    (
        "errors",
        "fields",
        "by_name",
        "renamed",
        "types",
        "arrays",
        "loops",
        "traces",
        "shards",
        "device",
        "hosts",
        "terminal",
        "progress",
    ),
    ("returns", "exploration"),
    ("options", "config"),
    ("envs",),
    ("presets",),
    ("networks",),
    ("algorithms",),
    ("programs",),
    ("runs",),
    ("report",),
    ("theory",),
    ("agent",),
    ("training", "play", "callbacks"),
    ("fleet", "search"),
    ("watch", "export"),
    ("experiments",),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
CORE = ("returns", "exploration", "algorithms/base", "algorithms/pqn", "algorithms/segments", "programs/rollout")
LEARNER = "algorithms/pqn"
UNKNOWN_TO_LEARNER = ("pqn.runs", "pqn.envs", "pqn.device")
KNOWN_TO_LEARNER = ("pqn.envs.contract",)  # the records that environments and learners exchange
FORBIDDEN_NAMES = ("How", "Part", "Lesson", "apart", "beside", "NEVER")

MAX_CORE_LINES, MAX_LEARNER_LINES, MAX_FUNCTION_LINES, MAX_NOQA, MAX_ANY = 900, 250, 60, 4, 39

in_repair = pytest.mark.xfail(strict=False, reason="being put in order")


class Offence(NamedTuple):
    """A place that breaks a rule, or that counts towards the limit of one."""

    file: str  # relative to the root
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"

    @property
    def room(self) -> str:
        """`envs` for src/pqn/envs/adapters/atari.py, `bench` for bench/simulators.py."""
        parts = Path(self.file).with_suffix("").parts
        return parts[2] if parts[:2] == ("src", "pqn") and len(parts) > 2 else parts[0]


class Source(NamedTuple):
    """A parsed file."""

    file: str
    module: str  # "pqn.envs.contract"; of a package, its name
    is_package: bool
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@functools.cache
def sources(root: Path, *folders: str) -> tuple[Source, ...]:
    """Every Python file below some folders."""
    files = sorted(file for folder in folders for file in (root / folder).rglob("*.py"))
    return tuple(_parse(root, file) for file in files)


def _parse(root: Path, file: Path) -> Source:
    path = file.relative_to(root)
    parts = path.with_suffix("").parts[1 if path.parts[0] == "src" else 0 :]
    is_package = parts[-1] == "__init__"
    text = file.read_text()
    return Source(str(path), ".".join(parts[:-1] if is_package else parts), is_package, text, ast.parse(text))


# ---- imports ----


class Import(NamedTuple):
    source: Source
    line: int
    module: str  # what is imported


@functools.cache
def imports(root: Path) -> tuple[Import, ...]:
    """Every import of one module of pqn by another; those of `pqn` itself, the public interface, do not count."""
    files = sources(root, "src")
    modules = {source.module for source in files} - {"pqn"}
    found = {
        (source.file, line, module): Import(source, line, module)
        for source in files
        if source.module not in ("pqn", "pqn.__main__")
        for line, name in _imported(source)
        if (module := _resolve(name, modules)) is not None and module != source.module
    }
    return tuple(found.values())


def _resolve(name: str, modules: set[str]) -> str | None:
    """The module that a dotted name means: `pqn.envs.contract.Outcome` is in `pqn.envs.contract`."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def _imported(source: Source) -> Iterator[tuple[int, str]]:
    package = source.module if source.is_package else source.module.rpartition(".")[0]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            yield from _named(node.lineno, str(node.values[0].value).rpartition(".")[0])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _named(node.lineno, node.value.partition(":")[0])


def _named(line: int, text: str) -> Iterator[tuple[int, str]]:
    """A string that is the name of a module is an import of it: nobody writes one for another purpose."""
    if text.startswith("pqn.") and all(word.isidentifier() for word in text.split(".")):
        yield line, text


def room_of(module: str) -> str:
    return module.split(".")[1]


def later_rooms(root: Path) -> list[Offence]:
    """Imports from a room further down, and files in a room that no layer names."""
    unknown = [
        Offence(source.file, 1, f"{room_of(source.module)} is in no layer; add it to LAYERS")
        for source in sources(root, "src")
        if source.module not in ("pqn", "pqn.__main__") and room_of(source.module) not in LEVEL
    ]
    return unknown + [
        Offence(each.source.file, each.line, f"{each.source.module} imports {each.module}, which is a later room")
        for each in imports(root)
        if LEVEL.get(room_of(each.module), 0) > LEVEL.get(room_of(each.source.module), len(LAYERS))
    ]


def cycles(root: Path) -> list[Offence]:
    """One offence for each import that lies on a cycle of modules: `a → b → a`."""
    graph: dict[str, set[str]] = {}
    for each in imports(root):
        graph.setdefault(each.source.module, set()).add(each.module)
    return [
        Offence(each.source.file, each.line, f"cycle: {' → '.join([each.source.module, *way])}")
        for each in imports(root)
        if (way := _path(graph, each.module, each.source.module)) is not None
    ]


def _path(graph: dict[str, set[str]], start: str, goal: str) -> list[str] | None:
    """A shortest way along imports, or None."""
    ways, seen = [[start]], {start}
    for way in ways:
        if way[-1] == goal:
            return way
        for after in sorted(graph.get(way[-1], set()) - seen):
            seen.add(after)
            ways.append([*way, after])
    return None


def learner_knows(root: Path) -> list[Offence]:
    """What the learner imports of runs, environments and devices."""
    return [
        Offence(each.source.file, each.line, f"the learner imports {each.module}")
        for each in imports(root)
        if each.source.file == f"src/pqn/{LEARNER}.py"
        and any(f"{each.module}.".startswith(f"{room}.") for room in UNKNOWN_TO_LEARNER)
        and each.module not in KNOWN_TO_LEARNER
    ]


# ---- sizes ----


def core_lines(root: Path) -> dict[str, int]:
    """Lines of the files in the core; a file that does not exist has none."""
    files = {source.file: source.lines for source in sources(root, "src")}
    return {name: files.get(f"src/pqn/{name}.py", 0) for name in CORE}


def long_functions(root: Path) -> list[Offence]:
    """Functions of more than 60 lines, from `def` to their end."""
    return [
        Offence(source.file, node.lineno, f"{node.name} has {length} lines")
        for source in sources(root, "src", "tests/oracle", "bench")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


# ---- words ----


def suppressed(root: Path) -> list[Offence]:
    """Comments that switch off the linter."""
    return [
        Offence(source.file, token.start[0], token.string)
        for source in sources(root, "src", "tests", "bench")
        if "noqa" in source.text
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline)
        if token.type == tokenize.COMMENT and "noqa" in token.string
    ]


def untyped(root: Path) -> list[Offence]:
    """Parameters and returns annotated with `Any`, or with another name for it (but `PyTree`, which says more)."""
    return [
        Offence(source.file, annotation.lineno, f"{name}: {ast.unparse(annotation)}")
        for source in sources(root, "src")
        for untold in [{"Any", *_aliases_of_any(source.tree)}]
        for name, annotation in _annotations(source.tree)
        if _names(annotation) & untold
    ]


def _annotations(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.returns is not None:
                yield f"{node.name}() ->", node.returns
            for arg in _parameters(node.args):
                if arg.annotation is not None:
                    yield f"{node.name}({arg.arg})", arg.annotation


def _parameters(args: ast.arguments) -> list[ast.arg]:
    rest = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *rest]


def _names(annotation: ast.expr) -> set[str]:
    """Every name in an annotation, those in quotes included."""
    found: set[str] = set()
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                found |= _names(ast.parse(node.value, mode="eval").body)
            except SyntaxError:
                continue  # a word in a Literal
    return found


def _aliases_of_any(tree: ast.Module) -> set[str]:
    """Names given to `Any` alone in a module: `Anything = Any`, `Anything: TypeAlias = Any`."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Name) and node.value.id == "Any"
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id != "PyTree"
    }


def empty_names(root: Path) -> list[Offence]:
    """Classes, functions, parameters, fields and module-level names that explain nothing."""
    return [
        Offence(source.file, line, name)
        for source in sources(root, "src")
        for line, name in _bindings(source.tree)
        if name in FORBIDDEN_NAMES
    ]


def _bindings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from ((arg.lineno, arg.arg) for arg in _parameters(node.args))
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                targets = getattr(statement, "targets", [getattr(statement, "target", None)])
                for name in (name for target in targets if target for name in ast.walk(target)):
                    if isinstance(name, ast.Name):
                        yield name.lineno, name.id


def unmirrored(root: Path) -> list[Offence]:
    """Folders of src/pqn without a folder of tests."""
    rooms = sorted({(root / source.file).parent.relative_to(root / "src/pqn") for source in sources(root, "src")})
    return [
        Offence(f"src/pqn/{room}/__init__.py", 1, f"there are no tests in tests/{room}")
        for room in rooms
        if room.parts and not any((root / "tests" / room).glob("test_*.py"))
    ]


# ---- the tests ----


def _say(offences: Iterable[Offence]) -> str:
    return "\n" + "\n".join(map(str, offences))


def test_a_room_imports_from_earlier_rooms_only() -> None:
    assert not later_rooms(ROOT), _say(later_rooms(ROOT))


def test_modules_import_each_other_in_no_cycle() -> None:
    assert not cycles(ROOT), _say(cycles(ROOT))


def test_the_learner_knows_no_runs_environments_or_devices() -> None:
    assert not learner_knows(ROOT), _say(learner_knows(ROOT))


def test_the_learner_is_read_in_one_sitting() -> None:
    assert 0 < core_lines(ROOT)[LEARNER] <= MAX_LEARNER_LINES


def test_the_core_is_small() -> None:
    assert sum(core_lines(ROOT).values()) <= MAX_CORE_LINES, core_lines(ROOT)


def test_functions_are_short() -> None:
    assert not long_functions(ROOT), _say(long_functions(ROOT))


def test_the_linter_is_hardly_ever_switched_off() -> None:
    assert len(suppressed(ROOT)) <= MAX_NOQA, _say(suppressed(ROOT))


def test_signatures_have_types() -> None:
    assert len(untyped(ROOT)) <= MAX_ANY, _say(untyped(ROOT))


def test_names_say_what_things_are() -> None:
    assert not empty_names(ROOT), _say(empty_names(ROOT))


def test_tests_mirror_the_source() -> None:
    assert not unmirrored(ROOT), _say(unmirrored(ROOT))


# ---- the rules find what they are for ----

Rule = Callable[[Path], list[Offence]]

BROKEN: list[tuple[Rule, dict[str, str], list[str]]] = [
    (later_rooms, {"envs/a.py": "def f():\n    import pqn.cli.b", "cli/b.py": ""}, ["src/pqn/envs/a.py:2"]),
    (later_rooms, {"envs/a.py": "from pqn import play", "play.py": ""}, ["src/pqn/envs/a.py:1"]),
    (later_rooms, {"envs/a.py": "from ..cli.b import c", "cli/b.py": ""}, ["src/pqn/envs/a.py:1"]),
    (later_rooms, {"envs/a.py": "if TYPE_CHECKING:\n    import pqn.play", "play.py": ""}, ["src/pqn/envs/a.py:2"]),
    (later_rooms, {"envs/a.py": "WHERE = 'pqn.play:load'", "play.py": ""}, ["src/pqn/envs/a.py:1"]),
    (later_rooms, {"envs/a.py": "load(f'pqn.cli.{name}')", "cli/__init__.py": ""}, ["src/pqn/envs/a.py:1"]),
    (later_rooms, {"cellar/a.py": ""}, ["src/pqn/cellar/a.py:1"]),
    (later_rooms, {"cli/a.py": "import pqn.play\nfrom pqn import __version__", "play.py": "", "__init__.py": ""}, []),
    (
        cycles,
        {"envs/a.py": "import pqn.envs.b", "envs/b.py": "def f():\n    from pqn.envs.a import g"},
        ["src/pqn/envs/a.py:1", "src/pqn/envs/b.py:2"],
    ),
    (cycles, {"envs/a.py": "import pqn.envs.b", "envs/b.py": "from pqn.envs import c", "envs/c.py": ""}, []),
    (
        learner_knows,
        {"algorithms/pqn.py": "import pqn.envs.contract\nimport pqn.device", "envs/contract.py": "", "device.py": ""},
        ["src/pqn/algorithms/pqn.py:2"],
    ),
    (long_functions, {"a.py": "def f():\n" + "    x\n" * 60 + "def g():\n" + "    x\n" * 59}, ["src/pqn/a.py:1"]),
    (suppressed, {"a.py": "x = 'noqa'\ny = 1  # " + "noqa: E731"}, ["src/pqn/a.py:2"]),
    (
        untyped,
        {"a.py": "def f(a, b: int, *c: Any) -> 'list[typing.Any]':\n    x: Any = 1\nT = Any\ndef g(t: T | None): ..."},
        ["src/pqn/a.py:1", "src/pqn/a.py:1", "src/pqn/a.py:4"],
    ),
    (untyped, {"a.py": "PyTree = Any\ndef f(x: PyTree, y: Literal['not a type', 'Anyhow']): ..."}, []),
    (empty_names, {"a.py": "class Part:\n    beside: int\ndef f(apart): ...\ng = lambda How: 1"}, [
        "src/pqn/a.py:1", "src/pqn/a.py:2", "src/pqn/a.py:3", "src/pqn/a.py:4",
    ]),
    (empty_names, {"a.py": "x, NEVER = 1, 2\ndef f():\n    apart = 1"}, ["src/pqn/a.py:1"]),
    (unmirrored, {"envs/a.py": "", "envs/check/b.py": ""}, ["src/pqn/envs/check/__init__.py:1"]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "files", "expected"), BROKEN)
def test_a_rule_finds_its_offenders(rule: Rule, files: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "tests/envs").mkdir(parents=True)
    (tmp_path / "tests/envs/test_a.py").touch()
    for name, text in files.items():
        file = tmp_path / "src/pqn" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert sorted(f"{offence.file}:{offence.line}" for offence in rule(tmp_path)) == sorted(expected)


# ---- `python tests/test_house.py` ----

RULES: dict[str, tuple[Rule, int]] = {
    "imports from a later room": (later_rooms, 0),
    "imports that lie on a cycle": (cycles, 0),
    f"imports that {LEARNER} should not have": (learner_knows, 0),
    f"functions over {MAX_FUNCTION_LINES} lines": (long_functions, 0),
    "noqa": (suppressed, MAX_NOQA),
    "Any in signatures": (untyped, MAX_ANY),
    "names that explain nothing": (empty_names, 0),
    "folders without tests": (unmirrored, 0),
}


def report(root: Path) -> str:
    """Every offender by rule, and how many each room has."""
    text, lines = [], core_lines(root)
    for title, (rule, limit) in RULES.items():
        offences = rule(root)
        text += [f"{title}: {len(offences)} (at most {limit})", *(f"  {offence}" for offence in offences)]
        rooms = Counter(offence.room for offence in offences).most_common()
        text += [f"  by room: {', '.join(f'{room} {count}' for room, count in rooms)}"] if rooms else []
        text += [""]
    text += [f"{LEARNER}: {lines[LEARNER]} lines (at most {MAX_LEARNER_LINES})"]
    text += [f"core: {sum(lines.values())} lines (at most {MAX_CORE_LINES}): {lines}"]
    return "\n".join(text)


if __name__ == "__main__":
    sys.stdout.write(report(ROOT) + "\n")
