"""Every option of a run, in frozen dataclasses; no JAX here, so `pqn --help` stays instant.

A field's docstring is its help text on the command line: `LearnerConfig.lam` is `--learner.lam`. Its type hint has its
bounds, which are checked when an instance is made (see `pqn.fields`). `Config.validate` checks options that depend on
each other. A new option is one field here; the command line, config.json, sweeps and the checks follow from it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pqn import renamed
from pqn.errors import ConfigError, suggest
from pqn.fields import OneOf, Options, Within, brief, hints, is_group

MOST = 2**31 - 1  # what the compiled program can count to

ALGORITHMS = ["pqn"]
"""Names of algorithms. Each is what `algorithms/NAME.py` calls ALGORITHM, with _ in the file's name for - in NAME."""

Group = TypeVar("Group", bound=Options)
Copies = Annotated[int, Within(1, 2**20)]  # of environments
Width = Annotated[int, Within(1, 2**16)]  # of a layer
Times = Annotated[int, Within(0, 10**6)]  # how often something happens in a run
Steps = Annotated[int, Within(1, MOST)]
StepsOrDefault = Annotated[int, Within(0, MOST)]
Seed = Annotated[int, Within(0, MOST)]
Share = Annotated[float, Within(0.0, 1.0)]
Positive = Annotated[float, Within(above=0.0)]
NotNegative = Annotated[float, Within(0.0)]


@dataclasses.dataclass(frozen=True)
class EnvConfig(Options, prefix="env."):
    """Which environment, and how many copies of it."""

    name: str = "CartPole-v1"
    """Environment: a name from `pqn envs`, or `module:function` for your own (`--env NAME` is short for this)."""
    num_envs: Copies = 32
    """N, environments stepped in parallel per seed."""
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Options of the environment, as `key=value` pairs. They are added to the preset's and replace those of the same
    name; `key=` (in Python None) removes one."""


@dataclasses.dataclass(frozen=True)
class SimulatorsConfig(Options, prefix="simulators."):
    """Environments outside of JAX, such as Atari."""

    cores: Literal["reserved", "shared"] = "reserved"
    """With an accelerator and at least 8 cores, for simulators that have their own threads. `reserved`: each of these
    threads stays on one core, and two other cores are for the rest of the program. `shared`: every thread may run on
    every core; choose it when other programs use the machine."""
    overlap: bool = False
    """Learn from a rollout while the next one is collected with parameters that are one update old. It is faster where
    learning takes long. It is not exactly Algorithm 1, and a resumed run starts new episodes."""
    greedy_envs: Annotated[int, Within(0, 2**20)] = 8
    """Greedy environments per seed that are stepped during training. Evaluations report their episodes; only the last
    evaluation plays `eval.num_envs` new episodes. 0: every evaluation plays new episodes."""


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Options, prefix="network."):
    """The Q-network: torso, normalisation, head."""

    torso: Literal["mlp", "minatar", "grid", "nature", "impala", "hadamax"] = "mlp"
    """First part of the network. `mlp`: dense layers on the flattened observation. `minatar`: a 3×3 convolution of 16
    filters first. `grid`: three convolutions that keep the size of the grid first (Overcooked). For images: `nature`
    (DQN), `impala` (residual), `hadamax`."""
    hidden: tuple[Width, ...] = (256, 256)
    """Widths of the dense layers."""
    norm: Literal["layer", "batch", "batch_renorm", "none"] = "layer"
    """Normalisation after every layer, before its ReLU."""
    norm_input: Literal["none", "batch", "batch_renorm"] = "none"
    """Normalisation of the observation."""
    head: Literal["linear", "dueling"] = "linear"
    """Output layer; `dueling` is V + A − mean(A)."""
    init: Literal["he_normal", "lecun_normal"] = "lecun_normal"
    """Initialiser of the hidden kernels."""
    conv: Literal["matmul", "native", "fused"] = "matmul"
    """How convolutions are computed; the parameters are the same. `matmul`: slices and one matrix product. `native`:
    XLA's convolution. `fused`: hand-written GPU kernels for the `grid` torso, `matmul` where they cannot be used."""
    memory: Literal["none", "lstm", "gru"] = "none"
    """Recurrent layers between torso and head."""
    memory_size: Width = 128
    """Units of a recurrent layer."""
    memory_layers: Annotated[int, Within(1, 64)] = 1
    """How many recurrent layers."""
    last_action: bool = False
    """Give the last action to the network, after the torso."""
    last_reward: bool = False
    """Give the last reward to the network, after the torso."""
    agent_id: bool = False
    """Give the number of the agent to the network. All agents share their parameters."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the hidden layers; parameters, normalisation statistics and Q-values stay float32."""


@dataclasses.dataclass(frozen=True)
class LearnerConfig(Options, prefix="learner."):
    """Algorithm 1 of the paper."""

    rollout_steps: Steps = 64
    """T, steps per environment in each update."""
    segment_length: StepsOrDefault = 0
    """L, steps in a segment. Minibatches are made of shuffled segments, and gradients flow through a whole segment.
    0: 1 for feed-forward networks, the whole rollout for recurrent ones."""
    burn_in: StepsOrDefault = 0
    """W, steps before each segment that compute a recurrent network's memory again with the present parameters. They
    have no loss. Where the segment starts the rollout, they come from the rollout before."""
    targets: Literal["rollout", "minibatch"] = "rollout"
    """`rollout`: λ-returns are computed once, from the values the network acted on (Algorithm 1). `minibatch`: each
    gradient step computes them again from its own Q-values, within its segments."""
    epochs: Steps = 4
    """Passes over each rollout."""
    minibatches: Steps = 16
    """Gradient steps per pass."""
    lr: Positive = 1e-4
    """Learning rate."""
    lr_decay: bool = True
    """The learning rate falls linearly to 0 over the run."""
    optimizer: Literal["radam", "adam"] = "radam"
    """Optimiser; the paper uses RAdam."""
    max_grad_norm: Positive = 10.0
    """Gradients are clipped to this global norm. A large value, such as 1e9, clips nothing."""
    gamma: Share = 0.99
    """γ, discount."""
    lam: Share = 0.95
    """λ of the Q(λ) return: 0 is one-step Q-learning, 1 the longest return the rollout allows."""
    eps_start: Share = 1.0
    """ε of the first update."""
    eps_finish: Share = 0.2
    """ε after the decay."""
    eps_decay: Share = 0.2
    """Share of the run over which ε falls linearly from start to finish."""
    schedule_steps: Annotated[int, Within(0, 10**15)] = 0
    """Environment steps over which ε and the learning rate decay; 0: total_steps. A shorter run with the total_steps of
    a long run here has the schedules of the long run."""
    mixer: Literal["vdn", "qmix", "independent"] = "vdn"
    """How several agents learn from one reward. `vdn` sums their values. `qmix` mixes them monotonically, with weights
    from the global state. `independent` lets each agent learn with its own values, treating the other agents as part of
    the environment. With one agent, `independent` equals `vdn`."""
    mixer_size: Width = 32
    """Units of the QMIX network."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this in the loss; reported returns are not."""
    l2_final: NotNegative = 0.0
    """Coefficient of ½‖w‖² on the output layer's kernel."""
    l2_inner: NotNegative = 0.0
    """Coefficient of ½‖M‖² on all other kernels."""
    bootstrap_truncation: bool = True
    """Where a time limit ends an episode, bootstrap from its true last observation. If false, such an end counts as
    terminal, as in the published results."""


@dataclasses.dataclass(frozen=True)
class EvalConfig(Options, prefix="eval."):
    """Greedy evaluation. It does not change training."""

    count: Times = 10
    """Evaluations over the run, evenly spaced, the last one of the final weights. There is one more before training. 0:
    none."""
    num_envs: Copies = 64
    """Environments per evaluation and seed. The first full episode of each counts."""
    epsilon: Share = 0.0
    """ε while evaluating."""
    max_steps: StepsOrDefault = 0
    """An evaluation episode ends after this many steps. 0: the environment's own limit (10 000 if it has none)."""


@dataclasses.dataclass(frozen=True)
class LogConfig(Options, prefix="log."):
    """Metrics: what is written during the run, and where to."""

    rows: Annotated[int, Within(1, 10**6)] = 100
    """Training rows in metrics.jsonl over the run."""
    stability: Times = 0
    """Measurements of TD stability over the run (`pqn stability` explains them). Each takes as long as about a thousand
    gradient steps."""
    to: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Loggers that also get the metrics."""


@dataclasses.dataclass(frozen=True)
class SaveConfig(Options, prefix="save."):
    """Checkpoints."""

    checkpoints: Annotated[int, Within(1, 10**6)] = 10
    """Checkpoints over the run, evenly spaced; the last one at its end."""
    keep: Annotated[int, Within(1, 10**6)] = 3
    """How many of them to keep on disk."""
    minutes: Positive = 10.0
    """A checkpoint is also written when this many minutes have passed since the last one."""


@dataclasses.dataclass(frozen=True)
class Config(Options):
    """A whole run."""

    preset: str = "custom"
    """Name of the preset this configuration started from."""
    algorithm: Annotated[str, OneOf(ALGORITHMS)] = "pqn"
    """Which algorithm learns."""
    total_steps: Annotated[int, Within(1, 10**15)] = 500_000
    """Environment steps per seed."""
    seed: Seed = 0
    """First seed; the others are seed+1, seed+2, …"""
    seeds: Annotated[int, Within(1, 2**16)] = 1
    """How many seeds to train at once, as one compiled program."""
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    simulators: SimulatorsConfig = dataclasses.field(default_factory=SimulatorsConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    learner: LearnerConfig = dataclasses.field(default_factory=LearnerConfig)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)
    log: LogConfig = dataclasses.field(default_factory=LogConfig)
    save: SaveConfig = dataclasses.field(default_factory=SaveConfig)

    @property
    def steps_per_update(self) -> int:
        """Environment steps one update collects, per seed: T·N."""
        return self.learner.rollout_steps * self.env.num_envs

    @property
    def updates(self) -> int:
        """Updates in the run; a remainder of `total_steps` smaller than one rollout is left out."""
        return self.total_steps // self.steps_per_update

    @property
    def steps(self) -> int:
        """Environment steps that are really trained, per seed: whole updates."""
        return self.updates * self.steps_per_update

    @property
    def schedule_updates(self) -> int:
        """Updates over which ε and the learning rate run their course."""
        return (self.learner.schedule_steps or self.total_steps) // self.steps_per_update

    @property
    def segment_length(self) -> int:
        """L after defaults."""
        return self.learner.segment_length or (1 if self.network.memory == "none" else self.learner.rollout_steps)

    def replace(self, options: Mapping[str, object] | None = None, /, **top: object) -> Config:
        """A copy with options changed; nested ones by their command-line name.

        Options of the environment are added to those already there: one at a time as `env.kwargs.KEY`, or several as
        `env.kwargs`; the value None drops one.

        Examples:
          >>> Config().replace({"learner.lr": 0.1}, seeds=3).learner.lr
          0.1

        Raises:
          ConfigError: there is no such option, or its value has the wrong type or is out of bounds.
        """
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"options are given by name, as in {{'learner.lr': 0.1}}, not as {brief(options)}")
        config = self
        for name, value in {**(options or {}), **top}.items():
            config = _set(config, name, str(name).split("."), value)
        return config

    def validate(self) -> Config:
        """Returns itself, or raises `ConfigError` for options that do not fit together, with values that would do."""
        for check in (_check_counters, _check_batch, _check_schedule):
            check(self)
        return self

    def rounding(self) -> str | None:
        """A sentence for the user where `total_steps` is not a whole number of updates."""
        if self.steps == self.total_steps:
            return None
        return (
            f"training {self.steps:,} of {self.total_steps:,} steps: {self.updates:,} whole updates of "
            f"{self.steps_per_update:,} (learner.rollout_steps {self.learner.rollout_steps} × env.num_envs "
            f"{self.env.num_envs})"
        )

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(data: object) -> Config:
        """Inverse of `to_dict`, also after a trip through JSON. Missing names take defaults.

        Names and values that older versions wrote are read as what they are called now.

        Raises:
          ConfigError: a name is unknown, or a value has the wrong type or is out of bounds.
        """
        return _build(Config, renamed.read(data), "")


def _set(config: Group, name: str, path: list[str], value: object) -> Group:
    """A copy of `config` with the option at `path` changed; `name` is its full name, for errors."""
    fields = hints(type(config))
    first, *rest = path
    if first not in fields:
        raise ConfigError(_unknown(name, first, fields))
    current = getattr(config, first)
    if isinstance(current, dict):
        value = current | _merged(name, rest, value)
    elif rest:
        if not isinstance(current, Options):
            raise ConfigError(f"there is no option {brief(name)}: {first} has no parts")
        value = _set(current, name, rest, value)
    elif isinstance(current, Options) and not isinstance(value, type(current)):
        part = next(iter(hints(type(current))))
        raise ConfigError(f"{name} is a group of options; set one of its parts, such as '{name}.{part}'")
    return dataclasses.replace(config, **{first: value})


def _unknown(name: object, part: str, known: Iterable[str]) -> str:
    """The sentence about an option that does not exist; `part` is the word of its name that is not among `known`."""
    if name in renamed.OPTIONS:
        return f"there is no option {name}; it is {renamed.OPTIONS[str(name)]} now"
    return f"there is no option {brief(name)}{suggest(part, known)}"


def _merged(name: str, rest: list[str], value: object) -> dict[str, object]:
    """What is to be added to the options of an environment."""
    if rest:
        return {".".join(rest): value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is {brief(value)}; it must be a mapping of names to values")
    return dict(value)


def _build(cls: type[Group], data: object, prefix: str) -> Group:
    fields = hints(cls)
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"{prefix.rstrip('.') or 'the configuration'} is {brief(data)}; it must be a group of options"
        )
    values = {}
    for name, value in data.items():
        if name not in fields:
            raise ConfigError(_unknown(f"{prefix}{name}", str(name), fields))
        hint = fields[name]
        values[name] = _build(hint, value, f"{name}.") if is_group(hint) else value
    return cls(**values)


def _check_counters(config: Config) -> None:
    """Nothing that the compiled program counts may exceed its 32 bits."""
    learner = config.learner
    if config.seed + config.seeds - 1 > MOST:
        raise ConfigError(f"seed is {config.seed} and seeds {config.seeds}; the last seed must be at most {MOST}")
    if config.steps_per_update > MOST:
        raise ConfigError(
            f"one rollout would have {config.steps_per_update} steps (learner.rollout_steps {learner.rollout_steps} × "
            f"env.num_envs {config.env.num_envs}); it must have at most {MOST}"
        )
    if learner.epochs * learner.minibatches > MOST:
        raise ConfigError(
            f"learner.epochs {learner.epochs} × learner.minibatches {learner.minibatches} are too many gradient steps "
            f"for one update; there may be {MOST}"
        )
    if config.updates >= MOST:  # the largest count means "never"
        raise ConfigError(
            f"total_steps {config.total_steps} makes {config.updates} updates; a run can count {MOST - 1}, so lower "
            f"total_steps, or raise learner.rollout_steps ({learner.rollout_steps}) or env.num_envs "
            f"({config.env.num_envs})"
        )


def _check_batch(config: Config) -> None:
    learner, num_envs = config.learner, config.env.num_envs
    if "num_envs" in config.env.kwargs:
        raise ConfigError("env.kwargs has num_envs; how many environments there are is env.num_envs")
    length = config.segment_length
    if learner.rollout_steps % length:
        raise ConfigError(
            f"learner.segment_length {length} does not divide learner.rollout_steps {learner.rollout_steps}; "
            f"try {_near_divisor(learner.rollout_steps, length)}"
        )
    if learner.burn_in > length or (learner.burn_in and config.network.memory == "none"):
        raise ConfigError(
            f"learner.burn_in is {learner.burn_in}; it refreshes a recurrent network's memory (network.memory lstm or "
            f"gru) and must be at most the segment length, here {length}"
        )
    segments = learner.rollout_steps // length * num_envs
    if segments % learner.minibatches:
        per = "" if length == 1 else f" ÷ segment length {length}"
        raise ConfigError(
            f"learner.minibatches {learner.minibatches} does not divide the batch of {segments} "
            f"(learner.rollout_steps {learner.rollout_steps} × env.num_envs {num_envs}{per}); "
            f"try {_near_divisor(segments, learner.minibatches)}"
        )
    if config.updates < 1:
        raise ConfigError(
            f"total_steps {config.total_steps} is less than one rollout of {config.steps_per_update} steps "
            f"(learner.rollout_steps {learner.rollout_steps} × env.num_envs {num_envs})"
        )


def _check_schedule(config: Config) -> None:
    learner = config.learner
    if learner.lr_decay and 0 < learner.schedule_steps < config.total_steps:
        raise ConfigError(
            f"learner.schedule_steps {learner.schedule_steps} is less than total_steps {config.total_steps}: the "
            "learning rate would be 0 for the rest of the run; raise it, or set learner.lr_decay to false"
        )
    if 0 < learner.schedule_steps < config.steps_per_update:
        raise ConfigError(
            f"learner.schedule_steps {learner.schedule_steps} is less than one rollout of {config.steps_per_update} "
            "steps; leave it 0 for the length of the run"
        )


def _near_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` closest to `wanted`."""
    small = [d for d in range(1, math.isqrt(total) + 1) if total % d == 0]
    return min((*small, *(total // d for d in small)), key=lambda d: (abs(d - wanted), d))
