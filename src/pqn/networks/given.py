"""Networks of the user: a flax module, or a function that makes one, in the place of `QNetwork`.

It has the signature of `QNetwork`: `initial_carry(*batch)`, and `__call__(carry, inputs, train)` from sequences
[T, B, M, …] to the carry after them and Q-values [T, B, M, A]. A run records its name and its parameters' shapes. The
files of a run are data: a network that they name is never imported because of them. The user has to give it again.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from typing import Self, cast

import flax.linen as nn
import jax
import jax.numpy as jnp

from pqn.config import Config
from pqn.envs import user_function
from pqn.envs.registry import GIVEN_IN_PYTHON
from pqn.errors import ConfigError, EnvError
from pqn.fields import brief
from pqn.networks.qnetwork import QNetwork
from pqn.options import OWN_NETWORK
from pqn.types import EnvSpec, Inputs, PyTree

Build = Callable[[EnvSpec], nn.Module]


class NamedNetwork(str):
    """The name of a network, as `network.module` records it, together with the function that makes it.

    A name that comes from a file is a plain text: nothing can be made of it.
    """

    build: Build
    given: Build  # the same function, which makes a new network each time

    def __new__(cls, name: str, build: Build) -> Self:
        self = super().__new__(cls, name)
        self.build = functools.cache(build)  # one environment, one network
        self.given = build
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """For `pickle`: an agent takes its network along, if that is importable where it goes."""
        return type(self), (str(self), self.given)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def make_network(config: Config, spec: EnvSpec) -> QNetwork:
    """The network of a configuration for an environment: `QNetwork`, or one of the user's that has its signature.

    Raises:
      ConfigError: it is one of the user's, and was not given.
    """
    name = config.network.module
    if name == OWN_NETWORK:
        return QNetwork(config.network, spec.num_actions)
    if not isinstance(name, NamedNetwork):
        raise ConfigError(f"network.module is {name}, a network of your own; give it as network=… to pqn.train")
    return cast(QNetwork, name.build(spec))


def with_network(config: Config, network: object) -> Config:
    """The configuration with a network of the user: what `network=…` or the option `network.module` gives.

    Args:
      config: what is to be trained.
      network: a flax module, a function of an `EnvSpec` that makes one, or the name "module:function" of such a
        function; None for what the option says.

    Raises:
      ConfigError: it is none of these.
    """
    network = config.network.module if network is None else network
    if isinstance(network, NamedNetwork) or (isinstance(network, str) and network == OWN_NETWORK):
        return config
    return config.replace({"network.module": _named(network)})


def of_run(config: Config, network: object, command: str) -> Config:
    """The configuration of a run that was trained before, with its network.

    Args:
      config: from the run's files.
      network: what the user gave, or None.
      command: how to repeat the command, without its `--network`.

    Raises:
      ConfigError: the run's network must be given again, or it is not one of the user's own.
    """
    name = config.network.module
    if name == OWN_NETWORK:
        if network is not None:
            raise ConfigError("this run was trained with a network of pqn; leave out network")
        return config
    if network is None:
        again = "module:function" if name.startswith(f"{GIVEN_IN_PYTHON}:") else shlex.quote(name)
        raise ConfigError(
            f"this run was trained with a network of the user ({name}), which pqn makes only if you give it: network=… "
            f"in Python, or `{command} --network {again}`"
        )
    return config.replace({"network.module": NamedNetwork(name, _named(network).given)})


def _named(network: object) -> NamedNetwork:
    if isinstance(network, nn.Module):
        return NamedNetwork(f"{GIVEN_IN_PYTHON}:{_qualified(type(network))}", functools.partial(_same, network))
    if isinstance(network, str):
        name = network
        try:
            network = user_function.find(name, "network", "make_network")
        except EnvError as error:
            raise ConfigError(str(error)) from error
        return NamedNetwork(name, functools.partial(_call, network, name))
    if not callable(network):
        raise ConfigError(
            f"network is {brief(network)}; give a flax module, a function of the environment's EnvSpec that makes one, "
            "or its name as module:function"
        )
    return NamedNetwork(f"{GIVEN_IN_PYTHON}:{_qualified(network)}", functools.partial(_call, network, "network"))


def _same(network: nn.Module, spec: EnvSpec) -> nn.Module:
    return network


def _call(function: Callable[..., object], name: str, spec: EnvSpec) -> nn.Module:
    try:
        module = function(spec)
    except Exception as error:  # of the user's code
        raise ConfigError(f"{name} could not be made: {user_function.in_one_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise ConfigError(f"{name} returned {brief(module)}; it must return a flax module (flax.linen.Module)")
    return module


def _qualified(thing: object) -> str:
    while isinstance(thing, functools.partial):
        thing = thing.func
    kind = type(thing)
    return f"{getattr(thing, '__module__', kind.__module__)}.{getattr(thing, '__qualname__', kind.__qualname__)}"


# ------------------------------------------------------------------------------------------------------------- checks


def check_network(config: Config, spec: EnvSpec, inputs: Inputs) -> None:
    """Tries a network of the user on shapes alone; nothing is computed.

    Args:
      config: has the network.
      spec: of the environment.
      inputs: what it will read, [B, M, …].

    Raises:
      ConfigError: the first promise of the signature that it breaks.
    """
    network, name = make_network(config, spec), config.network.module
    if not callable(getattr(network, "initial_carry", None)):
        raise ConfigError(
            f"the network {name} has no method initial_carry(*batch); one without memory returns (), as in "
            "pqn.networks.qnetwork.QNetwork"
        )
    batch = inputs.first.shape
    two = jax.tree.map(lambda x: jnp.stack([x, x]), inputs)  # a sequence of two steps
    try:
        carry = jax.eval_shape(lambda: network.initial_carry(*batch))
        variables: PyTree = jax.eval_shape(network.init, jax.random.key(0), carry, two)
        returned = jax.eval_shape(
            lambda v, c, x: network.apply(v, c, x, train=True, mutable=["batch_stats"])[0], variables, carry, two
        )
    except Exception as error:  # flax, jax and Python each have their own word for what does not fit
        raise ConfigError(
            f"the network {name} cannot be called as network(carry, inputs, train) on observations of {spec.name}, of "
            f"shape {spec.obs_shape}: {user_function.in_one_line(error)}"
        ) from error
    strange = sorted(set(variables) - {"params", "batch_stats"})
    if strange or "mixer" in variables.get("params", {"mixer": ()}):
        what = f"variables of the kind {strange[0]}" if strange else "no parameters, or some that are called mixer"
        raise ConfigError(f"the network {name} has {what}; it may have params and batch_stats")
    _check_parameters(name, variables)
    after = _checked_output(name, returned, (2, *batch, spec.num_actions))
    if _form(after) != _form(carry):
        raise ConfigError(f"the network {name} returned a carry that differs in form from that of initial_carry")
    if jax.tree.leaves(carry) and not config.learner.segment_length:
        raise ConfigError(
            f"the network {name} has a memory; say over how many steps gradients flow: learner.segment_length, "
            f"{config.learner.rollout_steps} for the whole rollout"
        )


def _form(carry: PyTree) -> PyTree:
    leaves, structure = jax.tree.flatten(carry)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _check_parameters(name: str, variables: PyTree) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(variables):
        if leaf.dtype != jnp.float32:
            where = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ConfigError(
                f"the network {name} has parameters of type {leaf.dtype} ({where}); they must be float32. "
                "Layers may compute in another type: dtype=…, not param_dtype=…"
            )


def _checked_output(name: str, returned: object, wanted: tuple[int, ...]) -> PyTree:
    """The carry after two steps; `wanted` is the shape of the Q-values, [2, B, M, A]."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        what = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else "one thing"
        raise ConfigError(f"the network {name} returned {what}; it must return the carry and the Q-values")
    after, q = returned
    if getattr(q, "shape", None) != wanted or not jnp.issubdtype(q.dtype, jnp.floating):
        raise ConfigError(
            f"the network {name} returned Q-values of shape {getattr(q, 'shape', None)} for two steps of "
            f"{wanted[1:3]} agents; they must be numbers of the shape {wanted}"
        )
    if q.dtype != jnp.float32:
        raise ConfigError(
            f"the network {name} returned Q-values of type {q.dtype}; they must be float32, as .astype(jnp.float32) "
            "makes them"
        )
    return after
