"""Hanabi for two to five players, by JaxMARL."""

from __future__ import annotations

import numpy as np

from pqn.envs.adapters.jaxmarl import TeamGame, agent_axis, build, ensure_installed, load
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import Outcome
from pqn.envs.options import Option, choose
from pqn.errors import EnvError
from pqn.types import Array, EnvSpec, PyTree

__all__ = ["HanabiEnv", "ensure_installed", "make", "options"]


class HanabiEnv(TeamGame):
    """One game as a `SingleEnv`.

    One step of the environment is the turn of one player. This player has its legal moves; all others have only the
    no-op, which is the last action. All observe every step.

    The reward is the team's: 1 for every card played correctly. The third mistake (with `max_life_tokens` = 3) ends the
    game and takes back all that was earned. So the return is the score of the game, which is 0 after such an end.
    Games always terminate: at that mistake, with all fireworks complete, or when everybody has had a turn after the
    last card was drawn.

    Observations are float32: most of the numbers are 0 or 1, but the beliefs about hidden cards are fractions.

    `Outcome.info` holds, to be read at the last step of an episode:
      score: of the game, equal to its return.
      perfect: 1 if the score is the highest possible (25), else 0.

    Args:
      name: the number of players, "2" to "5".
      given: see `options`.

    Raises:
      EnvError: an option that does not exist, or values with which no game can be dealt.
    """

    def __init__(self, name: str, **given: object):
        full, players = f"hanabi:{name}", int(name)
        chosen = choose(full, options(players), given)
        copies = _copies(chosen["num_ranks"])
        undealt = chosen["num_colors"] * int(copies.sum()) - players * chosen["hand_size"]
        if undealt < 1:
            raise EnvError(
                f"{full}: no card is left to draw after dealing; choose more colors or ranks, or smaller hands."
            )
        factory = load("jaxmarl.environments.hanabi").Hanabi
        self.env = build(full, factory, num_agents=players, num_cards_of_rank=copies, **chosen)
        self.max_score = chosen["num_colors"] * chosen["num_ranks"]
        self.spec = EnvSpec(
            name=full,
            obs_shape=(int(self.env.obs_size),),
            obs_dtype=np.dtype(np.float32),
            num_actions=int(self.env.num_moves),
            num_agents=players,
            # Every move but a hint draws one of the undealt cards; a hint costs a token, and each of those moves
            # brings back at most one. After the last card is drawn everybody has one more turn.
            max_episode_steps=2 * undealt + chosen["max_info_tokens"] + players,
            masked=True,
        )

    def step(self, key: Array, state: PyTree, action: Array) -> Outcome:
        state, obs, reward, _ = self.play(key, state, action)
        info = {"score": state.score, "perfect": state.score == self.max_score}
        return Outcome(state, obs, reward[self.env.agents[0]], state.terminal, info=info)

    def avail(self, state: PyTree) -> Array:
        """Legal moves [M, A]."""
        return agent_axis(self.env.agents, self.env.get_legal_moves(state)).astype(bool)


def options(players: int) -> dict[str, Option]:
    """The options of a game and their defaults: the full game, with five cards in hand, four from four players on."""
    return {
        "num_colors": Option(5, least=1),
        "num_ranks": Option(5, least=2),
        "hand_size": Option(5 if players < 4 else 4, least=2),
        "max_info_tokens": Option(8, least=1),
        "max_life_tokens": Option(3, least=1),
        "shuffle_player_order": Option(False),
    }


def _copies(ranks: int) -> np.ndarray:
    """Copies of each rank within a color: three of the lowest, one of the highest, two of all between."""
    return np.array([3] + [2] * (ranks - 2) + [1])


def make(name: str, num_envs: int, **given: object) -> Autoreset:
    """N games of `name` players with same-step autoreset."""
    return Autoreset(HanabiEnv(name, **given), num_envs)
