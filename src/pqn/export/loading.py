"""`load_exported`: an agent from exported parameters, without its run."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import safetensors
import safetensors.numpy

from pqn.agent import Agent
from pqn.algorithms import make_algorithm
from pqn.errors import CheckpointError, RunError
from pqn.export.run import DESCRIPTION
from pqn.networks import given
from pqn.options import OWN_NETWORK
from pqn.runs import files
from pqn.runs.configs import read_config
from pqn.runs.identity import spec_from_dict
from pqn.runs.state_tree import name_of

MOST_BYTES = 2**34  # of parameters


def load_exported(folder: str | os.PathLike[str], network: object = None) -> Agent:
    """The agent of `pqn export --format safetensors`. Like a run, a folder is data: nothing in it is executed.

    Args:
      folder: what was exported.
      network: the network, where the agent was trained with one of your own; see `pqn.train`.

    Raises:
      RunError: a file is missing or damaged, or the network must be given.
      CheckpointError: the parameters are those of another network.
    """
    description, parameters = Path(folder) / DESCRIPTION, Path(folder) / "agent.safetensors"
    data = files.read_json(description)
    try:
        if not isinstance(data, dict):
            raise ValueError("it is not an object")
        config, spec = read_config(data.get("config"), str(description)), spec_from_dict(data.get("spec"))
        step = data.get("step")
        arrays = safetensors.numpy.load(files.read_bytes(parameters, MOST_BYTES))
    except FileNotFoundError as error:
        raise RunError(f"{folder} has no agent.safetensors: export with --format safetensors") from error
    except (ValueError, safetensors.SafetensorError) as error:
        raise RunError(f"{folder} is no exported agent: {error}") from error
    if network is None and config.network.module != OWN_NETWORK:
        raise RunError(f"{folder} is an agent with a network of the user ({config.network.module}): give network=…")
    actor = make_algorithm(given.of_run(config, network, "pqn eval RUN"), spec).actor
    like = jax.eval_shape(actor.init, jax.random.key(0))
    entries, structure = jax.tree_util.tree_flatten_with_path(like)
    wanted = {name_of(path): leaf for path, leaf in entries}
    same = wanted.keys() == arrays.keys() and all(
        arrays[name].shape == leaf.shape and arrays[name].dtype == leaf.dtype for name, leaf in wanted.items()
    )
    if not same:
        raise CheckpointError(f"{parameters} and {description} are not of the same network")
    policy = jax.tree_util.tree_unflatten(structure, [jnp.asarray(arrays[name]) for name in wanted])
    return Agent(actor, policy, step if isinstance(step, int) else 0)
