"""Names of the Atari games, as ale-py spells them; no imports, so that lists stay instant."""

from __future__ import annotations

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

OTHERS = (
    "adventure", "air_raid", "atlantis2", "backgammon", "basic_math", "blackjack", "carnival", "casino", "crossbow",
    "darkchambers", "donkey_kong", "earthworld", "elevator_action", "entombed", "et", "flag_capture", "frogger",
    "galaxian", "hangman", "haunted_house", "human_cannonball", "journey_escape", "kaboom", "keystone_kapers",
    "king_kong", "klax", "koolaid", "laser_gates", "lost_luggage", "mario_bros", "miniature_golf", "mr_do", "othello",
    "pacman", "pitfall2", "pooyan", "sir_lancelot", "space_war", "superman", "tetris", "tic_tac_toe_3d", "trondead",
    "turmoil", "video_checkers", "video_chess", "video_cube", "word_zapper",
)  # fmt: skip
"""Games that ale-py has besides; no human scores are agreed on for them."""

TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")
"""Games that ale-py lists but cannot play alone: loading one ends the process."""


def title(game: str) -> str:
    """The name on the box, nearly: "space_invaders" to "Space Invaders"."""
    return game.replace("_", " ").title()
