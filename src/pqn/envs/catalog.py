"""The names of all environment families and environments, as data.

This module imports nothing but the standard library, so that names can be listed without loading jax or a simulator.
`pqn.envs.registry` makes environments from the names. To add a family, write an adapter and add an entry to `FAMILIES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Family:
    """A group of environments that one module makes.

    The module has a function `make(name, num_envs, **options)`, which returns a `JaxEnv` or a `HostEnv`. It may have
    `ensure_installed()`, which raises ModuleNotFoundError if a package is missing; a module that imports its packages
    at its top needs no such function.
    """

    module: str
    names: Mapping[str, str]
    """Each environment with a short description."""
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Environments that the package has but that are not offered here, with the reason as the rest of a sentence."""
    prefixed: bool = False
    """Whether names are written "family:name". Otherwise the name alone is enough."""
    summary: str = ""
    """One description for all names, where there are too many for a row each in `pqn envs`."""
    extra: str | None = None
    """The optional dependency of pqn that installs the family's package; None if there is none."""
    packages: tuple[str, ...] = ()
    """Distributions whose versions decide what the environments do. A run records these versions."""
    packages_with: Mapping[tuple[str, object], tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """(option, value) -> the distributions that replace `packages` where the option has this value."""
    open: bool = False
    """Whether any name may follow the prefix, because the package has a list of its own. The module then has
    `is_harmless(name, options)`: whether making this environment runs code of the package only."""
    user_registry: str = ""
    """The package in which users can register further names at run time. The module then has `is_registered(name)`."""


ATARI_57 = (
    "alien", "amidar", "assault", "asterix", "asteroids", "atlantis", "bank_heist", "battle_zone", "beam_rider",
    "berzerk", "bowling", "boxing", "breakout", "centipede", "chopper_command", "crazy_climber", "defender",
    "demon_attack", "double_dunk", "enduro", "fishing_derby", "freeway", "frostbite", "gopher", "gravitar", "hero",
    "ice_hockey", "jamesbond", "kangaroo", "krull", "kung_fu_master", "montezuma_revenge", "ms_pacman",
    "name_this_game", "phoenix", "pitfall", "pong", "private_eye", "qbert", "riverraid", "road_runner", "robotank",
    "seaquest", "skiing", "solaris", "space_invaders", "star_gunner", "surround", "tennis", "time_pilot", "tutankham",
    "up_n_down", "venture", "video_pinball", "wizard_of_wor", "yars_revenge", "zaxxon",
)  # fmt: skip
"""The games of the Atari-57 benchmark."""

ATARI_10 = (
    "amidar", "bowling", "frostbite", "kung_fu_master", "riverraid", "battle_zone", "double_dunk", "name_this_game",
    "phoenix", "qbert",
)  # fmt: skip
"""The games from which Aitchison et al. (2022) estimate the median over all 57; the last five are Atari-5."""

ATARI_OTHERS = (
    "adventure", "air_raid", "atlantis2", "backgammon", "basic_math", "blackjack", "carnival", "casino", "crossbow",
    "darkchambers", "donkey_kong", "earthworld", "elevator_action", "entombed", "et", "flag_capture", "frogger",
    "galaxian", "hangman", "haunted_house", "human_cannonball", "journey_escape", "kaboom", "keystone_kapers",
    "king_kong", "klax", "koolaid", "laser_gates", "lost_luggage", "mario_bros", "miniature_golf", "mr_do", "othello",
    "pacman", "pitfall2", "pooyan", "sir_lancelot", "space_war", "superman", "tetris", "tic_tac_toe_3d", "trondead",
    "turmoil", "video_checkers", "video_chess", "video_cube", "word_zapper",
)  # fmt: skip
"""The other games of ale-py. There are no agreed human scores for them."""

ATARI_TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")
"""Games of ale-py that need two players: loading one ends the process."""

ATARI_TITLES = {game: game.replace("_", " ").title() for game in sorted((*ATARI_57, *ATARI_OTHERS))}
"""Each game with its name in words: "space_invaders" is "Space Invaders"."""

_CONTINUOUS = "has continuous actions, and Q-learning takes a maximum over finitely many"

# gymnax is not asked for its ids because that would import it. A test compares the two lists.
_GYMNAX = Family(
    module="pqn.envs.adapters.gymnax",
    names={
        "CartPole-v1": "balance a pole on a cart; 500 steps",
        "Acrobot-v1": "swing a two-link pendulum up; 500 steps",
        "MountainCar-v0": "rock a car out of a valley; sparse reward, 200 steps",
        "Asterix-MinAtar": "collect gold, avoid enemies; 10x10x4",
        "Breakout-MinAtar": "break bricks with a ball; 10x10x4",
        "Freeway-MinAtar": "cross the road; 10x10x7",
        "Seaquest-MinAtar": "rescue divers under fire; 10x10x10 (slow to simulate)",
        "SpaceInvaders-MinAtar": "shoot the aliens; 10x10x6",
        "Catch-bsuite": "catch the falling ball; option rows, columns",
        "DeepSea-bsuite": "deep exploration; option size",
        "MemoryChain-bsuite": "recall a bit after memory_length steps",
        "UmbrellaChain-bsuite": "credit assignment over chain_length steps with noisy rewards",
        "DiscountingChain-bsuite": "choose among rewards after 1, 3, 10, 30 or 100 steps",
        "SimpleBandit-bsuite": "one-step bandit whose arms are shuffled every episode",
        "FourRooms-misc": "navigate four rooms with slipping moves",
        "MetaMaze-misc": "find the hidden goal of a maze again and again; needs memory",
        "BernoulliBandit-misc": "two-armed Bernoulli bandit over 100 pulls; needs memory",
        "GaussianBandit-misc": "fixed arm against a Gaussian one over 100 pulls; needs memory",
        "Pong-misc": "keep the ball in play; 30x40x3",
        "FrozenLake-misc": "cross the slippery ice; option map_name 4x4 or 8x8",
    },
    refused={
        "Pendulum-v1": _CONTINUOUS,
        "MountainCarContinuous-v0": _CONTINUOUS,
        "PointRobot-misc": _CONTINUOUS,
        "Reacher-misc": _CONTINUOUS,
        "Swimmer-misc": _CONTINUOUS,
        "MNISTBandit-bsuite": "downloads its data set when it is made, and pqn downloads nothing without being asked",
    },
    packages=("gymnax",),
    user_registry="gymnax",
)
_PROBE = Family(
    module="pqn.envs.probe",
    names={
        "one-step": "one state, one reward: V = 1",
        "observed-reward": "the reward is the observation",
        "two-step": "the reward comes one step late: V = γ, then 1",
        "action-matters": "one action pays 1, the other -1",
        "match": "pays 1 for the action that matches the observation",
        "endless": "reward 1 for ever, truncated by a time limit: V = 1/(1-γ) with bootstrapping at truncation",
        "end-or-truncation": "one start terminates, another is truncated into a third",
        "random-length": "reward 1, goes on with probability p: V = 1/(1-γp)",
        "gridworld": "4x3 slippery grid with a known model, for value iteration",
        "masked": "the illegal action would pay the most",
        "memory": "recall the cue of the first step after `delay` steps",
        "counter": "every transition can be verified from its observation",
        "team-match": "two agents, a cue each: a sum of values is exact",
        "two-step-game": "two agents whose payoff no sum of values can express, but QMIX can",
    },
    prefixed=True,
)
_CRAFTAX = Family(
    module="pqn.envs.adapters.craftax",
    names={
        "Craftax-Symbolic-v1": "survive and explore nine floors, 67 achievements; 8268 numbers",
        "Craftax-Classic-Symbolic-v1": "Crafter on the surface, 22 achievements; 1345 numbers",
        "Craftax-Pixels-v1": "Craftax from images; 130x110x3 (prepares textures once)",
        "Craftax-Classic-Pixels-v1": "Craftax-Classic from images; 63x63x3 (prepares textures once)",
    },
    extra="craftax",
    packages=("craftax",),
)
_SMAX = Family(
    module="pqn.envs.adapters.smax",
    names={
        "3m": "3 marines a side",
        "2s3z": "2 stalkers and 3 zealots a side",
        "25m": "25 marines a side",
        "3s5z": "3 stalkers and 5 zealots a side",
        "8m": "8 marines a side",
        "5m_vs_6m": "5 marines against 6",
        "10m_vs_11m": "10 marines against 11",
        "27m_vs_30m": "27 marines against 30",
        "3s5z_vs_3s6z": "3 stalkers and 5 zealots against 3 and 6",
        "3s_vs_5z": "3 stalkers against 5 zealots",
        "6h_vs_8z": "6 hydralisks against 8 zealots",
        "smacv2_5_units": "5 units a side, types and places drawn anew for every battle",
        "smacv2_10_units": "10 units a side, types and places drawn anew for every battle",
        "smacv2_20_units": "20 units a side, types and places drawn anew for every battle",
    },
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_OVERCOOKED = Family(
    module="pqn.envs.adapters.overcooked",
    names={
        "cramped_room": "two cooks in one small kitchen; option shaping_steps",
        "asymm_advantages": "two kitchens, each closer to something; option shaping_steps",
        "coord_ring": "two cooks must circle the same way; option shaping_steps",
        "forced_coord": "two cooks pass everything over a counter; option shaping_steps",
        "counter_circuit": "a ring around a long counter; option shaping_steps",
    },
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_HANABI = Family(
    module="pqn.envs.adapters.hanabi",
    names={str(n): f"the card game for {n} players; options num_colors, num_ranks, hand_size" for n in range(2, 6)},
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_MPE = Family(
    module="pqn.envs.adapters.mpe",
    names={
        "simple_spread": "3 particles cover 3 landmarks without colliding; option num_agents, local_ratio",
        "simple_speaker_listener": "one particle tells the other where to go; agents that differ",
    },
    extra="marl",
    prefixed=True,
    packages=("jaxmarl",),
)
_ATARI = Family(
    module="pqn.envs.adapters.atari",
    names={game: f"Atari 2600: {title}" for game, title in ATARI_TITLES.items()},
    refused=dict.fromkeys(ATARI_TWO_PLAYERS, "needs two players"),
    extra="atari",
    prefixed=True,
    summary="Atari 2600 on ale-py, which is GPL-2.0; options protocol (paper, dopamine), threads, sticky_actions, …",
    packages=("ale-py",),
    packages_with={("backend", "envpool"): ("envpool",)},
)
_GYMNASIUM = Family(
    module="pqn.envs.adapters.gymnasium",
    names={
        "LunarLander-v3": "land between the flags (needs gymnasium[box2d]); any other id of your gymnasium works, too",
    },
    extra="gymnasium",
    prefixed=True,
    open=True,
    packages=("gymnasium",),
)
FAMILIES: dict[str, Family] = {
    "gymnax": _GYMNAX,
    "probe": _PROBE,
    "craftax": _CRAFTAX,
    "smax": _SMAX,
    "overcooked": _OVERCOOKED,
    "hanabi": _HANABI,
    "mpe": _MPE,
    "atari": _ATARI,
    "gymnasium": _GYMNASIUM,
}
