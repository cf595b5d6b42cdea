"""Two cooperative tasks of the multi-agent particle environments, by JaxMARL."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from pqn.envs.adapters.jaxmarl import TeamGame, agent_axis, build, ensure_installed, load
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.envs.options import Option, choose
from pqn.types import Array, EnvSpec, PyTree

__all__ = ["TASKS", "MpeEnv", "ensure_installed", "make"]

# As in SMAX, jaxmarl's limit of 25 makes episodes of 26 steps. Its published returns are sums over 26 steps.
_LIMIT = {"max_steps": Option(26, least=1)}
# name -> jaxmarl's class, options
TASKS: dict[str, tuple[str, dict[str, Option]]] = {
    "simple_spread": (
        "SimpleSpreadMPE",
        {"num_agents": Option(3, least=2), "num_landmarks": Option(3, least=1), "local_ratio": Option(0.5, least=0)}
        | _LIMIT,
    ),
    "simple_speaker_listener": ("SimpleSpeakerListenerMPE", _LIMIT),
}


class MpeEnv(TeamGame):
    """One particle world as a `SingleEnv`.

    The reward is the sum over the agents of what jaxmarl pays each, as in jaxmarl's Q-learning baselines. In
    simple_speaker_listener both are paid the same, so the team's reward is twice that.

    Where agents differ, observations are padded with zeros to the longest, and all agents have the largest number of
    actions; the mask forbids the actions that an agent does not have. simple_speaker_listener needs both: the speaker
    sees 3 numbers of 11 and has 3 actions of 5.

    Only the time limit ends an episode. No observation shows it, so it truncates.

    Args:
      name: "simple_spread" or "simple_speaker_listener".
      options: see `TASKS`.

    Raises:
      EnvError: an option that does not exist or a value out of range.
    """

    def __init__(self, name: str, **options: object):
        class_name, known = TASKS[name]
        chosen = choose(f"mpe:{name}", known, options)
        limit = chosen.pop("max_steps")
        factory = getattr(load("jaxmarl.environments.mpe"), class_name)
        self.env = build(f"mpe:{name}", factory, max_steps=limit - 1, **chosen)
        sizes = [self.env.observation_space(agent).shape[0] for agent in self.env.agents]
        actions = [int(self.env.action_space(agent).n) for agent in self.env.agents]
        self.padding = {agent: max(sizes) - size for agent, size in zip(self.env.agents, sizes, strict=True)}
        self.mask = np.arange(max(actions)) < np.array(actions)[:, None]  # [M, A]
        self.spec = EnvSpec(
            name=f"mpe:{name}",
            obs_shape=(max(sizes),),
            obs_dtype=np.dtype(np.float32),
            num_actions=max(actions),
            num_agents=self.env.num_agents,
            max_episode_steps=limit,
            truncates=True,
            masked=not self.mask.all(),
        )

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        state, obs, reward, _ = self.play(key, state, action)
        total = jnp.sum(agent_axis(self.env.agents, reward))
        return Outcome(state, obs, total, terminated=jnp.bool_(False))

    def avail(self, state: PyTree) -> Array:
        """The actions that each agent has [M, A]."""
        return jnp.asarray(self.mask)

    def observed(self, obs: Mapping[str, Array]) -> Array:
        return agent_axis(
            self.env.agents, {agent: jnp.pad(obs[agent], (0, pad)) for agent, pad in self.padding.items()}
        )


def make(name: str, num_envs: int, **options: object) -> Autoreset:
    """N copies of the particle world `name` with same-step autoreset."""
    return Autoreset(MpeEnv(name, **options), num_envs)
