"""`train` starts a run, `resume` continues one."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import uuid
from collections.abc import Iterator

from pqn.callbacks import Callbacks, as_callbacks
from pqn.config import Config
from pqn.device import enable_compilation_cache
from pqn.envs.source import EnvSource, given
from pqn.errors import CheckpointError, ConfigError, Interrupted, PqnError, explained
from pqn.fields import brief, checked
from pqn.networks.given import with_network
from pqn.programs.base import Program
from pqn.programs.make import make_program
from pqn.progress import Progress
from pqn.runs import checkpoint, history, provenance, shared
from pqn.runs import directory as runs
from pqn.runs.about import About, network_identity
from pqn.runs.configs import HISTORY, describe, differences
from pqn.runs.identity import identify
from pqn.runs.loggers import check_loggers
from pqn.runs.opened import OpenedRun, open_run
from pqn.runs.trained import Trained
from pqn.training import extension, initial
from pqn.training.clock import Clock
from pqn.training.loop import Loop
from pqn.training.result import Result


@explained()
def train(
    config: Config,
    *,
    env: object = None,
    network: object = None,
    init_from: initial.InitFrom | None = None,
    callbacks: Callbacks | None = None,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Result:
    """Trains `config` in a new run directory.

    Args:
      config: what to train; see `pqn.preset`.
      env: your own environment instead of `config.env.name`: a name, a Gymnasium id, a `SingleEnv`, a `gymnasium.Env`,
        a Gymnasium vector environment, or a function that makes one of these, a `JaxEnv` or a `HostEnv`. The run
        records what it was, and wants it again to be resumed or evaluated.
      network: your own network instead of the one that `config.network` describes: a flax module, or a function of the
        environment's `EnvSpec` that makes one; see `pqn.networks.given`. The run wants it again, too.
      init_from: a run directory, or an agent, whose weights to start from. The optimiser starts afresh.
      callbacks: functions of a `Moment`, called after each evaluation, or objects of `pqn.callbacks`.
      out: the run directory; by default `runs/<preset>-<time>`.
      overwrite: replace the run in `out`, if there is one. Nothing but the files of a run is ever removed.
      progress: where to report; by default to standard error. False: only warnings.

    Raises:
      PqnError: with a sentence for the user. `Interrupted` after Ctrl-C, `Diverged` on NaN or infinity.
    """
    clock, seen = Clock(), as_callbacks(callbacks)
    if checked("overwrite", bool, overwrite) and out is None:
        raise ConfigError("overwrite is for a run directory that you name; name it with out")
    config, source = _with_given(config, network, env)
    check_loggers(config.log.to)
    enable_compilation_cache()
    progress = shared.progress_of(progress)
    weights = None if init_from is None else initial.read_weights(init_from)
    program = make_program(config, source)  # before the directory exists: a bad option leaves no litter
    policy = None if weights is None else initial.fitted(weights, program.algorithm, config)
    with (
        shared.create(out, config.preset, overwrite) as run,
        contextlib.closing(program),
        _failures(run),
    ):
        about = _describe(program, source, weights)
        machine = provenance.describe_environment() | {"device": provenance.describe_device()}
        # First: a configuration makes a run of the directory, and a run must have its id.
        run.write_json(runs.ENVIRONMENT, machine | about.to_dict())
        run.write_json(runs.CONFIG, config.to_dict())
        if rounded := config.rounding():
            progress.note(rounded)
        loop = Loop(program, run, progress, about, seen, clock)
        loop.compile()
        if policy is None:
            return loop.fit(program.init())
        loop.save_at_once = True  # a resume must not start from other weights
        return loop.fit(initial.start_from(program, program.init(), policy))


@explained()
def resume(
    run: str | os.PathLike[str],
    *,
    total_steps: int | None = None,
    env: object = None,
    network: object = None,
    callbacks: Callbacks | None = None,
    progress: Progress | bool | None = None,
) -> Result:
    """Continues a run from its newest intact checkpoint, to exactly the state an uninterrupted run would reach.

    Args:
      run: a run directory.
      total_steps: train on to so many environment steps per seed, beyond the plan. ε keeps its course, and so does a
        learning rate that does not end at 0; one that does falls over the longer run. config.json records the change.
      env: the environment, where the run was trained in one of your own; see `train`.
      network: the network, where the run was trained with one of your own.
      callbacks: see `train`. They are not part of a run: give them again.
      progress: where to report; by default to standard error. False: only warnings.

    Raises:
      PqnError: with a sentence for the user: what was found is not this run, or not its environment.
    """
    clock, progress, seen = Clock(), shared.progress_of(progress), as_callbacks(callbacks)
    with shared.open_locked(run) as directory, contextlib.ExitStack() as stack:
        opened = open_run(directory, progress.warn)
        source = opened.source(env, "resume")
        before = opened.given_network(network, "resume")
        config = before if total_steps is None else extension.extended(before, total_steps)
        trained = _newest(opened, progress)
        enable_compilation_cache()
        program = make_program(config, source)
        stack.enter_context(contextlib.closing(program))
        if trained is None:
            identity = identify(source, program.algorithm.spec)
        else:
            identity = opened.compare(trained, source, program.algorithm.spec)
            opened.compare_network(trained, program.algorithm.actor)
            _say_changes(opened, trained, progress)
        state = None if trained is None else checkpoint.place(trained.contents, program.saved_shape())
        _record_plan(opened, program, trained, progress)
        origin = trained.contents.metadata.get("init_from") if trained else None
        network_now = network_identity(program.algorithm.actor)
        about = About(opened.id, identity, network_now, origin if isinstance(origin, dict) else None)
        loop = Loop(program, directory, progress, about, seen, clock)
        loop.restore(trained)
        if loop.update >= config.updates:
            progress.note(f"{run} is already complete ({config.updates} updates)")
            return loop.complete()
        for name in (runs.SUMMARY, runs.FAILURE):
            directory.forget(name)  # of an end that is no more
        stack.enter_context(_failures(directory))
        if loop.reason:  # the callbacks would have ended it where it stands
            return loop.finish()
        program.planned_updates = history.at(opened.config, opened.history, -1).updates if trained else config.updates
        loop.compile()
        return loop.fit(program.init() if state is None else program.restore(state, progress.note))


def _with_given(config: Config, network: object, env: object) -> tuple[Config, EnvSource]:
    """The configuration with what was given in the place of what it names, and where its environments come from."""
    if not isinstance(config, Config):
        raise ConfigError(f"config is {brief(config)}; it must be a Config, such as pqn.preset('cartpole')")
    config = with_network(config, network).validate()
    source = given(config.env.name if env is None else env, config.env.kwargs)
    named = dataclasses.replace(config.env, name=source.name, kwargs=dict(source.kwargs))
    return dataclasses.replace(config, env=named), source


def _describe(program: Program, source: EnvSource, weights: initial.Weights | None) -> About:
    """What identifies a new run."""
    actor, origin = program.algorithm.actor, None if weights is None else weights.about
    return About(uuid.uuid4().hex, identify(source, actor.spec), network_identity(actor), origin)


def _newest(opened: OpenedRun, progress: Progress) -> Trained | None:
    """The checkpoint to go on from; None for a run that was stopped before its first."""
    try:
        return opened.newest()
    except checkpoint.NoIntactCheckpoint as error:
        raise CheckpointError(
            f"{error}; to start anew, train in another directory, or remove {opened.directory.checkpoints} and resume"
        ) from error
    except checkpoint.NoCheckpoint as reason:
        if opened.origin is not None:
            raise CheckpointError(
                f"{reason}, and the run had started from other weights ({opened.origin}): train it again with init_from"
            ) from reason
        progress.warn(f"{reason}; starting from the beginning")
        return None


def _say_changes(opened: OpenedRun, trained: Trained, progress: Progress) -> None:
    """Names the options that were changed since the checkpoint, all of which may."""
    changed = differences(history.at(opened.config, opened.history, trained.update), trained.config)
    if changed:
        progress.warn(f"changed since the checkpoint: {describe(changed)}")
    if opened.config.log.to:
        progress.note(f"metrics also go to {', '.join(opened.config.log.to)} (log.to)")


def _record_plan(opened: OpenedRun, program: Program, trained: Trained | None, progress: Progress) -> None:
    """Writes a plan that was changed, and what it was before, in one piece."""
    config = program.config
    changes: list[history.Change] = []
    if trained is not None:  # otherwise nothing has been trained under the old plan
        changes = history.rewound(opened.history, trained.update)
        if config.total_steps != opened.config.total_steps:
            explores = "epsilon" in program.algorithm.schedules(trained.update)
            progress.note(extension.describe(opened.config, config, trained.update, explores))
            changes.append(history.change(opened.config, config, trained.update))
    if changes != list(opened.history) or config.total_steps != opened.config.total_steps:
        plan = config.to_dict() | ({HISTORY: [change.to_dict() for change in changes]} if changes else {})
        opened.directory.write_json(runs.CONFIG, plan)


@contextlib.contextmanager
def _failures(run: runs.RunDir) -> Iterator[None]:
    """Records in the run by which error it ended; being stopped by the user is none."""
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        content = {"time": now, "kind": type(error).__name__, "reason": " ".join(str(error).split())}
        with contextlib.suppress(PqnError):  # such as on a full disk: the error itself matters more
            run.write_json(runs.FAILURE, content)
        raise
