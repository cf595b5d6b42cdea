"""What the documentation shows must run, and what it points at must exist."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from documented import PAGES, ROOT, shown, small
from packaging.requirements import Requirement

import pqn
from pqn import training
from pqn.cli import sweep
from pqn.cli.main import commands, main
from pqn.config import Config
from pqn.fields import hints, is_group

GENERATED = sorted((ROOT / "results").glob("*/README.md"))
NOTES = sorted((ROOT / "docs" / "notes").glob("*.md"))
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", shown(page), re.DOTALL | re.MULTILINE)


def trainings(command: str = "train") -> list[str]:
    """The lines `pqn train …` of all pages, or those of another command, without their comments."""
    whole = [block.replace("\\\n", " ") for page in PAGES for block in blocks(page, "sh")]
    lines = [line for block in whole for line in block.splitlines()]
    return sorted({line.split(" #")[0].strip() for line in lines if line.startswith(f"pqn {command} ")})


@pytest.mark.parametrize(
    ("page", "run"),
    [
        ("README.md", "readme"),
        ("docs/python.md", "counter"),
        ("docs/watching.md", "corridor"),
        ("docs/export.md", "recurrent"),
    ],
)
def test_the_python_of_a_page_runs(page, run, tmp_path):
    """All blocks in order, in a fresh directory; one that starts with a file name is that file."""
    script = []
    for block in blocks(ROOT / page, "python"):
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            (tmp_path / named.group(1)).write_text(block)
        else:
            script.append(block)
    (tmp_path / "page.py").write_text("\n".join(script))
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / run / "summary.json").exists()


@pytest.mark.parametrize("page", [*PAGES, *GENERATED, *NOTES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), f"{target}#{anchor}"


@each_page
def test_links_to_code_name_what_is_there(page):
    """In [`name`](file.py) the name, or the last part of it, is defined in the file."""
    for label, target in re.findall(r"\[`([\w.]+)`\]\(([^)#:]+\.py)\)", page.read_text()):
        name = label.rpartition(".")[2]
        defined = rf"^\s*(?:def|class) {name}\b|^\s*{name}\b.*="
        code = (page.parent / target).read_text()
        assert label.endswith(".py") or re.search(defined, code, re.MULTILINE), f"{label} in {target}"


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_map_of_the_code_is_true():
    """Every module has its place in the README's map."""
    text = (ROOT / "README.md").read_text()
    begin = text.index("\nsrc/pqn/")
    map_ = text[begin : text.index("```", begin)]
    for path in (ROOT / "src" / "pqn").iterdir():
        if not path.name[0].isalpha() or path.name == "py.typed":
            continue
        name = f"{path.name}/" if path.is_dir() else path.name
        assert re.search(rf"(?<![\w/]){re.escape(name)}", map_), f"{name} is not in the README's map"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 200


@each_page
def test_commands_exist(page):
    """`pqn WORD` in code names a command."""
    for command in re.findall(r"(?:^|`)pqn ([a-z]+)", shown(page), re.MULTILINE):
        assert command in commands(), command


@each_page
def test_options_exist(page):
    """`--group.option` in text or code names an option."""
    groups = {name: hints(hint) for name, hint in hints(Config).items() if is_group(hint)}
    for group, option in re.findall(r"--([a-z]+)\.([a-z0-9-]+)", page.read_text()):
        assert option.replace("-", "_") in groups[group], f"--{group}.{option}"


@pytest.mark.parametrize("line", trainings())
def test_a_training_would_start(line, monkeypatch):
    """Preset, options and values of a documented `pqn train` are accepted, and fit together."""
    seen = []

    def train(config, **_):
        seen.append(small(config.validate()))  # what test_a_block_runs trains of it is valid, too
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", train)
    words = shlex.split(line)[1:]
    if "--coordinator" in words:  # tests/hosts meets other processes
        words = words[: words.index("--coordinator")]
    main(words)
    assert seen


@pytest.mark.parametrize("line", trainings("sweep"))
def test_a_sweep_would_start(line, monkeypatch):
    """Every combination of a documented `pqn sweep` is accepted."""
    seen = []

    def run_arms(arms, *_):
        seen.extend(arm.config.validate() for arm in arms)
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "run_arms", run_arms)
    main(shlex.split(line)[1:])
    assert len(seen) > 1


def test_pinned_versions_are_allowed_ones():
    """Each dependency has a pinned version, within the bounds of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements" / "pinned.txt").read_text().splitlines()
    pinned = dict(line.lower().replace("_", "-").split("==") for line in lines if not line.startswith("#"))
    tested = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    for wanted in map(Requirement, tested):
        if wanted.name.lower() in ("pqn-jax", "wandb"):  # itself; not part of what the suite runs with
            continue
        assert pinned[wanted.name.lower()] in wanted.specifier, wanted


def test_the_citation_names_this_version():
    assert f"\nversion: {pqn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
