"""An agent's one compiled program acts as its parts do, called one by one, and Python does little around it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pqn.agent import Agent
from pqn.algorithms import make_algorithm
from pqn.config import Config
from pqn.errors import PqnError
from pqn.exploration import epsilon_greedy
from pqn.types import EnvSpec

FLOAT, BOOL = np.dtype("float32"), np.dtype("bool")
SMALL = {"network.hidden": (8,)}
PAST = {"network.last_action": True, "network.last_reward": True}
KINDS = {
    "mlp": (SMALL, EnvSpec("flat", (4,), FLOAT, 3, masked=True)),
    "grid": (SMALL | {"network.torso": "minatar"}, EnvSpec("grid", (10, 10, 4), BOOL, 3)),
    "gru": (SMALL | {"network.memory": "gru", "network.memory_size": 6} | PAST, EnvSpec("flat", (4,), FLOAT, 3)),
    "team": (
        SMALL | {"network.memory": "lstm", "network.memory_size": 6} | PAST,
        EnvSpec("team", (4,), FLOAT, 3, num_agents=2, masked=True),
    ),
    "ppo": (SMALL | {"algorithm": "ppo"}, EnvSpec("flat", (4,), FLOAT, 3)),
}


def make(kind: str) -> Agent:
    options, spec = KINDS[kind]
    actor = make_algorithm(Config().replace(options).validate(), spec).actor
    return Agent(actor, actor.init(jax.random.key(1)), 0)


@pytest.fixture(scope="module")
def small() -> Agent:
    return make("mlp")


class Call(NamedTuple):
    obs: np.ndarray
    first: np.ndarray
    reward: np.ndarray
    avail: np.ndarray | None


class Reference:
    """The definition: inputs, scores, uniform numbers and the choice, one operation of JAX after the other."""

    def __init__(self, agent: Agent, batch: int):
        self.actor, self.policy, self.shape = agent.actor, agent.policy, (batch, agent.spec.num_agents)
        self.scores = jax.jit(agent.actor.scores)
        self.carry, self.last_action = agent.actor.initial_carry(*self.shape), jnp.zeros(self.shape, jnp.int32)

    def q_values(self, call: Call) -> jax.Array:
        spec = self.actor.spec
        obs = jnp.asarray(call.obs, spec.obs_dtype).reshape(*self.shape, *spec.obs_shape)
        first = jnp.broadcast_to(jnp.asarray(call.first)[:, None], self.shape)
        inputs = self.actor.inputs(obs, first, self.last_action, jnp.asarray(call.reward, jnp.float32))
        self.carry, q = self.scores(self.policy, self.carry, inputs)
        return q

    def act(self, call: Call, epsilon: float, seed: int) -> tuple[jax.Array, jax.Array]:
        """The greedy action, and the one taken."""
        q = self.q_values(call)
        avail = None if call.avail is None else jnp.asarray(call.avail).reshape(q.shape)
        uniform = jax.random.uniform(jax.random.key(seed), self.shape)
        self.last_action = epsilon_greedy(uniform, q, avail, epsilon)
        return epsilon_greedy(uniform, q, avail, 0.0), self.last_action


def calls(spec: EnvSpec, batch: int, count: int) -> list[Call]:
    rng, agents = np.random.default_rng(3), (spec.num_agents,) if spec.num_agents > 1 else ()
    made = []
    for t in range(count):
        obs = rng.normal(size=(batch, *agents, *spec.obs_shape))
        obs = obs > 0 if spec.obs_dtype == BOOL else obs  # float64 where the environment has float32
        avail = rng.random((batch, *agents, spec.num_actions)) < 0.6
        avail[..., t % spec.num_actions] = True
        first = np.full(batch, True) if t == 0 else rng.random(batch) < 0.3
        made.append(Call(obs, first, rng.normal(size=batch), avail if spec.masked else None))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_acts_bit_for_bit_as_its_definition(kind):
    """Greedy calls, exploring ones with a seed and without; between them one that only looks at the Q-values."""
    agent, batch, drawn, explored = make(kind), 3, 0, False
    reference = Reference(agent, batch)
    for t, call in enumerate(calls(agent.spec, batch, 6)):
        past = {"first": call.first, "reward": call.reward}
        if t == 3:
            assert_same(agent.q_values(call.obs, **past), reference.q_values(call))
            continue
        drawn += 1
        epsilon, seed = (0.0, None) if t == 0 else (0.7, None if t % 2 else 2**31 - 1)
        action = agent.act(call.obs, avail=call.avail, epsilon=epsilon, seed=seed, **past)
        greedy, wanted = reference.act(call, epsilon, drawn if seed is None else seed)
        assert action.dtype == np.int32
        assert_same(action, wanted)
        jax.tree.map(np.testing.assert_array_equal, agent._memory.carry, reference.carry)
        assert t or np.array_equal(wanted, greedy)
        explored |= not np.array_equal(wanted, greedy)
    assert explored


def assert_same(ours: np.ndarray, theirs: jax.Array) -> None:
    """The same numbers; one agent's have no axis of agents."""
    wanted = np.asarray(theirs)
    np.testing.assert_array_equal(ours, wanted if ours.ndim == wanted.ndim else wanted[:, 0])


def test_one_observation_is_a_batch_of_one(small):
    for call in calls(small.spec, 1, 4):
        alone = small.act(call.obs[0], avail=call.avail[0])
        assert isinstance(alone, int)
        assert small.act(call.obs, avail=call.avail).tolist() == [alone]
        np.testing.assert_array_equal(small.q_values(call.obs[0]), small.q_values(call.obs)[0])


def test_the_first_call_after_a_reset_starts_an_episode():
    agent = make("gru")
    (call,) = calls(agent.spec, 2, 1)
    first = agent.q_values(call.obs)
    assert np.any(agent.q_values(call.obs) != first)
    agent.reset()
    np.testing.assert_array_equal(agent.q_values(call.obs), first)
    np.testing.assert_array_equal(agent.q_values(call.obs, first=True), first)


def test_a_refused_call_leaves_the_memory_as_it_was():
    agent, other = make("gru"), make("gru")
    one, two = calls(agent.spec, 2, 2)
    for each in (agent, other):
        each.act(one.obs)
    for wrong in ({"seed": -1}, {"reward": np.nan}, {"first": [True] * 3}, {"avail": np.zeros((2, 3))}):
        with pytest.raises(PqnError):
            agent.act(two.obs, **wrong)
    np.testing.assert_array_equal(agent.q_values(two.obs), other.q_values(two.obs))


def test_a_call_is_one_program_and_little_python(small):
    """Every operation of JAX outside of the program costs a hundred calls of Python functions and more."""
    obs, noted = np.zeros(4, np.float32), []
    small.act(obs)
    small.act(obs)  # the second call has another `first`: from here on nothing is new
    sys.setprofile(lambda frame, event, argument: noted.append(event) if event in ("call", "c_call") else None)
    try:
        small.act(obs)
    finally:
        sys.setprofile(None)
    assert len(noted) < 60


def test_takes_little_longer_than_its_program(small):
    """Each time is the best of many. Measured: twice as long; twenty times when it was several programs."""
    actor, obs = small.actor, np.zeros(4, np.float32)
    blank = actor.blank_inputs(1)

    @jax.jit
    def bare(policy, obs):
        return jnp.argmax(actor.scores(policy, (), blank._replace(obs=obs.reshape(1, 1, 4)))[1])

    policy = jax.tree.map(jnp.asarray, small.policy)

    def seconds(call: Callable[[], object]) -> float:
        began = time.perf_counter()
        for _ in range(50):
            call()
        return time.perf_counter() - began

    times = [(seconds(lambda: small.act(obs)), seconds(lambda: bare(policy, obs).item())) for _ in range(20)]
    ours, program = (min(each) for each in zip(*times, strict=True))
    assert ours < 5 * program


def test_an_agent_of_a_team_may_have_no_legal_action():
    """It is dead, or not at turn: the others act all the same."""
    team, obs = make("team"), np.zeros((2, 4))
    assert team.act(obs, avail=[[False, True, False], [False, False, False]])[0] == 1
    with pytest.raises(PqnError, match="avail leaves no legal action"):
        team.act(obs, avail=np.zeros((2, 3), bool))
