"""`make_film`: a trained agent, played and drawn into a file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, cast

import jax
import numpy as np

from pqn.device import enable_compilation_cache
from pqn.envs.check import check_quickly, is_ours
from pqn.envs.contract import HostEnv, JaxEnv
from pqn.errors import ConfigError, RunError
from pqn.fields import Options, Within
from pqn.options import MOST, Seed, Share
from pqn.programs.base import HostFactory
from pqn.programs.evaluation import step_limit
from pqn.runs import files
from pqn.runs.opened import Which, open_run
from pqn.watch import MOST_CELLS
from pqn.watch.compose import frames, texts
from pqn.watch.episodes import Moment, Player, play
from pqn.watch.painters import find_painter
from pqn.watch.simulated import play_simulators
from pqn.watch.writers import check_output, has_ffmpeg, write_frames, write_text

NAME = "agent"  # of the film in the run directory, without its suffix
MOST_STEPS = 2000


@dataclasses.dataclass(frozen=True)
class FilmOptions(Options):
    """What to play, and how to show it."""

    grid: tuple[Annotated[int, Within(1, MOST_CELLS)], ...] = (1, 1)
    """Rows and columns of episodes."""
    show_scores: bool = False
    """Q-values beside the picture."""
    seed: Seed = 0
    """Of the episodes."""
    train_seed: Annotated[int | None, Within(0, MOST)] = None
    """Which of the run's seeds plays; None is the first."""
    epsilon: Share = 0.0
    fps: Annotated[int | None, Within(1, 240)] = None
    """Frames a second; None is what suits the environment."""
    max_steps: Annotated[int | None, Within(1, 1_000_000)] = None
    """Longer episodes are cut; None is the limit of evaluations, at most `MOST_STEPS`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.grid) != 2 or self.grid[0] * self.grid[1] > MOST_CELLS:
            raise ConfigError(f"grid is {self.grid}; it must be rows and columns, of at most {MOST_CELLS} episodes")


@dataclasses.dataclass(frozen=True)
class Film:
    """What was written, and how the episodes went."""

    path: Path
    env: str
    step: int
    """Environment steps that the agent was trained for."""
    returns: np.ndarray  # [E] NaN where an episode was cut
    lengths: np.ndarray  # [E] steps that are shown
    max_steps: int
    text: str | None = None
    """The content, where the film is a text."""


class _Kept:
    """Hands on the moments of a film and keeps the last: it has the results."""

    def __init__(self, moments: Iterator[Moment]):
        self._moments, self.last, self.lengths = moments, None, np.zeros(0, int)

    def __iter__(self) -> Iterator[Moment]:
        for moment in self._moments:
            self.last: Moment | None = moment
            self.lengths = (self.lengths if self.lengths.size else 0) + moment.playing
            yield moment


def make_film(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    options: FilmOptions | None = None,
    *,
    env: object = None,
    network: object = None,
    checkpoint: Which = "last",
    warn: Callable[[str], None] | None = None,
) -> Film:
    """Plays the first full episode of rows × columns environments and draws each step.

    With the same seed and as many episodes, `pqn eval` plays the same games.

    Args:
      run: a run directory.
      out: the file, whose suffix says what it is: .mp4, .gif, or .txt for a game that is shown as text; by default
        `agent.mp4` in the run directory, `agent.gif` where there is no ffmpeg.
      options: what to play and how to show it.
      env: where to play, if not in the environment that the run records by name; see `pqn.train`.
      network: the network, where the run was trained with one of your own; see `pqn.train`.
      checkpoint: which one; see `pqn.load`.
      warn: told what the user should know, in a sentence; by default a Python warning.

    Raises:
      PqnError: with a sentence: not a run, no such checkpoint, an environment without pictures, or no ffmpeg.
    """
    options = options or FilmOptions()
    enable_compilation_cache()
    opened = open_run(run, warn)
    source, trained = opened.source(env, "video"), opened.trained(checkpoint)
    config, (actor, policies) = trained.config, opened.actor(trained, network, "video")
    index = opened.index_of(options.train_seed)
    rows, columns = options.grid
    episodes = rows * columns
    made = source(episodes)
    opened.compare(trained, source, made.spec, exact=False)
    if not is_ours(made):
        check_quickly(made)
    painter = find_painter(made)
    path = files.as_path("out", out) if out is not None else _in_the_run(opened.path, painter.is_text)
    check_output(path, painter.is_text, source.name)
    limit = options.max_steps or min(step_limit(config, made.spec), MOST_STEPS)
    key = jax.random.split(jax.random.key(options.seed), config.seeds)[index]
    player = Player(actor, jax.tree.map(lambda x: x[index], policies), key, options.epsilon, limit)
    moments = _Kept(_moments(made, cast(HostFactory, source), player, episodes))
    text = None
    if painter.is_text:
        text = texts(iter(moments), painter)
        write_text(path, text)
    else:
        fps = options.fps or painter.fps
        title = actor.scores_are if options.show_scores else None
        write_frames(path, frames(iter(moments), painter, (rows, columns), fps, title), fps)
    if moments.last is None:
        raise RunError(f"{source.name} was not played: max_steps is {limit}")
    result = moments.last.result.known()
    return Film(path, source.name, trained.step, np.asarray(result.ret), moments.lengths, limit, text)


def _in_the_run(run: Path, is_text: bool) -> Path:
    """Where a film goes if nobody says where: into the run itself, and not where a link in it leads."""
    path = run / f"{NAME}{'.txt' if is_text else '.mp4' if has_ffmpeg() else '.gif'}"
    files.is_file(path)
    return path


def _moments(made: JaxEnv | HostEnv, make_env: HostFactory, player: Player, episodes: int) -> Iterator[Moment]:
    if isinstance(made, HostEnv):
        made.close()
        return play_simulators(make_env, player, episodes)
    return play(made, player)
