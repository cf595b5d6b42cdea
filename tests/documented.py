"""The code blocks of the documentation, and how a test runs them: as written, in a fresh directory, at small sizes.

A block of Python or of commands is executed unless the line above it says otherwise, with a reason:

    <!-- tests: slow: what takes so long -->      executed by `make test-slow` only
    <!-- tests: skip: why it cannot be executed -->

A training is shrunk after its command line was read and found valid: fewer steps, environments and units; of a sweep
the first and the last combination. A run directory that a page speaks of and does not make is a tiny run.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

from written_runs import write_run

from pqn.cli.main import commands, main
from pqn.config import Config

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"<!-- tests: (slow|skip): (\S.*) -->\n\Z")

# Options that make an experiment of the theory small; they are added to those of the page.
SMALL_THEORY = {
    "baird": "--updates 40 --records 4 --seeds 1 --arms none",
    "lemma": "--widths 16 32 --fit-from 16 --norms layer --gammas 0.9 --shifts 0 --sweep-width 16 --iterations 4"
    " --seeds 1",
    "deepsea": "--depth 3 --norms none --ensemble 2 --hidden 4 --seeds 1 --episodes 4 --chunk 2 --min-replay 8",
}


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    mark: str | None  # "slow", "skip"

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that the block shows, if its first line is `# name.py` or `# name.toml`."""
        named = re.match(r"# (\w+\.(?:py|toml))\n", self.text) if self.language in ("python", "toml") else None
        return named and named[1]

    @property
    def commands(self) -> list[str]:
        """Lines of a shell, without comments; a line that ends in \\ goes on."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [command for line in lines if (command := re.split(r"(?:^|\s)#", line)[0].strip())]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def shown(page: Path) -> str:
    """The text of a page, without the walks of CONTRIBUTING.md, which add things that are not here (see test_walks)."""
    return page.read_text().split("\n# Four additions\n")[0]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text, found = shown(page), []
    for match in FENCE.finditer(text):
        mark = MARK.search(text[: match.start()])
        line = text[: match.start()].count("\n") + 1
        found.append(Block(page, line, match[1], match[2], mark and mark[1]))
    return found


def small(config: Config) -> Config:
    """The same training with fewer steps, environments and units."""
    learner, network = config.learner, config.network
    steps, envs = min(learner.rollout_steps, 4), min(config.env.num_envs, 4)
    changes: dict[str, object] = {
        "env.num_envs": envs,
        "learner.rollout_steps": steps,
        "learner.epochs": 1,
        "learner.minibatches": min(learner.minibatches, 2),
        "learner.burn_in": min(learner.burn_in, 2),
        "network.hidden": tuple(min(units, 16) for units in network.hidden),
        "network.memory_size": min(network.memory_size, 8),
        "eval.count": 2,
        "eval.num_envs": 2,
        "eval.max_steps": 16,
        "log.rows": 2,
        "save.checkpoints": 1,
        "seeds": 1,
        "total_steps": 3 * steps * envs,
        "simulators.greedy_envs": 0,
    }
    if config.replays:
        changes |= {"replay.size": 256, "replay.start": 0, "replay.batch": 4, "total_steps": 12 * steps * envs}
    if config.shards > 1:
        changes |= {"shards": 2}
    if learner.segment_length is not None:
        changes["learner.segment_length"] = min(learner.segment_length, steps)
    return config.replace(changes).validate()


def first_and_last(combinations: list[tuple[str, Config]]) -> list[tuple[str, Config]]:
    """Two runs of a sweep, small: also those that are trained by other processes."""
    ends = dict([combinations[0], combinations[-1]])
    return [(label, small(config)) for label, config in ends.items()]


class Session:
    """Executes the blocks of a page one after another, in the present directory, which is a fresh one.

    Args:
        stand_in: a finished run, of which copies are made where a page speaks of a run that it does not make.
    """

    def __init__(self, stand_in: Path):
        self.stand_in = stand_in
        self.names: dict[str, object] = {"__name__": "__main__"}

    def write_files(self, page: Path, before: int) -> None:
        """Writes the files whose content a page shows before a line: a reader has them by then."""
        for block in blocks(page):
            if block.file and block.line < before:
                Path(block.file).write_text(block.text)

    def run(self, block: Block) -> None:
        """Executes a block; an assertion names the line that failed."""
        if block.language == "python":
            if block.file:
                Path(block.file).write_text(block.text)
            else:
                # Padded, so that a traceback names the line of the page.
                exec(compile("\n" * block.line + block.text, str(block.page), "exec"), self.names)
        elif block.language == "sh":
            for command in block.commands:
                self.command(command, block)

    def command(self, command: str, block: Block) -> None:
        words = self._expanded(shlex.split(command))
        if "my_env:make_env" in words:  # the environment of docs/python.md
            self.run(next(each for each in blocks(ROOT / "docs" / "python.md") if each.text.startswith("# my_env.py")))
        if words[:2] == ["pqn", "theory"]:
            words += shlex.split(SMALL_THEORY[words[2].partition("-")[0]])
        if words[:2] == ["pqn", "tune"]:
            words += ["--trials", "2"]
        if words[0] == "pqn":
            assert main(words[1:]) == 0, f"{block}: {command}"
        else:
            check_command(words, block)

    def _expanded(self, words: list[str]) -> list[str]:
        """Words with their patterns replaced, as by a shell; runs that are not there are made."""
        found: list[str] = []
        if words[:2] == ["pqn", "runs"] and not Path("runs").exists():  # whoever lists runs has some
            shutil.copytree(self.stand_in, "runs/a")
        if "--init-from" in words:  # of as many seeds as the new run, which `small` gives one
            main(["train", "cartpole", "--quiet", "--out", words[words.index("--init-from") + 1]])
        made = words[words.index("--out") + 1] if "--out" in words else None
        for word in words:
            if not word.startswith("runs/") or word == made:
                found.append(word)
                continue
            path = Path(word.replace("*", "1"))
            if "atari" in words or "--human" in words:  # the few steps of a test finish no game
                shutil.rmtree(path, ignore_errors=True)
                write_run(path, base="atari-breakout" if "breakout" in word else "atari-pong")
            elif not path.exists():
                shutil.copytree(self.stand_in, path)
            found.append(str(path))
        return found


# -------------------------------------------------------------- commands that a test checks instead of executing them


def check_command(words: list[str], block: Block) -> None:
    """What would change the machine, or measures for minutes, is looked up: it must exist as it is called."""
    assert words[0] in CHECKS, f"{block}: no test knows how to execute or to check `{words[0]}`"
    CHECKS[words[0]](words[1:], block)


def _make(words: list[str], block: Block) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {word for word in words if "=" not in word} <= targets, block


def _pip(words: list[str], block: Block) -> None:
    """Of this checkout, with extras that there are; of other packages nothing can be said."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[0] == "install", block
    for word in words[1:]:
        if word.startswith("."):
            assert set(filter(None, re.split(r"[\[\],]", word.removeprefix(".")))) <= set(extras), f"{block}: {word}"


def _python(words: list[str], block: Block) -> None:
    """A module of bench/ or a script of examples/, with options that its text has."""
    if words[0] == "-m" and words[1].startswith("http."):
        return
    path = Path(f"{words[1].replace('.', '/')}.py") if words[0] == "-m" else Path(words[0])
    source = ROOT / path if (ROOT / path).exists() else ROOT / path.with_suffix("") / "__main__.py"
    assert source.exists() or importlib.util.find_spec(words[1]), f"{block}: {path}"
    for option in (word for word in words if word.startswith("--")):
        field = option[2:].replace("-", "_")
        assert re.search(rf"{re.escape(option)}\b|\b{field}\b", source.read_text()), f"{block}: {option}"


def _srun(words: list[str], block: Block) -> None:
    """Slurm starts a command of ours, which must be one."""
    assert words[0] == "pqn" and words[1] in commands(), block


CHECKS: dict[str, Callable[[list[str], Block], None]] = {"make": _make, "pip": _pip, "python": _python, "srun": _srun}
