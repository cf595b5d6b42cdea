"""What environment was this? Recorded with every run and every checkpoint, compared wherever one is used again.

An identity says how the environment was named, of which class it was, what it looked like to the learner (`EnvSpec`)
and in which versions the packages behind it were. It is plain data: making an environment of it is `envs.source`'s.

This module imports jax only where a spec is made.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pqn.envs import registry

if TYPE_CHECKING:
    from pqn.envs.source import EnvSource
    from pqn.types import EnvSpec

# What a network is built for: an agent cannot play where one of these differs.
STRUCTURE = ("num_agents", "num_actions", "obs_shape", "obs_dtype", "world_size", "masked")
_WORDS = {
    "name": "name",
    "obs_shape": "observation shape",
    "obs_dtype": "observation dtype",
    "num_actions": "number of actions",
    "num_agents": "number of agents",
    "max_episode_steps": "longest episode",
    "truncates": "promise to cut episodes",
    "world_size": "size of the global state",
    "masked": "mask of legal actions",
}
MOST_NUMBERS = 2**31  # of an observation or a global state
MOST_ACTIONS = 2**20  # also agents


@dataclasses.dataclass(frozen=True)
class EnvIdentity:
    """The environment of a run, as its files record it."""

    kind: str
    name: str
    made: str
    """The class of the environments, as module.name."""
    kwargs: dict[str, object]
    versions: dict[str, str | None]
    """Of the packages behind it: distribution -> version."""
    spec: dict[str, object]

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(data: object) -> EnvIdentity:
        """Inverse of `to_dict`, also after a trip through JSON.

        Raises:
          ValueError: with the rest of a sentence.
        """
        kinds = {"kind": str, "name": str, "made": str, "kwargs": dict, "versions": dict, "spec": dict}
        if not isinstance(data, dict) or not all(isinstance(data.get(key), kind) for key, kind in kinds.items()):
            raise ValueError("it does not describe an environment")
        texts = [data["kind"], data["name"], data["made"], *data["versions"], *data["versions"].values()]
        if not all(text is None or (isinstance(text, str) and text.isprintable()) for text in texts):
            raise ValueError("it does not describe an environment")
        kind, name = data["kind"], data["name"]
        in_python = name.startswith(f"{registry.GIVEN_IN_PYTHON}:")
        if kind not in (["python"] if in_python else ["registered", "function"] if ":" in name else ["registered"]):
            raise ValueError(f"it calls {name} a {kind}")
        return EnvIdentity(**{key: data[key] for key in kinds})


def identify(source: EnvSource, spec: EnvSpec) -> EnvIdentity:
    """The identity of environments that were made."""
    made = source.made
    name = "" if made is None else f"{made.__module__}.{made.__qualname__}"
    registered = source.kind == "registered"
    behind = registry.packages(source.name, source.kwargs) if registered else _distributions_of(made)
    return EnvIdentity(source.kind, source.name, name, source.kwargs, versions_of(behind), spec_to_dict(spec))


def versions_of(distributions: tuple[str, ...]) -> dict[str, str | None]:
    """The installed versions of distributions; None for those that are not."""
    return {name: version(name) for name in distributions}


def version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def version_changes(recorded: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    """ "gymnax 1.0.1 → 1.0.2" for each package that both know and that is another."""
    changed = [name for name in sorted(recorded.keys() & now.keys()) if recorded[name] != now[name]]
    return [f"{name} {recorded[name] or 'none'} → {now[name] or 'none'}" for name in changed]


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _distributions_of(made: type | None) -> tuple[str, ...]:
    """The installed distributions that bring the module of a class; none for a file of the user's own."""
    return () if made is None else tuple(sorted(set(_owners().get(made.__module__.partition(".")[0], ()))))


# ------------------------------------------------------------------------------------------------------------ specs


def spec_difference(have: EnvSpec, want: EnvSpec, fields: tuple[str, ...] | None = None) -> str | None:
    """ "its number of actions is 3, the run's is 2", or None where all `fields` (by default all there are) agree."""
    for field in fields or tuple(_WORDS):
        ours, theirs = getattr(have, field), getattr(want, field)
        if ours != theirs:
            return f"its {_WORDS[field]} is {_shown(ours)}, the run's is {_shown(theirs)}"
    return None


def spec_to_dict(spec: EnvSpec) -> dict[str, object]:
    import numpy as np

    return {**dataclasses.asdict(spec), "obs_dtype": str(np.dtype(spec.obs_dtype))}


def spec_from_dict(data: object) -> EnvSpec:
    """Inverse of `spec_to_dict`, believing nothing.

    Raises:
      ValueError: with the rest of a sentence.
    """
    import numpy as np

    from pqn.types import EnvSpec

    fields = {field.name: field for field in dataclasses.fields(EnvSpec)}
    required = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if not isinstance(data, dict) or not required <= data.keys() <= fields.keys():
        raise ValueError("it does not describe what the environment looks like")
    spec = {name: data.get(name, field.default) for name, field in fields.items()}
    shape, limit = spec["obs_shape"], spec["max_episode_steps"]
    sound = (
        isinstance(spec["name"], str)
        and spec["name"].isprintable()
        and isinstance(shape, list | tuple)
        and all(_within(size, 1, MOST_NUMBERS) for size in shape)
        and functools.reduce(lambda a, b: a * b, shape, 1) <= MOST_NUMBERS
        and spec["obs_dtype"] in _DTYPES
        and _within(spec["num_actions"], 1, MOST_ACTIONS)
        and _within(spec["num_agents"], 1, MOST_ACTIONS)
        and (limit is None or _within(limit, 1, 2**62))
        and _within(spec["world_size"], 0, MOST_NUMBERS)
        and isinstance(spec["truncates"], bool)
        and isinstance(spec["masked"], bool)
    )
    if not sound:
        raise ValueError("it does not describe what the environment looks like")
    return EnvSpec(**spec | {"obs_shape": tuple(shape), "obs_dtype": np.dtype(spec["obs_dtype"])})


_DTYPES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)


def _within(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _shown(value: object) -> str:
    return {None: "none", True: "on", False: "off"}[value] if value is None or isinstance(value, bool) else str(value)
