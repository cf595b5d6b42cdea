"""Every option of a run, in frozen dataclasses; no JAX here, so `pqn --help` stays instant.

A field's docstring is its help text on the command line: `LearnerConfig.lam` is `--learner.lam`.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, Literal

from pqn.errors import ConfigError, suggest

MOST_UPDATES = 2**31 - 2  # counted in int32; the largest one means "never"


@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """Which environment, and how many copies of it."""

    name: str = "CartPole-v1"
    """Environment: a name from `pqn envs`, or `module:function` for your own (`--env NAME` is short for this)."""
    num_envs: int = 32
    """N, environments stepped in parallel per seed."""
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Options of the environment, as `key=value` pairs."""
    cores: Literal["apart", "shared"] = "apart"
    """Simulators outside of JAX that step on threads of their own, beside an accelerator and with 8 cores or more: each
    of their threads stays on one core, and two cores belong to the rest of the program. `shared`: everybody runs
    everywhere, as is better on a machine that is busy with something else."""


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """The Q-network: torso, normalisation, head."""

    torso: Literal["mlp", "minatar", "grid", "nature", "impala", "hadamax"] = "mlp"
    """`mlp` flattens the observation; `minatar` starts with a 3×3 convolution of 16 filters, `grid` with three
    convolutions that keep the size of the grid (Overcooked); for images, the network of DQN (`nature`), the residual
    one of IMPALA (`impala`), or `hadamax`."""
    hidden: tuple[int, ...] = (256, 256)
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
    """Compute convolutions as slices and one matrix product, or with XLA's convolution; or, on a GPU, all those of the
    `grid` torso and their LayerNorms by hand-written kernels (where they cannot be used, `matmul`). The parameters are
    the same in all three."""
    memory: Literal["none", "lstm", "gru"] = "none"
    """Recurrent layers between torso and head."""
    memory_size: int = 128
    """Units of a recurrent layer."""
    memory_layers: int = 1
    """How many recurrent layers."""
    last_action: bool = False
    """Show the network its last action, beside what the torso made of the observation."""
    last_reward: bool = False
    """Show the network its last reward."""
    agent_id: bool = False
    """Show the network which of the agents it is: all share their parameters."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the hidden layers; parameters, normalisation statistics and Q-values stay float32."""


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """Algorithm 1 of the paper."""

    rollout_steps: int = 64
    """T, steps per environment in each update."""
    segment_length: int = 0
    """L, length of the pieces that are shuffled into minibatches and backpropagated through; 0 chooses 1 for
    feed-forward networks and the whole rollout for recurrent ones."""
    burn_in: int = 0
    """W, steps before each segment, taken from the rollout before where need be, that refresh a recurrent network's
    memory under its present parameters; they have no loss of their own."""
    targets: Literal["rollout", "minibatch"] = "rollout"
    """`rollout`: λ-returns are computed once, from the values the network acted on (Algorithm 1). `minibatch`: each
    gradient step computes them anew from its own Q-values, within its segments."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 16
    """Gradient steps per pass."""
    lr: float = 1e-4
    """Learning rate."""
    lr_decay: bool = True
    """Let the learning rate fall linearly to 0 over the run."""
    optimizer: Literal["radam", "adam"] = "radam"
    """The paper uses RAdam."""
    max_grad_norm: float = 10.0
    """Clip gradients to this global norm."""
    gamma: float = 0.99
    """γ, discount."""
    lam: float = 0.95
    """λ of the Q(λ) return: 0 is one-step Q-learning, 1 the longest return the rollout allows."""
    eps_start: float = 1.0
    """ε of the first update."""
    eps_finish: float = 0.2
    """ε once it has decayed."""
    eps_decay: float = 0.2
    """Share of the run over which ε falls linearly from start to finish."""
    schedule_steps: int = 0
    """Environment steps over which ε and the learning rate run their course; 0: the run's own total_steps."""
    mixer: Literal["vdn", "qmix", "independent"] = "vdn"
    """How several agents learn from one reward: `vdn` sums their values, `qmix` mixes them monotonically by the global
    state, `independent` lets each learn alone. One agent learns the same under the first and the last."""
    mixer_size: int = 32
    """Units of the QMIX network."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this in the loss; reported returns are not."""
    l2_final: float = 0.0
    """Coefficient of ½‖w‖² on the output layer's kernel."""
    l2_inner: float = 0.0
    """Coefficient of ½‖M‖² on all other kernels."""
    overlap: bool = False
    """Environments outside of JAX: learn from a rollout while the next one is collected with parameters one update old.
    Faster where learning takes long; not quite Algorithm 1, and a resumed run then starts new episodes."""
    bootstrap_truncation: bool = True
    """Bootstrap from the true last observation of an episode cut by a time limit. Off, such an end counts as terminal,
    as in the published results."""


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Greedy evaluation; it never touches the training stream."""

    count: int = 10
    """Evaluations over the run, evenly spaced, the last one on the final weights; one more before training. 0: none."""
    num_envs: int = 64
    """Episodes per evaluation and seed: the first full episode of each environment."""
    beside: int = 8
    """Environments outside of JAX: greedy ones stepped beside training, per seed. The evaluations during the run report
    their episodes, and only the last one stops to play `num_envs` episodes. 0: every evaluation does."""
    epsilon: float = 0.0
    """ε while evaluating."""
    max_steps: int = 0
    """Stop an evaluation episode after this many steps; 0 uses the environment's own limit (10 000 if it has none)."""


@dataclasses.dataclass(frozen=True)
class SaveConfig:
    """Checkpoints and logs."""

    checkpoints: int = 10
    """Checkpoints over the run, evenly spaced. At least the final one is always written."""
    keep: int = 3
    """How many of them to keep on disk."""
    minutes: float = 10.0
    """Also write one when this much time has passed since the last."""
    logs: int = 100
    """Rows in metrics.jsonl over the run."""
    stability: int = 0
    """Measurements of TD stability over the run (`pqn stability` explains them); each costs about a thousand gradient
    steps."""
    loggers: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Also send the metrics to these."""


@dataclasses.dataclass(frozen=True)
class Config:
    """A whole run."""

    preset: str = "custom"
    """Name of the preset this configuration started from."""
    total_steps: int = 500_000
    """Environment steps per seed."""
    seed: int = 0
    """First seed; the others are seed+1, seed+2, …"""
    seeds: int = 1
    """How many seeds to train at once, as one compiled program."""
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    learner: LearnerConfig = dataclasses.field(default_factory=LearnerConfig)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)
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
    def segment_length(self) -> int:
        """L after defaults."""
        return self.learner.segment_length or (1 if self.network.memory == "none" else self.learner.rollout_steps)

    def replace(self, options: Mapping[str, Any] | None = None, /, **top: Any) -> Config:
        """A copy with options changed; nested ones by their command-line name.

        >>> Config().replace({"learner.lr": 0.1}, seeds=3).learner.lr
        0.1
        """
        config = self
        for name, value in {**(options or {}), **top}.items():
            config = _set(config, name, name.split("."), value)
        return config

    def validate(self) -> Config:
        """Returns itself, or raises `ConfigError` with a sentence that names the option and values that would do."""
        for check in (_check_counts, _check_ranges, _check_batch, _check_schedule):
            check(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Config:
        """Inverse of `to_dict`, also after a trip through JSON. Unknown names raise, missing ones take defaults."""
        return _build(Config, data, "")


def _set(config: Any, name: str, path: list[str], value: Any) -> Any:
    fields = {field.name: field for field in dataclasses.fields(config)}
    if path[0] not in fields:
        raise ConfigError(f"there is no option {name!r}{suggest(path[0], fields)}")
    current = getattr(config, path[0])
    if len(path) > 1:
        if not dataclasses.is_dataclass(current):
            raise ConfigError(f"there is no option {name!r}: {path[0]} has no parts")
        value = _set(current, name, path[1:], value)
    elif dataclasses.is_dataclass(current) and not isinstance(value, type(current)):
        raise ConfigError(
            f"{name} is a group of options; set one of its parts, such as '{name}.{_first_field(current)}'"
        )
    return dataclasses.replace(config, **{path[0]: value})


def _first_field(config: Any) -> str:
    return dataclasses.fields(config)[0].name


_GROUPS = {"env": EnvConfig, "network": NetworkConfig, "learner": LearnerConfig, "eval": EvalConfig, "save": SaveConfig}


def _build(cls: type, data: Mapping[str, Any], prefix: str) -> Any:
    names = {field.name for field in dataclasses.fields(cls)}
    values = {}
    for name, value in data.items():
        if name not in names:
            raise ConfigError(f"there is no option {prefix + name!r}{suggest(name, names)}")
        if not prefix and name in _GROUPS:
            value = _build(_GROUPS[name], value, f"{name}.")
        values[name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)


def _check_counts(config: Config) -> None:
    least_one = {
        "env.num_envs": config.env.num_envs,
        "learner.rollout_steps": config.learner.rollout_steps,
        "learner.epochs": config.learner.epochs,
        "learner.minibatches": config.learner.minibatches,
        "learner.mixer_size": config.learner.mixer_size,
        "eval.num_envs": config.eval.num_envs,
        "total_steps": config.total_steps,
        "seeds": config.seeds,
        "network.memory_size": config.network.memory_size,
        "network.memory_layers": config.network.memory_layers,
        "save.keep": config.save.keep,
        "save.logs": config.save.logs,
        "save.checkpoints": config.save.checkpoints,
    }
    for name, value in least_one.items():
        _require(_is_whole(value) and value >= 1, name, value, "a whole number, at least 1")
    least_zero = {
        "learner.segment_length": config.learner.segment_length,
        "learner.burn_in": config.learner.burn_in,
        "learner.schedule_steps": config.learner.schedule_steps,
        "eval.count": config.eval.count,
        "eval.beside": config.eval.beside,
        "save.stability": config.save.stability,
        "eval.max_steps": config.eval.max_steps,
    }
    for name, value in least_zero.items():
        _require(_is_whole(value) and value >= 0, name, value, "a whole number, at least 0")
    _require(_is_whole(config.seed) and 0 <= config.seed < 2**31, "seed", config.seed, "a whole number from 0 to 2³¹−1")
    for width in config.network.hidden:
        _require(_is_whole(width) and width >= 1, "network.hidden", config.network.hidden, "widths of at least 1")


def _check_ranges(config: Config) -> None:
    learner = config.learner
    unit = {
        "learner.gamma": learner.gamma,
        "learner.lam": learner.lam,
        "learner.eps_start": learner.eps_start,
        "learner.eps_finish": learner.eps_finish,
        "learner.eps_decay": learner.eps_decay,
        "eval.epsilon": config.eval.epsilon,
    }
    for name, value in unit.items():
        _require(0.0 <= value <= 1.0, name, value, "between 0 and 1")
    positive = {
        "learner.lr": learner.lr,
        "learner.max_grad_norm": learner.max_grad_norm,
        "save.minutes": config.save.minutes,
    }
    for name, value in positive.items():
        _require(value > 0.0, name, value, "greater than 0")
    for name, value in {"learner.l2_final": learner.l2_final, "learner.l2_inner": learner.l2_inner}.items():
        _require(value >= 0.0, name, value, "at least 0")
    for prefix, group in (("network", config.network), ("learner", learner), ("save", config.save)):
        _check_choices(group, prefix)


def _check_choices(group: Any, prefix: str) -> None:
    """A `Literal` in a type hint is the list of choices; Python itself does not enforce it."""
    for name, hint in typing.get_type_hints(type(group)).items():
        value = getattr(group, name)
        several = typing.get_origin(hint) is tuple
        hint = typing.get_args(hint)[0] if several else hint
        if typing.get_origin(hint) is not Literal:
            continue
        choices = typing.get_args(hint)
        for each in value if several else (value,):
            wanted = f"one of {', '.join(choices)}{suggest(str(each), choices)}"
            _require(each in choices, f"{prefix}.{name}", repr(each), wanted)


def _check_batch(config: Config) -> None:
    learner, num_envs = config.learner, config.env.num_envs
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
    if config.updates > MOST_UPDATES:
        raise ConfigError(
            f"total_steps {config.total_steps} makes {config.updates} updates; a run can count {MOST_UPDATES}, so "
            f"lower total_steps, or raise learner.rollout_steps ({learner.rollout_steps}) or env.num_envs "
            f"({config.env.num_envs})"
        )
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
    return min((d for d in range(1, total + 1) if total % d == 0), key=lambda d: abs(d - wanted))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(holds: bool, name: str, value: Any, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value}; it must be {wanted}")
