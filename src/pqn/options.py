"""Every option but those of the run as a whole, in one frozen dataclass for each group.

A field's docstring is its help text on the command line: `LearnerConfig.lam` is `--learner.lam`. Its type hint has its
bounds, which are checked when an instance is made (see `pqn.fields`). A new option is one field here; the command line,
config.json, sweeps and the checks of its type and bounds follow from it. `pqn.config` has the whole of them.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from pqn.fields import Options, Within

MOST = 2**31 - 1  # what the compiled program can count to

OWN_NETWORK = "own"  # of pqn: the network that the options of the group `network` describe

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
    terminal, as in the published results. A buffer does not keep that observation: where there is one, such a step has
    no loss."""

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
