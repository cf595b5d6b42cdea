"""A worker of a search: asks for trials, trains them, tells how they ended, until there are enough."""

from __future__ import annotations

from collections.abc import Sequence

from pqn.config import Config
from pqn.fleet.signals import stopping
from pqn.progress import Progress
from pqn.search.study import Asked, Search
from pqn.search.together import Ending, Stop, groups, train_together


def work(search: Search, budget: int, together: int, progress: Progress) -> None:
    """Runs trials until `budget` of all workers have ended or run.

    Args:
      search: the shared record.
      budget: how many trials the search has, of all workers together.
      together: how many to ask for at a time; those that can share a program are trained as one.
      progress: where to report.

    Raises:
      Interrupted: after a signal; the trials that ran are tried again when the search goes on.
    """
    with stopping() as caught:
        while asked := search.ask(together, budget):
            unfinished = list(asked)
            try:
                for entry in asked:
                    if entry.config is None:
                        search.prune(entry, entry.reason)
                        _say(entry, Ending(None, entry.reason), progress)
                        unfinished.remove(entry)
                possible = [(entry, entry.config) for entry in asked if entry.config is not None]
                for places in groups([config for _, config in possible]):
                    group = [possible[place] for place in places]
                    _train(search, group, lambda: caught[0] if caught else None, progress)
                    for entry, _ in group:
                        unfinished.remove(entry)
            except BaseException:  # also of Ctrl-C; what did not end well is tried again
                search.give_back(unfinished)
                raise


def _train(search: Search, group: Sequence[tuple[Asked, Config]], stop: Stop, progress: Progress) -> None:
    numbers = ", ".join(str(entry.number) for entry, _ in group)
    progress.note(f"--- trial{'s' * (len(group) > 1)} {numbers}{', one program' * (len(group) > 1)}")
    entries = [entry for entry, _ in group]
    endings = train_together(
        [config for _, config in group], lambda place, step, value: search.report(entries[place], step, value), stop
    )
    for entry, ending in zip(entries, endings, strict=True):
        if ending.value is None:
            search.prune(entry, ending.reason)
        else:
            search.complete(entry, ending.value)
        _say(entry, ending, progress)


def _say(entry: Asked, ending: Ending, progress: Progress) -> None:
    said = f"return {ending.value:.2f}" if ending.value is not None else ending.reason
    progress.note(f"trial {entry.number}: {said}")
