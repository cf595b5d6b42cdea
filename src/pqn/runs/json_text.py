"""JSON, written and read strictly: the one rule for every file and every `--json` output.

What is written is valid for any reader: JSON has no NaN and no infinity, so they become null. What is read is data of
unknown origin: it may not be deeper or hold larger numbers than any of our own files. This module never imports jax.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import NoReturn

MOST_DEPTH = 32  # of nested lists and objects; ours have six
MOST_NUMBER = {bool: 2, int: 2**63, float: math.inf}  # no counter, seed or size of ours can reach these


def to_json(obj: object, indent: int | None = None) -> str:
    """Strictly valid JSON.

    NumPy and JAX arrays and scalars become lists and numbers; NaN and ±infinity become null.

    Raises:
        TypeError: an object has no JSON form.
    """
    return json.dumps(_plain(obj), indent=indent, allow_nan=False)


def _plain(obj: object) -> object:
    if obj is None or isinstance(obj, str | bool):
        return obj
    if isinstance(obj, int):
        return int(obj)
    if isinstance(obj, float):
        return float(obj) if math.isfinite(obj) else None
    if isinstance(obj, Mapping):
        return {str(key): _plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_plain(value) for value in obj]
    if isinstance(obj, os.PathLike):
        return os.fspath(obj)
    to_list = getattr(obj, "tolist", None)  # numpy and jax alike; asking for the method keeps jax out of this module
    if to_list is not None:
        return _plain(to_list())
    raise TypeError(f"a {type(obj).__name__} cannot be written as JSON")


def parse_json(data: bytes) -> object:
    """Strict JSON: no NaN, no infinity, no number out of range, no name twice, not deeper than we ever nest.

    Raises:
        ValueError: with the rest of a sentence.
    """
    try:
        content = json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except _Refused:
        raise
    except ValueError as error:
        raise ValueError("it is not valid JSON") from error
    _check_values(content)
    return content


class _Refused(ValueError):
    """JSON, but not ours."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _Refused("a name occurs twice in it")
    return content


def _no_constant(word: str) -> NoReturn:
    raise _Refused(f"it holds the number {word}")


def _check_values(content: object) -> None:
    """Breadth first and not recursive: the depth is what is in doubt."""
    level, depth = [content], 0
    while level:
        if depth > MOST_DEPTH:
            raise _Refused("it is nested too deeply")
        deeper: list[object] = []
        for value in level:
            if isinstance(value, dict):
                deeper.extend(value.values())
            elif isinstance(value, list):
                deeper.extend(value)
            elif isinstance(value, int | float) and not abs(value) < MOST_NUMBER[type(value)]:
                raise _Refused("it holds a number beyond all bounds")
        level, depth = deeper, depth + 1
