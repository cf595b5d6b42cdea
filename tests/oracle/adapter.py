"""All that the oracle's tests know about `src/pqn`: how to run it, and how to read what came of it."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from oracle import ring as rings
from oracle.networks import Network, Params, Stats
from oracle.pqn import Chance, PPOSettings, ReplaySettings, Settings
from oracle.ring import Ring
from pqn.algorithms.base import schedules
from pqn.config import Config
from pqn.networks.mixers import QMIX
from pqn.programs.compiled import CompiledProgram
from pqn.programs.simulators.program import SimulatorProgram
from pqn.types import EnvSpec, TimeStep

# Ours -> the oracle's, in this order.
NAMES = (
    ("/LayerNorm_0", ""),
    ("/BatchNorm_0", ""),
    ("/BatchRenorm_0", ""),
    ("torso/", ""),
    ("head/", ""),
    ("Dense_", "dense"),
    ("Norm_", "norm"),
    ("memory_", "memory"),
    ("recurrent", "recurrent/kernel"),
    ("candidate_bias", "candidate/bias"),
)
# Ours has 64 hidden units in every hypernetwork, which is many for complex steps.
SMALL_MIXER = mock.patch("pqn.algorithms.acting.QMIX", functools.partial(QMIX, hyper_size=4))
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # to compile


class Start(NamedTuple):
    """Where a run starts."""

    params: Params
    stats: Stats
    luck: np.ndarray  # [N] of the environments
    luck_beside: np.ndarray  # [E] of the greedy ones beside them
    chances: list[Chance]  # of each update, and of one more
    target: tuple[Params, Stats]  # of a target network; empty without one


class Finish(NamedTuple):
    """Where it got to."""

    params: Params
    stats: Stats
    totals: dict[str, float]  # over all updates
    env: rings.State | None = None  # of a compiled program
    greedy: np.ndarray | None = None  # [2, E] return and length of the first greedy episodes, NaN: none has ended
    target: tuple[Params, Stats] = ({}, {})


# --- environments ---------------------------------------------------------------------------------------------------


def spec(ring: Ring) -> EnvSpec:
    return EnvSpec(
        "ring",
        (rings.FEATURES,),
        np.dtype("float32"),
        rings.ACTIONS,
        num_agents=ring.agents,
        max_episode_steps=rings.LIMIT if ring.cuts == "limit" else None,
        truncates=ring.cuts != "never",
        world_size=rings.WORLD if ring.world else 0,
        masked=ring.masked,
    )


class JaxRing:
    """N rings as a `JaxEnv`."""

    def __init__(self, ring: Ring, num_envs: int):
        self.ring, self.spec, self.num_envs = ring, spec(ring), num_envs

    def reset(self, key: Any) -> Any:
        luck = jax.random.bits(key, (self.num_envs,), "uint32") >> 1
        return self._contract(*rings.start(jnp, self.ring, luck))

    def step(self, state: Any, action: Any) -> Any:
        return self._contract(*rings.step(jnp, self.ring, state, action))

    @staticmethod
    def _contract(state: Any, outcome: rings.Outcome) -> Any:
        return state, TimeStep(**outcome._asdict())


class HostRing:
    """N rings as a `HostEnv`, which overwrites its arrays as the contract allows."""

    def __init__(self, ring: Ring, num_envs: int):
        self.ring, self.spec, self.num_envs = ring, spec(ring), num_envs
        self._shown: Any = None

    def reset(self, seeds: np.ndarray) -> Any:
        self._state, outcome = rings.start(np, self.ring, seeds.astype(np.uint32))
        return self._show(outcome)

    def send(self, action: np.ndarray) -> None:
        self._action = np.array(action)

    def recv(self) -> Any:
        self._state, outcome = rings.step(np, self.ring, self._state, self._action)
        return self._show(outcome)

    def close(self) -> None:
        pass

    def _show(self, outcome: rings.Outcome) -> Any:
        step = TimeStep(**outcome._asdict())
        if self._shown is None:
            self._shown = jax.tree.map(np.array, step)
        jax.tree.map(np.copyto, self._shown, step)
        return self._shown


# --- configurations -------------------------------------------------------------------------------------------------


def configure(options: dict[str, Any]) -> Config:
    return Config().replace(options).validate()


def settings(config: Config, ring: Ring) -> Settings:
    """The oracle's words for a configuration."""
    c, n = config.learner, config.network
    network = Network(
        agents=ring.agents,
        actions=rings.ACTIONS,
        layers=len(n.hidden),
        norm=n.norm,
        norm_input=n.norm_input,
        head=n.head,
        memory=n.memory,
        memory_layers=n.memory_layers,
        memory_size=n.memory_size,
        last_action=n.last_action,
        last_reward=n.last_reward,
        agent_id=n.agent_id,
        mixer=c.mixer,
        activation=n.activation,
    )
    per_update = c.rollout_steps * config.env.num_envs
    return Settings(
        network=network,
        updates=(c.schedule_steps or config.total_steps) // per_update,
        steps=c.rollout_steps,
        envs=config.env.num_envs,
        segment=c.segment_length or (1 if n.memory == "none" else c.rollout_steps),
        burn_in=c.burn_in,
        epochs=c.epochs,
        minibatches=c.minibatches,
        gamma=c.gamma,
        lam=c.lam,
        eps_start=c.eps_start,
        eps_finish=c.eps_finish,
        eps_decay=c.eps_decay,
        lr=c.lr,
        lr_decay=c.lr_decay,
        optimizer=c.optimizer,
        max_grad_norm=c.max_grad_norm,
        reward_scale=c.reward_scale,
        l2_final=c.l2_final,
        l2_inner=c.l2_inner,
        fresh_targets=c.targets == "minibatch",
        joint=c.batch_statistics == "joint" or (c.batch_statistics == "default" and config.replays),
        bootstrap_truncation=c.bootstrap_truncation,
        overlap=config.simulators.overlap,
        replay=_replay(config) if config.algorithm in ("dqn", "pqn-replay") else None,
        ppo=PPOSettings(**dataclasses.asdict(config.ppo)) if config.algorithm == "ppo" else None,
    )


def _replay(config: Config) -> ReplaySettings:
    r, t = config.replay, config.target
    return ReplaySettings(
        length=r.size // config.env.num_envs,
        start=r.start,
        fresh=_old(config) < r.batch,
        target_network=config.algorithm == "dqn",
        interval=t.interval,
        rate=t.rate,
        double=t.double,
        n_step=t.n_step,
        huber=t.loss == "huber",
    )


def _old(config: Config) -> int:
    """Sequences of a minibatch that come from anywhere in the buffer."""
    return round(config.replay.share * config.replay.batch)


# --- runs -----------------------------------------------------------------------------------------------------------


@SMALL_MIXER
def compiled(config: Config, ring: Ring, updates: int, seed: int, optimizer_steps: int) -> tuple[Start, Finish]:
    """Runs the compiled program and reads what became of one of its seeds.

    Args:
      updates: how many.
      seed: which of the seeds, from 0.
      optimizer_steps: how many steps the optimiser is told to have taken before.
    """
    program = CompiledProgram(config, lambda n: JaxRing(ring, n))
    invented = _invent(program.state_shape.learner)

    def run(seeds: Any, invented: Any) -> Any:
        state = jax.vmap(program.init_one)(seeds)
        state = state._replace(learner=_with(state.learner, invented, optimizer_steps))
        return program._chunk(state, program.hyper, jnp.int32(updates))

    after, (totals, _) = jax.jit(run, compiler_options=QUICK)(program.seeds, invented)
    named = dict(zip(program.total_names, np.asarray(totals)[:, seed].tolist(), strict=True))
    env = rings.State(*(np.asarray(x)[seed] for x in after.stream.env))
    start = _start(config, ring, invented, updates, seed)
    return start, _finish(after.learner, seed, named, env=env)


@SMALL_MIXER
def simulated(config: Config, ring: Ring, updates: int, seed: int, optimizer_steps: int) -> tuple[Start, Finish]:
    """The same with the program for simulators."""
    program = SimulatorProgram(config, lambda n: HostRing(ring, n), spec(ring))
    with mock.patch("pqn.programs.simulators.program.compiler_options", lambda *_: QUICK):
        program.compile()
    try:
        state = program.init()
        invented = _invent(state.learner)
        state = state._replace(learner=_with(state.learner, invented, optimizer_steps))
        after, totals = program.chunk(state, updates)
        beside = program.evaluate(after) if config.eval.count else None
    finally:
        program.close()
    named = {name: float(value[seed]) for name, value in totals.items()}
    start = _start(config, ring, invented, updates, seed)
    greedy = None if beside is None else np.stack([beside.ret[seed], beside.length[seed]])
    return start, _finish(after.learner, seed, named, greedy=greedy)


def _with(learner: Any, invented: Any, optimizer_steps: int) -> Any:
    count = learner.opt.count + jnp.int32(optimizer_steps)
    params, stats, target = invented
    return learner._replace(params=params, stats=stats, target=target, opt=learner.opt._replace(count=count))


def _finish(learner: Any, seed: int, totals: dict[str, float], **more: Any) -> Finish:
    target = _read(*learner.target, seed) if learner.target else ({}, {})
    return Finish(*_read(learner.params, learner.stats, seed), totals, target=target, **more)


def _invent(learner: Any) -> tuple[Any, Any, Any]:
    """Parameters, statistics and a target network in which nothing is zero or one: a bias that is ignored must show."""
    generator = np.random.default_rng(5)

    def invented(path: Any, leaf: Any) -> np.ndarray:
        name, shape = path[-1].key, leaf.shape[1:]
        if name == "updates":
            value = np.array(97, np.int32)  # batch renorm changes its ways at 100
        elif name == "var":
            value = generator.uniform(0.05, 3.0, shape)
        elif name == "scale":
            value = generator.uniform(0.5, 1.5, shape)
        elif name in ("mean", "bias", "candidate_bias"):
            value = generator.normal(0.0, 0.3, shape)
        else:
            value = generator.normal(0.0, 1.0 / np.sqrt(shape[0]), shape)
        return np.broadcast_to(value.astype(leaf.dtype), leaf.shape).copy()

    parts = (learner.params, learner.stats, learner.target)
    return jax.tree_util.tree_map_with_path(invented, parts)


def _start(config: Config, ring: Ring, invented: Any, updates: int, seed: int) -> Start:
    """The first parameters, and the random numbers of a run from its seed."""
    key, _, env_key = jax.random.split(jax.random.key(config.seed + seed), 3)
    beside_key = jax.random.fold_in(env_key, np.iinfo(np.int32).max)
    luck, luck_beside = (
        np.asarray(jax.random.bits(key, (count,), "uint32") >> 1)
        for key, count in ((env_key, config.env.num_envs), (beside_key, config.simulators.greedy_envs))
    )
    s, chances = settings(config, ring), []
    for update in range(updates + 1):
        key, collect_key, learn_key = jax.random.split(key, 3)
        uniform = _uniform(collect_key, (s.steps // s.segment, s.segment, s.envs, ring.agents))
        if s.replay is None:
            orders = np.argsort(_bits(learn_key, (s.epochs, s.steps // s.segment * s.envs)), axis=1)
        else:
            orders = _picks(config, s, learn_key, update)
        chances.append(Chance(np.asarray(uniform).reshape(s.steps, s.envs, ring.agents), orders))
    params, stats, target = invented
    return Start(*_read(params, stats, seed), luck, luck_beside, chances, _read(*target, seed) if target else ({}, {}))


def _picks(config: Config, s: Settings, key: Any, update: int) -> np.ndarray:
    """Environment and first step, counted from the oldest in the buffer, of each sequence [K, B, 2].

    The first part is how flashbax draws, the second how the rest is drawn from the last rollout.
    """
    assert s.replay is not None
    count, batch, old = s.epochs * s.minibatches, config.replay.batch, _old(config)
    reach, held = s.burn_in + s.segment + s.replay.n_step, min((update + 1) * s.steps, s.replay.length)
    picks = np.zeros((count, batch, 2), int)

    def integers(key: Any, columns: int, below: int) -> np.ndarray:
        return np.asarray(jax.random.randint(key, (count * columns,), 0, max(below, 1))).reshape(count, columns)

    if old:
        rest, for_start = jax.random.split(key)
        picks[:, :old, 0] = integers(jax.random.split(rest)[1], old, s.envs)
        picks[:, :old, 1] = integers(for_start, old, held - reach + 1)
    if old < batch:
        key = jax.random.fold_in(key, 1)
        picks[:, old:, 0] = integers(jax.random.fold_in(key, 1), batch - old, s.envs)
        picks[:, old:, 1] = held - reach - integers(key, batch - old, s.steps)
    return picks


_uniform = functools.partial(jax.jit, static_argnums=1)(jax.random.uniform)
_bits = functools.partial(jax.jit, static_argnums=1)(jax.random.bits)


def _read(params: Any, stats: Any, seed: int) -> tuple[Params, Stats]:
    read_stats: Stats = {}
    for name, value in _flat(stats, seed).items():
        norm, _, part = name.rpartition(".")
        read_stats.setdefault(norm, {})[part] = value
    return _flat(params, seed), read_stats


def _flat(tree: Any, seed: int) -> Params:
    flat = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = "/".join(part.key for part in path)
        for ours, theirs in () if name.startswith("mixer/") else NAMES:
            name = name.replace(ours, theirs)
        flat[name.replace("/", ".")] = np.asarray(leaf)[seed].astype(np.float64)
    return flat


def finished(run: Any) -> tuple[Config, list[dict[str, Any]]]:
    """The configuration of a finished run, and the rows of its training."""
    config = Config.from_dict(json.loads((run.run / "config.json").read_text()))
    rows = [json.loads(line) for line in (run.run / "metrics.jsonl").read_text().splitlines()]
    return config, [row for row in rows if row["kind"] == "train"]


def recorded_schedules(config: Config, update: int) -> dict[str, float]:
    """What a run would record as ε and learning rate after so many updates."""
    return schedules(config, update)
