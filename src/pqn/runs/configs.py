"""The configuration in a run's files: read without trusting it, and compared with another."""

from __future__ import annotations

from pqn.config import Config
from pqn.errors import PqnError, RunError
from pqn.fields import Options, hints
from pqn.runs import files
from pqn.runs.json_text import to_json

# Options that never change what a run learns. They may differ between a run's config.json and its checkpoints.
MAY_CHANGE = ("eval.", "log.", "save.", "simulators.cores", "simulators.greedy_envs")
HISTORY = "history"  # the name under which a configuration file also says how it was changed; see `history`
MOST_TEXT = 200  # characters of a name
_ALWAYS = {"preset", "total_steps", "seed", "seeds", "env", "network", "learner", "eval", "save"}  # since the first run

Differences = dict[str, tuple[object, object]]


def read_config(data: object, where: str) -> Config:
    """The configuration in a file of a run; `where` is how a sentence calls the file.

    Raises:
      RunError: it is none, or one that cannot be trained.
    """
    if not isinstance(data, dict) or not data.keys() >= _ALWAYS:
        raise RunError(f"{where} is not the configuration of a run: it is not complete")
    if not isinstance(data["env"], dict) or "name" not in data["env"]:
        raise RunError(f"{where} is not the configuration of a run: it is not complete")
    try:
        config = Config.from_dict({name: value for name, value in data.items() if name != HISTORY}).validate()
    except PqnError as error:
        raise RunError(f"{where} is not the configuration of a run: {files.shown(str(error))}") from error
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        raise RunError(f"{where} is not the configuration of a run") from error
    if not all(is_text(text) for text in (config.preset, config.env.name, *config.env.kwargs)):
        raise RunError(f"{where} is not the configuration of a run: preset, env.name or env.kwargs has no proper name")
    return config


def differences(ours: Config, theirs: Config) -> Differences:
    """Every option in which two configurations differ: name -> (ours, theirs)."""
    left, right = flat(ours), flat(theirs)
    return {name: (left[name], right[name]) for name in left if to_json(left[name]) != to_json(right[name])}


def describe(changed: Differences, ours: str = "config.json", theirs: str = "the checkpoint") -> str:
    """ "learner.lr is 0.1 in config.json and 0.001 in the checkpoint, …"."""
    return ", ".join(
        f"{name} is {to_json(a)[:60]} in {ours} and {to_json(b)[:60]} in {theirs}" for name, (a, b) in changed.items()
    )


def is_text(value: object) -> bool:
    """Whether it is a text that may stand in a sentence: printable and short."""
    return isinstance(value, str) and value.isprintable() and len(value) <= MOST_TEXT


def flat(options: Options) -> dict[str, object]:
    """The value of every option by its full name."""
    found: dict[str, object] = {}
    for name in hints(type(options)):
        value = getattr(options, name)
        found |= flat(value) if isinstance(value, Options) else {options.prefix + name: value}
    return found
