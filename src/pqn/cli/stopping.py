"""Options that end a run before its plan is fulfilled, for the commands that train."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Annotated

from pqn.cli import options
from pqn.fields import Within
from pqn.options import Positive

if TYPE_CHECKING:
    from pqn.callbacks import Callback

COUNT = Annotated[int, Within(1, 10**6)]


def add(parser: options.Parser) -> None:
    section = parser.add_argument_group("end early", "A run that ends early is saved, and `pqn resume` continues it.")
    section.add_argument(
        "--stop-return", type=options.number, metavar="X", help="when an evaluation's mean greedy return is X or more"
    )
    section.add_argument(
        "--stop-patience",
        type=options.within(COUNT),
        metavar="N",
        help="after N evaluations in a row without a new best mean greedy return",
    )
    section.add_argument(
        "--stop-minutes", type=options.within(Positive), metavar="X", help="after X minutes of this command"
    )


def callbacks(given: argparse.Namespace) -> list[Callback]:
    """What the options ask for."""
    from pqn.callbacks import StopAtReturn, StopWithoutImprovement, TimeBudget

    chosen: list[Callback] = []
    if given.stop_return is not None:
        chosen.append(StopAtReturn(given.stop_return))
    if given.stop_patience is not None:
        chosen.append(StopWithoutImprovement(given.stop_patience))
    if given.stop_minutes is not None:
        chosen.append(TimeBudget(given.stop_minutes))
    return chosen
