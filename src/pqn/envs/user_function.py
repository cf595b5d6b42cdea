"""Code of the user, named "module:function": importing the module, finding the function, calling it."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping

from pqn.errors import EnvError


def call(name: str, num_envs: int, kwargs: Mapping[str, object], unknown: str) -> object:
    """What the function "module:function" returns.

    Args:
      name: "module:function"; the current directory is on the path.
      num_envs: given to the function if it has a parameter of this name.
      kwargs: options of the function.
      unknown: the end of the sentence for a module that does not exist.

    Raises:
      EnvError: the module or the function does not exist, does not take the options, or raises.
    """
    function = find(name, "environment", "make_env", unknown)
    arguments = dict(kwargs)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some callables written in C have none
        signature = None
    if signature is not None:
        if "num_envs" in signature.parameters:
            arguments["num_envs"] = num_envs
        try:
            signature.bind(**arguments)
        except TypeError as error:
            takes = ", ".join(p for p in signature.parameters if p != "num_envs") or "none"
            raise EnvError(f"{name} cannot be called with these options: {error}; its options are: {takes}.") from error
    try:
        return function(**arguments)
    except Exception as error:
        raise EnvError(f"{name} raised {in_one_line(error)}") from error


def in_one_line(error: Exception) -> str:
    """The error of the user's code in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    message = str(error).strip().splitlines()
    return f"{type(error).__name__}: {message[0] if message else 'no message'}{where}"


def find(name: str, what: str, example: str, unknown: str = "") -> Callable[..., object]:
    """The function that "module:function" names; the current directory is on the path.

    Args:
      name: of the function.
      what: it makes, for the sentence about a name that is none.
      example: of a function's name.
      unknown: the end of the sentence for a module that does not exist.

    Raises:
      EnvError: the module or the function does not exist.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise EnvError(f"{name!r} names no {what}; write module:function, as in my_module:{example}.")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does. It stays there: the module may import its neighbours later
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            more = f", {unknown}" if unknown else "."
            raise EnvError(
                f"There is no module {error.name!r} for {name!r}, in this directory or installed{more}"
            ) from error
        raise EnvError(f"The module {module_name} needs {error.name!r}, which is not installed.") from error
    except Exception as error:
        raise EnvError(f"The module {module_name} could not be imported: {in_one_line(error)}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        close = difflib.get_close_matches(function_name, names, n=1)
        hint = f", did you mean {close[0]}?" if close else "."
        what = "is not a function" if hasattr(module, function_name) else "does not exist"
        raise EnvError(f"{function_name} {what} in the module {module_name}{hint}")
    return function
