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

ALGORITHMS: dict[str, tuple[str, ...]] = {
    "pqn": (),
    "pqn-replay": ("replay",),
    "dqn": ("replay", "target"),
    "ppo": ("ppo",),
}
"""Names of algorithms, and the groups of options that an algorithm reads and others do not.

Each is what `algorithms/NAME.py` calls ALGORITHM, with _ in the file's name for - in NAME.
"""

OWN_NETWORK = "own"  # of pqn: the network that the options of the group `network` describe

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
Schedule = Literal["linear", "constant", "cosine", "piecewise"]


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
    activation: Literal["relu", "tanh"] = "relu"
    """Activation of the dense layers of the torso."""
    init: Literal["he_normal", "lecun_normal", "orthogonal"] = "lecun_normal"
    """Initialiser of the hidden kernels. `orthogonal` has a gain of √2."""
    conv: Literal["matmul", "native", "fused"] = "matmul"
    """How convolutions are computed; the parameters are the same. `matmul`: slices and one matrix product. `native`:
    XLA's convolution. `fused`: hand-written GPU kernels for the `grid` torso, `matmul` where they cannot be used, as
    on a CPU or with a JAX that has no Triton backend."""
    memory: Literal["none", "lstm", "gru", "mingru", "lru"] = "none"
    """Recurrent layers between torso and head. `mingru` and `lru` are linear in their state: they are trained without a
    loop over time."""
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
    module: str = OWN_NETWORK
    """A network of your own instead: `module:function`, a function of the environment's spec that returns a flax module
    (`--network NAME` is short for this). Of the options above, only `last_action` and `last_reward` matter to it.
    `own`: the network that the options above describe."""


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
    batch_statistics: Literal["default", "joint", "separate"] = "default"
    """What the batch norms of a gradient step take their statistics from. `joint`: states and successors together, in
    one pass that also values the successors, as in CrossQ; for algorithms with a buffer, and for `targets minibatch`.
    `separate`: the states with a loss; successors are valued with running statistics. `default`: `joint` where there is
    a buffer, `separate` for `targets rollout`; for `targets minibatch` the segments share theirs, and what follows a
    segment has the value that it was acted on with."""
    epochs: Steps = 4
    """Passes over each rollout."""
    minibatches: Steps = 16
    """Gradient steps per pass."""
    lr: Positive = 1e-4
    """Learning rate."""
    lr_decay: bool = True
    """The learning rate follows `lr_schedule` over the run. False: it is constant."""
    lr_schedule: Schedule = "linear"
    """The course of the learning rate from `lr` to `lr_finish`: a straight line, half a wave of a cosine, or constant.
    `piecewise`: through `lr_points`; then `lr` and `lr_finish` are not used."""
    lr_finish: NotNegative = 0.0
    """Learning rate at the end of its schedule."""
    lr_points: tuple[NotNegative, ...] = ()
    """Points of a piecewise schedule, as pairs of the share of the run and the learning rate: `0 1e-3 0.5 1e-4 1 0`.
    Between them are straight lines; two points at the same share are a jump."""
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
    """Share of the run over which ε falls from start to finish."""
    eps_schedule: Schedule = "linear"
    """The course of ε from `eps_start` to `eps_finish`, as for `lr_schedule`. `constant`: ε is always `eps_start`.
    `piecewise`: through `eps_points`; then the other options of ε are not used."""
    eps_points: tuple[Share, ...] = ()
    """Points of a piecewise schedule, as pairs of the share of the run and ε; see `lr_points`."""
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

    @property
    def lr_course(self) -> Schedule:
        """How the learning rate really goes."""
        return self.lr_schedule if self.lr_decay else "constant"

    @property
    def lr_end(self) -> float:
        """The learning rate after its schedule."""
        if self.lr_course == "piecewise" and self.lr_points:
            return self.lr_points[-1]
        return self.lr if self.lr_course == "constant" else self.lr_finish


@dataclasses.dataclass(frozen=True)
class ReplayConfig(Options, prefix="replay."):
    """A buffer of past steps to learn from, for the algorithms that have one."""

    size: Annotated[int, Within(1, 10**12)] = 100_000
    """Steps that the buffer holds, of all environments of a seed together. Then the oldest are overwritten."""
    start: Annotated[int, Within(0, 10**12)] = 10_000
    """Steps in the buffer before the first gradient step."""
    batch: Copies = 32
    """Sequences in a minibatch. A sequence has `learner.segment_length` steps with a loss."""
    place: Literal["auto", "device", "host"] = "auto"
    """Where the buffer is. `host`: in the machine's memory; every update copies its rollout there and its minibatches
    from there. `auto`: on the device, unless it takes more than 70 % of its memory."""
    share: Share = 1.0
    """Share of each minibatch that comes from the buffer; the rest comes from the last rollout."""


@dataclasses.dataclass(frozen=True)
class TargetConfig(Options, prefix="target."):
    """A target network, for the algorithms that have one."""

    interval: Steps = 1
    """Updates between two changes of the target network."""
    rate: Annotated[float, Within(0.0, 1.0)] = 1.0
    """How far the target network moves towards the network at each change; 1 copies it."""
    double: bool = False
    """Double Q-learning: the network chooses the next action, the target network says what it is worth."""
    n_step: Annotated[int, Within(1, 1000)] = 1
    """Rewards that are summed before the target network is asked."""
    loss: Literal["squared", "huber"] = "squared"
    """`squared`: ½ δ². `huber`: the same up to |δ| = 1, and |δ| − ½ beyond."""


@dataclasses.dataclass(frozen=True)
class PPOConfig(Options, prefix="ppo."):
    """Proximal policy optimisation. `learner.lam` is the λ of generalised advantage estimation."""

    critic: Literal["shared", "separate", "world"] = "separate"
    """Who estimates values. `shared`: a second head of the policy's network. `separate`: a network of its own. `world`:
    a network of its own that reads the global state, or all observations where there is none, and has one value for the
    team (MAPPO). With the other two each agent has its own value (IPPO)."""
    clip: Positive = 0.2
    """How far the probability of an action may change, as a ratio, before its gradient is cut."""
    clip_value: bool = False
    """Also cut the gradient of values that have changed by more than `ppo.clip`."""
    value_weight: NotNegative = 0.5
    """Weight of the loss of the values, ½ (R − V)²."""
    entropy: NotNegative = 0.01
    """Weight of the entropy of the policy, which is maximised."""
    normalize: bool = True
    """Give the advantages of each minibatch a mean of 0 and a standard deviation of 1."""


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
    best: bool = True
    """Also keep the checkpoint with the highest mean greedy return, beyond the newest ones. Only a checkpoint that is
    written at an evaluation counts, as all are where `save.checkpoints` equals `eval.count`."""
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
    """How many seeds to train at once, as one compiled program. They spread over the devices."""
    shards: Annotated[int, Within(1, 2**16)] = 1
    """D, parts of each seed's environments and minibatches that can be on different devices. Results depend on D, but
    not on the number of devices."""
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    simulators: SimulatorsConfig = dataclasses.field(default_factory=SimulatorsConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    learner: LearnerConfig = dataclasses.field(default_factory=LearnerConfig)
    replay: ReplayConfig = dataclasses.field(default_factory=ReplayConfig)
    target: TargetConfig = dataclasses.field(default_factory=TargetConfig)
    ppo: PPOConfig = dataclasses.field(default_factory=PPOConfig)
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

    @property
    def joint_statistics(self) -> bool:
        """Whether states and successors pass through the network together in a gradient step."""
        chosen = self.learner.batch_statistics
        return chosen == "joint" or (chosen == "default" and self.replays)

    @property
    def keeps_last_seen(self) -> bool:
        """Whether a rollout keeps what follows it, for gradient steps to value; a buffer has the successors anyway."""
        return self.joint_statistics and not self.replays

    @property
    def replays(self) -> bool:
        """Whether minibatches come from a buffer; otherwise they are a rollout, split up."""
        return "replay" in ALGORITHMS[self.algorithm]

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
        for check in (_check_groups, _check_counters, _check_batch, _check_statistics, _check_replay, _check_schedule):
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


def refuse_preset(name: str) -> None:
    """Refuses to vary `preset`. It says where the other options come from; with another name they stay as they are.

    Raises:
      ConfigError: `name` is that of the preset.
    """
    if name == "preset":
        raise ConfigError("preset is a name and no option: to vary it would change nothing else; call once per preset")


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


def _check_groups(config: Config) -> None:
    """An option that the algorithm does not read must not be set: it would be recorded as if it had an effect."""
    read = ALGORITHMS[config.algorithm]
    for group in sorted({group for groups in ALGORITHMS.values() for group in groups} - {*read}):
        options = getattr(config, group)
        for field in dataclasses.fields(options):
            if getattr(options, field.name) != field.default:
                readers = " or ".join(name for name, groups in ALGORITHMS.items() if group in groups)
                raise ConfigError(
                    f"{group}.{field.name} is set, but algorithm {config.algorithm} does not read it; "
                    f"leave it out, or set algorithm to {readers}"
                )


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
    remembers = config.network.memory != "none" or config.network.module != OWN_NETWORK  # or may
    if learner.burn_in > length or (learner.burn_in and not remembers):
        raise ConfigError(
            f"learner.burn_in is {learner.burn_in}; it refreshes a recurrent network's memory (network.memory) and "
            f"must be at most the segment length, here {length}"
        )
    _check_shards(config)
    segments = learner.rollout_steps // length * num_envs // config.shards
    if segments % learner.minibatches and not config.replays:
        per = "" if length == 1 else f" ÷ segment length {length}"
        per += "" if config.shards == 1 else f" ÷ shards {config.shards}"
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


def _check_statistics(config: Config) -> None:
    chosen, network = config.learner.batch_statistics, config.network
    norms = (network.norm, network.norm_input)
    if chosen != "default" and network.module == OWN_NETWORK and not any(norm.startswith("batch") for norm in norms):
        raise ConfigError(
            f"learner.batch_statistics is {chosen}, but network.norm {norms[0]} and network.norm_input {norms[1]} have "
            "no batch statistics; set one of them to batch or batch_renorm, or leave learner.batch_statistics out"
        )


def _check_replay(config: Config) -> None:
    if not config.replays:
        return
    replay, learner, num_envs = config.replay, config.learner, config.env.num_envs
    length = replay.size // num_envs  # of the buffer, for one environment
    needed = max(learner.rollout_steps, steps_to_sample(config))
    if length < needed:
        raise ConfigError(
            f"replay.size {replay.size} holds {length} steps of each environment (env.num_envs {num_envs}); a rollout "
            f"and a sequence need {needed}, so it must be at least {needed * num_envs}"
        )
    if replay.start > replay.size:
        raise ConfigError(f"replay.start {replay.start} is more than replay.size {replay.size}: learning never starts")
    if replay.start >= config.steps:
        raise ConfigError(
            f"replay.start {replay.start} is not less than the {config.steps} steps of the run: learning never starts"
        )
    if replay.batch % config.shards:
        raise ConfigError(
            f"shards {config.shards} does not divide replay.batch {replay.batch}; "
            f"try {_near_divisor(replay.batch, config.shards)}"
        )
    if config.shards > 1 and replay.place == "host":
        raise ConfigError("replay.place host needs a run without shards; set shards to 1, or replay.place to device")
    if needed * num_envs > config.steps:
        raise ConfigError(
            f"a sequence needs {needed} steps of each environment (env.num_envs {num_envs}), and the run has only "
            f"{config.steps} steps: learning never starts; raise total_steps"
        )
    fresh = sequences_of(config)[1] * config.shards
    if fresh > learner.rollout_steps // config.segment_length * num_envs:
        raise ConfigError(
            f"replay.share {replay.share:g} of replay.batch {replay.batch} leaves {fresh} sequences for the last "
            "rollout, which has fewer; raise replay.share, or lower replay.batch"
        )


def sequence_length(config: Config) -> int:
    """W + L + n, steps in a sample of the buffer."""
    return config.learner.burn_in + config.segment_length + config.target.n_step


def steps_to_sample(config: Config) -> int:
    """Steps of each environment that the buffer must hold before it can be sampled from.

    Where some sequences are to end in the last rollout, one that ends with its first step must be there as a whole.
    """
    before = config.learner.rollout_steps - 1 if sequences_of(config)[1] else 0
    return sequence_length(config) + before


def sequences_of(config: Config) -> tuple[int, int]:
    """How many sequences of a shard's minibatch come from the whole buffer, and how many from the last rollout."""
    batch = config.replay.batch // config.shards
    old = round(config.replay.share * batch)
    return old, batch - old


def _check_shards(config: Config) -> None:
    shards, num_envs = config.shards, config.env.num_envs
    if num_envs % shards:
        raise ConfigError(
            f"shards {shards} does not divide env.num_envs {num_envs}; try shards {_near_divisor(num_envs, shards)} or "
            f"env.num_envs {max(1, round(num_envs / shards)) * shards}"
        )


def _check_schedule(config: Config) -> None:
    learner = config.learner
    for name, course, points in (
        ("lr", learner.lr_course, learner.lr_points),
        ("eps", learner.eps_schedule, learner.eps_points),
    ):
        _check_points(f"learner.{name}_points", f"learner.{name}_schedule", course, points)
    if learner.lr_finish and learner.lr_course in ("constant", "piecewise"):
        raise ConfigError(
            f"learner.lr_finish is {learner.lr_finish:g}, but the learning rate is {learner.lr_course} "
            "(learner.lr_decay, learner.lr_schedule) and does not go there; leave it 0"
        )
    if learner.lr_end == 0.0 and 0 < learner.schedule_steps < config.total_steps:
        raise ConfigError(
            f"learner.schedule_steps {learner.schedule_steps} is less than total_steps {config.total_steps}: the "
            "learning rate would be 0 for the rest of the run; raise it, or set learner.lr_decay to false"
        )
    if 0 < learner.schedule_steps < config.steps_per_update:
        raise ConfigError(
            f"learner.schedule_steps {learner.schedule_steps} is less than one rollout of {config.steps_per_update} "
            "steps; leave it 0 for the length of the run"
        )


def _check_points(name: str, schedule: str, course: str, points: tuple[float, ...]) -> None:
    """A piecewise schedule has points, in order, and no other schedule has any."""
    if course != "piecewise":
        if points:
            raise ConfigError(f"{name} is for {schedule} piecewise, which is {course} here; leave it empty")
        return
    shares = points[::2]
    if not points or len(points) % 2:
        raise ConfigError(f"{name} has {len(points)} numbers; it must have pairs of the share of the run and the value")
    if sorted(shares) != list(shares) or shares[-1] > 1.0:
        raise ConfigError(
            f"{name} has the shares {', '.join(f'{share:g}' for share in shares)}; they must be from 0 to 1, and none "
            "less than the one before"
        )


def _near_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` closest to `wanted`."""
    small = [d for d in range(1, math.isqrt(total) + 1) if total % d == 0]
    return min((*small, *(total // d for d in small)), key=lambda d: (abs(d - wanted), d))
