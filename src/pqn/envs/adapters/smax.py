"""SMAX, JaxMARL's StarCraft-like micromanagement, against its heuristic enemy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from pqn.envs.adapters.jaxmarl import TeamGame, agent_axis, build, ensure_installed, load
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.envs.options import Option, choose
from pqn.types import Array, EnvSpec, PyTree

__all__ = ["OPTIONS", "SmaxEnv", "ensure_installed", "make"]

# The first three are those of the public PQN configuration; they are also jaxmarl's own.
OPTIONS = {
    "see_enemy_actions": Option(True),
    "walls_cause_death": Option(True),
    "attack_mode": Option("closest", choices=("closest", "random")),
    "enemy_shoots": Option(True),
    "won_battle_bonus": Option(1.0),
    # jaxmarl compares its limit of 100 with the counter before it counts the step: its episodes have 101 steps, and
    # published win rates are of such episodes. Here the number is the length.
    "max_steps": Option(101, least=1),
    "dead_may_stop": Option(False),
}


class SmaxEnv(TeamGame):
    """One battle of M allies under our control against jaxmarl's heuristic enemy, as a `SingleEnv`.

    The battle is over when either side has no unit left: that terminates. The time limit, which no observation shows,
    truncates. jaxmarl's `done` mixes the two, so the end is read from the state.

    The reward is the team's: the enemy health destroyed in the step, as a share of all enemy health, plus
    `won_battle_bonus` at a victory.

    A dead agent sees zeros, and its actions have no effect. So none of its actions is legal here. By the contract an
    agent without a legal action contributes nothing to the team's value. In jaxmarl its one legal action is "stop";
    `dead_may_stop` gives that mask instead.

    `Outcome.info` holds, to be read at the last step of an episode:
      win: 1 if the enemy is dead and an ally alive (both sides can fall in one step: a draw), else 0.
      dead_allies, dead_enemies: units lost by each side.

    Args:
      name: a map of jaxmarl, such as "2s3z".
      options: see `OPTIONS`.

    Raises:
      EnvError: an option that does not exist or a value out of range.
    """

    def __init__(self, name: str, **options: object):
        smax = load("jaxmarl.environments.smax")
        chosen = choose(f"smax:{name}", OPTIONS, options)
        limit, self.dead_may_stop = chosen.pop("max_steps"), chosen.pop("dead_may_stop")
        scenario = smax.map_name_to_scenario(name)
        self.env = build(f"smax:{name}", smax.HeuristicEnemySMAX, scenario=scenario, max_steps=limit - 1, **chosen)
        self.spec = EnvSpec(
            name=f"smax:{name}",
            obs_shape=(self.env.obs_size,),
            obs_dtype=np.dtype(np.float32),
            num_actions=self.env.num_ally_actions,
            num_agents=self.env.num_allies,
            max_episode_steps=limit,
            truncates=True,
            world_size=self.env.state_size,
            masked=True,
        )

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        state, obs, reward, _ = self.play(key, state, action)
        allies, enemies = self._alive(state)
        won, lost = ~jnp.any(enemies), ~jnp.any(allies)
        info = {"win": won & ~lost, "dead_allies": jnp.sum(~allies), "dead_enemies": jnp.sum(~enemies)}
        # Every ally's reward is the team's, the dead ones' too.
        return Outcome(state, obs, reward[self.env.agents[0]], won | lost, info=info)

    def avail(self, state: PyTree) -> Array:
        """Legal actions [M, A]: four moves, stop, and each enemy in range."""
        avail = agent_axis(self.env.agents, self.env.get_avail_actions(state)).astype(bool)
        return avail if self.dead_may_stop else avail & self._alive(state)[0][:, None]

    def world_state(self, state: PyTree) -> Array:
        """The global state [W] that jaxmarl calls `obs["world_state"]`: all units."""
        return self.env.get_world_state(state)

    def _alive(self, state: PyTree) -> tuple[Array, Array]:
        """Which allies and which enemies are alive."""
        alive = state.state.unit_alive
        return alive[: self.env.num_allies], alive[self.env.num_allies :]


def make(name: str, num_envs: int, **options: object) -> Autoreset:
    """N battles on the map `name` with same-step autoreset."""
    return Autoreset(SmaxEnv(name, **options), num_envs)
