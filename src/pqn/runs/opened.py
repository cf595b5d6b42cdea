"""Opening a run: the one place where a run directory becomes a configuration, an environment and parameters.

`open_run` reads what a run says about itself, `OpenedRun.trained` one of its intact checkpoints, and `Trained` is that
checkpoint after it was compared with the run: the same run, the same configuration, counters that agree. Evaluating,
resuming, loading and measuring all start here, so that none of them believes what another would refuse.

This module imports jax only where a checkpoint is read: listing and plotting runs must be instant.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pqn.config import Config
from pqn.envs import registry, source
from pqn.errors import CheckpointError, ConfigError, EnvError, RunError
from pqn.fields import Within, brief, checked
from pqn.options import Seed
from pqn.runs import directory as runs
from pqn.runs import files, history, metadata, provenance
from pqn.runs.about import network_identity
from pqn.runs.checkpoint_names import name_of, step_of
from pqn.runs.configs import HISTORY, MAY_CHANGE, describe, differences, is_text, read_config
from pqn.runs.identity import STRUCTURE, EnvIdentity, identify, spec_difference, version_changes
from pqn.runs.trained import Trained, trained_of

if TYPE_CHECKING:
    from pqn.algorithms.base import Actor
    from pqn.runs.leaves import Contents
    from pqn.types import EnvSpec, Policy

Warn = Callable[[str], None]
Which = Literal["last", "best"] | int
"""Which checkpoint of a run: see `OpenedRun.trained`."""


def open_run(path: runs.PathLike | runs.RunDir, warn: Warn | None = None) -> OpenedRun:
    """Reads and checks what a run says about itself; nothing is imported or made because of it.

    Args:
      path: a run directory, perhaps a locked one.
      warn: told what the user should know, in a sentence; by default a Python warning.

    Raises:
      RunError: it is no run, or one of its files is damaged.
    """
    directory = path if isinstance(path, runs.RunDir) else runs.RunDir.open(path)
    config, changes = _read_plan(directory)
    identifier, env, versions, origin = _read_environment(directory)
    if env is not None and env.name != config.env.name:
        raise RunError(
            f"{directory.path}: env.name is {config.env.name} in {runs.CONFIG}, but the run was trained in {env.name} "
            f"({runs.ENVIRONMENT}); put the old name back"
        )
    return OpenedRun(directory, config, identifier, env, versions, warn or _python_warning, changes, origin)


@dataclasses.dataclass(frozen=True)
class OpenedRun:
    """A run as its files describe it; those of a run from before there were identities lack `id` and `env`."""

    directory: runs.RunDir
    config: Config
    id: str | None
    env: EnvIdentity | None
    versions: dict[str, str | None]
    warn: Warn
    history: tuple[history.Change, ...] = ()
    """How its plan was changed."""
    origin: str | None = None
    """The run whose weights it started from, as its files call it."""

    @property
    def path(self) -> Path:
        return self.directory.path

    def newest(self) -> Trained:
        """The newest intact checkpoint; each damaged one that was passed over is said.

        Raises:
          NoCheckpoint: there is none; `NoIntactCheckpoint` where there were some.
          CheckpointError: it is of another run, or of another configuration than the run's.
        """
        from pqn.runs import checkpoint

        return checkpoint.newest(
            self.directory.checkpoints, lambda path: self._trained(checkpoint.read(path)), self.warn
        )

    def trained(self, which: Which) -> Trained:
        """One of its checkpoints.

        Args:
          which: "last", the newest intact one; "best", the one with the highest mean greedy return of those that are
            kept and were evaluated; or the environment steps, per seed, that it was trained for.

        Raises:
          NoCheckpoint: there is no such checkpoint, or no intact one.
          CheckpointError: it is of another run, or of another configuration than the run's.
        """
        from pqn.runs import best, checkpoint

        if which == "last":
            return self.newest()
        directory, read = self.directory.checkpoints, lambda path: self._trained(checkpoint.read(path))
        if which == "best":
            if not best.ranked(directory):
                self.newest()  # says what is wrong if there is no checkpoint at all
                raise checkpoint.NoCheckpoint(
                    f"none of the checkpoints in {directory} was written at an evaluation, so none is the best (let "
                    f"save.checkpoints equal eval.count); name one by its steps: {self._kept()}"
                )
            return checkpoint.newest(directory, read, self.warn, best.ranked)
        steps = _steps(which)
        update, rest = divmod(steps, self.config.steps_per_update)
        path = directory / name_of(update)
        if rest or files.kind_of(path) is None:
            raise checkpoint.NoCheckpoint(f"{self.path} has no checkpoint of {steps} steps; kept are {self._kept()}")
        return read(path)

    def index_of(self, seed: int | None) -> int:
        """The place of a seed among those that it trained; None is the first.

        Raises:
          ConfigError: it is no seed.
          RunError: it was not trained.
        """
        first, count = self.config.seed, self.config.seeds
        index = 0 if seed is None else checked("seed", Seed, seed) - first
        if not 0 <= index < count:
            raise RunError(f"{self.path} trained seeds {first} to {first + count - 1}, not {seed}")
        return index

    def _kept(self) -> str:
        """The steps of its checkpoints, as in "512, 640"."""
        from pqn.runs import checkpoint

        found = {step_of(path.name) for path in checkpoint.listing(self.directory.checkpoints)}
        updates = sorted(update for update in found if update is not None)
        return ", ".join(str(update * self.config.steps_per_update) for update in updates) or "none"

    def given_network(self, network: object, command: str) -> Config:
        """The configuration with the run's network, where that is the user's own and was given.

        Raises:
          ConfigError: it must be given again, or it is not the user's own.
        """
        from pqn.networks import given

        return given.of_run(self.config, network, f"pqn {command} {shlex.quote(str(self.path))}")

    def actor(self, trained: Trained, network: object, command: str) -> tuple[Actor, Policy]:
        """`Trained.actor` with the run's network; another class of network than the recorded one is said."""
        config = self.given_network(network, command)
        actor, policies = dataclasses.replace(trained, config=_with_module(trained.config, config)).actor()
        self.compare_network(trained, actor)
        return actor, policies

    def compare_network(self, trained: Trained, actor: Actor) -> None:
        """Says so where the network is of another class than that of the run."""
        recorded, now = trained.contents.metadata.get("network"), network_identity(actor)
        before = recorded.get("made") if isinstance(recorded, dict) else None
        if now is not None and is_text(before) and before != now["made"]:
            self.warn(f"{self.path} was trained with a network of {before}; this is one of {now['made']}")

    def source(self, env: object, command: str) -> source.EnvSource:
        """Where the run's environments come from: its own name if that is harmless, otherwise what the user gave."""
        return source.of_run(self.config, env, f"pqn {command} {shlex.quote(str(self.path))}")

    def compare(self, trained: Trained, made: source.EnvSource, spec: EnvSpec, exact: bool = True) -> EnvIdentity:
        """Refuses an environment that is not the run's, and says which packages have changed.

        Args:
          trained: what is about to be used in it.
          made: where it came from.
          spec: of the environment.
          exact: whether it must be the run's own. If not, any will do that the network fits; another one is said.

        Raises:
          EnvError: with the first difference and both values.
        """
        before = trained.env.name if trained.env else trained.config.env.name
        difference = spec_difference(spec, trained.spec, None if exact or made.name == before else STRUCTURE)
        if difference:
            raise EnvError(f"{made.name} is not the environment that {self.path} was trained in: {difference}")
        identity = identify(made, spec)
        if _differ(made.name, before):
            if exact and trained.env and trained.env.kind == "registered":
                raise EnvError(f"{self.path} was trained in {before}; it cannot go on in {made.name}")
            self.warn(f"{self.path} was trained in {before}; this is {made.name}")
        elif trained.env and trained.env.kind != "registered" and trained.env.made != identity.made:
            self.warn(f"{self.path} was trained in environments of {trained.env.made}; these are of {identity.made}")
        self._compare_versions(trained, identity)
        return identity

    def _compare_versions(self, trained: Trained, identity: EnvIdentity) -> None:
        recorded = self.versions | (trained.env.versions if trained.env else {})
        changes = version_changes(recorded, provenance.versions() | identity.versions)
        if changes:
            self.warn(f"{self.path} was trained with other versions: {', '.join(changes)}; numbers may differ")

    def _trained(self, contents: Contents) -> Trained:
        trained = trained_of(contents)
        known = (self.path / runs.ENVIRONMENT).exists()
        if known and trained.run != self.id:
            raise CheckpointError(
                f"{contents.path} belongs to another run (its id is {trained.run}, this run's is {self.id}): remove it"
            )
        if not known:
            self.warn(f"{self.path} has no {runs.ENVIRONMENT}; whether its checkpoints are its own cannot be checked")
        planned = history.at(self.config, self.history, trained.update)
        refused = {
            name: values
            for name, values in differences(planned, trained.config).items()
            if not name.startswith(MAY_CHANGE)
        }
        if refused:
            raise CheckpointError(
                f"{self.path / runs.CONFIG} and the checkpoint {contents.path.name} disagree: {describe(refused)}; "
                f"put the checkpoint's values back, or train anew in another directory"
            )
        return trained


# ------------------------------------------------------------------------------------------------------- what is read


def _read_plan(directory: runs.RunDir) -> tuple[Config, tuple[history.Change, ...]]:
    """The configuration, and how it was changed, from config.json."""
    where, data = str(directory.path / runs.CONFIG), directory.read_json(runs.CONFIG)
    config = read_config(data, where)
    try:
        return config, history.parse(data.get(HISTORY), config)
    except ValueError as error:
        raise RunError(f"{where} is damaged: {files.shown(str(error))}") from error


def _steps(which: object) -> int:
    try:
        return checked("checkpoint", Annotated[int, Within(0, 10**15)], which)
    except ConfigError:
        raise ConfigError(
            f"checkpoint is {brief(which)}; it must be 'last', 'best' or the steps that it was trained for"
        ) from None


def _with_module(config: Config, other: Config) -> Config:
    """The configuration with the network of another."""
    return config.replace({"network.module": other.network.module})


def _read_environment(
    directory: runs.RunDir,
) -> tuple[str | None, EnvIdentity | None, dict[str, str | None], str | None]:
    """Id, environment, versions and origin from environment.json; nothing where the file is not there."""
    if not files.is_file(directory.path / runs.ENVIRONMENT):
        return None, None, {}, None
    where, data = directory.path / runs.ENVIRONMENT, directory.read_json(runs.ENVIRONMENT)
    if not isinstance(data, dict):
        raise RunError(f"{where} is damaged: it is not an object")
    try:
        env = EnvIdentity.from_dict(data["env"]) if "env" in data else None
        origin = metadata.origin(data.get("init_from"))
        return metadata.identifier(data.get("run")), env, metadata.versions(data.get("versions", {})), origin
    except ValueError as error:
        raise RunError(f"{where} is damaged: {error}") from error


def _differ(name: str, other: str) -> bool:
    canonical = [n if n.startswith(f"{registry.GIVEN_IN_PYTHON}:") else registry.canonical(n) for n in (name, other)]
    return canonical[0] != canonical[1]


def _python_warning(text: str) -> None:
    frame, depth = sys._getframe(1), 2
    # Up to the user's own line: the package's say nothing to them.
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pqn":
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, stacklevel=depth)
