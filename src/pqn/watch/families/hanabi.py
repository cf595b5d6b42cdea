"""Hanabi as text: the table before each turn, and the move."""

from __future__ import annotations

import numpy as np

from pqn.envs.adapters.hanabi import HanabiEnv
from pqn.types import PyTree
from pqn.watch.view import Painter, View


def painter(env: HanabiEnv) -> Painter:
    return Painter(lambda view: _write(env, view), fps=1, is_text=True)


def _write(env: HanabiEnv, view: View) -> str:
    """The table; a card is its colour and rank, and in brackets what its holder was told of it."""
    state, game = view.state, env.env
    player = int(np.argmax(state.cur_player_idx))
    works = " ".join(
        f"{colour}{int(heights.sum())}" for colour, heights in zip(game.color_map, state.fireworks, strict=True)
    )
    lines = [
        f"turn {int(state.step) + 1}   score {int(state.score)}   hints {int(np.sum(state.info_tokens))}"
        f"   lives {int(np.sum(state.life_tokens))}   deck {int(state.remaining_deck_size.sum())}   fireworks {works}"
    ]
    for number in range(env.spec.num_agents):
        turn = ">" if number == player and view.action is not None else " "
        cards = "  ".join(_card(env, state, number, place) for place in range(game.hand_size))
        lines.append(f"{turn} player {number}   {cards}")
    if view.action is not None:
        lines.append(f"  player {player} {move(env, player, int(view.action[player]))}")
    return "\n".join(lines)


def _card(env: HanabiEnv, state: PyTree, player: int, place: int) -> str:
    card = state.player_hands[player, place]
    if not card.any():
        return "--[  ]"
    colour, rank = np.argwhere(card)[0]
    told_colour, told_rank = state.colors_revealed[player, place], state.ranks_revealed[player, place]
    told = (env.env.color_map[int(np.argmax(told_colour))] if told_colour.any() else " ") + (
        str(int(np.argmax(told_rank)) + 1) if told_rank.any() else " "
    )
    return f"{env.env.color_map[colour]}{rank + 1}[{told}]"


def move(env: HanabiEnv, player: int, action: int) -> str:
    """What an action is in words: jaxmarl numbers discards, plays, hints of a colour, hints of a rank, and no-op."""
    game, others = env.env, env.spec.num_agents - 1
    if action < 2 * game.hand_size:
        verb = "discards" if action < game.hand_size else "plays"
        return f"{verb} card {action % game.hand_size + 1}"
    hint = action - 2 * game.hand_size
    if hint < others * game.num_colors:
        target, about = hint // game.num_colors, f"colour {game.color_map[hint % game.num_colors]}"
    elif hint < others * (game.num_colors + game.num_ranks):
        hint -= others * game.num_colors
        target, about = hint // game.num_ranks, f"rank {hint % game.num_ranks + 1}"
    else:
        return "waits"
    return f"tells player {(player + 1 + target) % env.spec.num_agents} about {about}"
