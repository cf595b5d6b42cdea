"""DeepSea with a simplified Bootstrapped DQN: does normalisation replace the target network when exploration is deep?

Random exploration needs 2^N episodes to find the treasure of an N×N grid. An ensemble whose members disagree where they
have no data needs far fewer. `pqn.experiments.deepsea_agent` has the environment and the agent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from pqn.experiments import record
from pqn.experiments.configs import DeepSeaConfig
from pqn.experiments.deepsea_agent import make_program
from pqn.experiments.figures import COLOUR, GREY, LABELS, band
from pqn.report.style import figure_file

SOLVED = 0.9  # bsuite: solved once fewer than 90 % of all episodes so far were bad


@dataclass(frozen=True)
class DeepSeaRuns:
    """One norm: which episodes of which seed found the treasure."""

    found: np.ndarray  # [S, episodes] bool
    seconds: float

    def first_treasure(self) -> list[int | None]:
        """Per seed, the first episode (from 1) that reached the treasure."""
        return [int(row.argmax()) + 1 if row.any() else None for row in self.found]

    def solved(self) -> list[int | None]:
        """Per seed, the first episode by which fewer than 90 % of episodes had been bad (bsuite's criterion)."""
        share = self.regret() / np.arange(1, self.found.shape[1] + 1)
        return [int((row < SOLVED).argmax()) + 1 if (row < SOLVED).any() else None for row in share]

    def regret(self) -> np.ndarray:
        """Bad episodes so far, [S, episodes]."""
        return np.cumsum(~self.found, axis=1)

    def summary(self) -> dict[str, object]:
        """Counts and medians over seeds; an unsolved seed counts as the episodes it was given."""
        solved, episodes = self.solved(), self.found.shape[1]
        return {
            "seeds": len(solved),
            "solved": sum(s is not None for s in solved),
            "episodes": episodes,
            "first_treasure": self.first_treasure(),
            "solved_episode": solved,
            "median_solved_episode": float(np.median([episodes if s is None else s for s in solved])),
            "last_100_success": self.found[:, -100:].mean(1),
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class DeepSeaResult:
    """Runs by norm."""

    config: DeepSeaConfig
    runs: dict[str, DeepSeaRuns]

    def summary(self) -> dict[str, object]:
        """`DeepSeaRuns.summary` by norm."""
        return {norm: runs.summary() for norm, runs in self.runs.items()}

    def save(self, directory: str | Path, command: str | None = None) -> list[Path]:
        """Writes deepsea-N.json and deepsea-N.png into `directory`, and returns their paths."""
        directory, name = Path(directory), f"deepsea-{self.config.depth}"
        command = f"pqn theory deepsea --depth {self.config.depth}" if command is None else command
        content = {
            "provenance": record.made_by(command, sum(runs.seconds for runs in self.runs.values())),
            "config": asdict(self.config),
            "summary": self.summary(),
            # Episodes that found the treasure, by number: far shorter than a bit per episode.
            "found": {norm: [(np.flatnonzero(r) + 1) for r in runs.found] for norm, runs in self.runs.items()},
        }
        return [
            record.write_json(directory / f"{name}.json", content),
            draw(self, directory / f"{name}.png"),
        ]


def run_norm(config: DeepSeaConfig, norm: str, progress: Callable[[str], None] | None = None) -> DeepSeaRuns:
    """All seeds of one norm. Learning starts with the first episode that finds `min_replay` transitions stored."""
    began = time.perf_counter()
    init, run_episodes = make_program(config, norm)
    agents = init(jax.vmap(jax.random.key)(config.seed + jnp.arange(config.seeds)))
    warm_up = math.ceil(config.min_replay / config.depth)
    (agents, t), found = run_episodes(agents, jnp.asarray(0), warm_up, False)
    parts = [np.asarray(found)]
    while sum(map(len, parts)) < config.episodes:
        (agents, t), found = run_episodes(agents, t, config.chunk, True)
        parts.append(np.asarray(found))
        runs = DeepSeaRuns(np.concatenate(parts)[: config.episodes].T, time.perf_counter() - began)
        if progress is not None:
            done = sum(s is not None for s in runs.solved())
            progress(f"depth {config.depth}, {norm}: episode {runs.found.shape[1]}, {done}/{config.seeds} seeds solved")
        if config.stop_when_solved and all(s is not None for s in runs.solved()):
            break
    return DeepSeaRuns(np.concatenate(parts)[: config.episodes].T, time.perf_counter() - began)


def run(config: DeepSeaConfig | None = None, progress: Callable[[str], None] | None = None) -> DeepSeaResult:
    """Every norm of `config.norms`; `progress` is told one line per chunk of episodes."""
    config = DeepSeaConfig() if config is None else config
    config.validate()
    return DeepSeaResult(config, {norm: run_norm(config, norm, progress) for norm in config.norms})


def draw(result: DeepSeaResult, path: Path) -> Path:
    """Episodes until solved per seed, and the share of bad episodes over time."""
    with figure_file(path, (9.0, 3.6)) as figure:
        left, right = figure.subplots(1, 2)
        for place, (norm, runs) in enumerate(result.runs.items()):
            episodes = runs.found.shape[1]
            for seed, solved in enumerate(runs.solved()):
                x = place + 0.3 * (seed / max(len(runs.found) - 1, 1) - 0.5)
                marker = "o" if solved is not None else "x"
                left.plot(x, episodes if solved is None else solved, marker, color=COLOUR[norm], markersize=5)
            share = runs.regret() / np.arange(1, episodes + 1)
            band(right, np.arange(1, episodes + 1), share, COLOUR[norm], LABELS[norm])
        left.set_xticks(range(len(result.runs)), [LABELS[norm] for norm in result.runs])
        left.set_ylabel("episodes until solved (× = never)")
        left.set_ylim(bottom=0)
        right.axhline(SOLVED, color=GREY, linestyle=":", linewidth=1)
        right.set(xlabel="episodes", ylabel="bad episodes so far (share)", ylim=(0, 1.02))
        right.legend(fontsize=8)
        figure.suptitle(f"DeepSea, depth {result.config.depth}, {result.config.seeds} seeds, no target network")
    return path
