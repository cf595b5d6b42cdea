"""What identifies a run, in its environment.json and in each of its checkpoints: id, environment, network, origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pqn.options import OWN_NETWORK
from pqn.runs.identity import EnvIdentity

if TYPE_CHECKING:
    from pqn.algorithms.base import Actor


class About(NamedTuple):
    """What identifies a run."""

    run: str | None  # None: the run is older than this
    env: EnvIdentity
    network: dict[str, object] | None = None  # see `network_identity`
    origin: dict[str, object] | None = None  # the run whose weights it started from

    def to_dict(self) -> dict[str, object]:
        return {"run": self.run, "env": self.env.to_dict(), "network": self.network, "init_from": self.origin}


def network_identity(actor: Actor) -> dict[str, object] | None:
    """Name, class and shapes of the parameters of a user's network; None for one that the configuration describes."""
    name = actor.config.network.module
    if name == OWN_NETWORK:
        return None
    import jax

    from pqn.networks.given import make_network
    from pqn.runs.state_tree import name_of

    params = jax.eval_shape(actor.init, jax.random.key(0)).params
    shapes = {name_of(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
    made = type(make_network(actor.config, actor.spec))
    return {"name": str(name), "made": f"{made.__module__}.{made.__qualname__}", "parameters": shapes}
