"""The ℓ2 terms of regularised TD, and which parameters each of them is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
from jax.tree_util import keystr

from pqn.errors import ConfigError
from pqn.types import PyTree


class Regulariser(NamedTuple):
    """Coefficients of the ℓ2 terms subtracted from the update: δ_reg = δ − (final·w, inner·M)."""

    final: float
    inner: float


def theory_regulariser(eta: float, gamma: float, lipschitz: float = 1.0) -> Regulariser:
    """Eq. (regularised TD): η(γL/2)² on the final-layer weights w, η−1 on the inner weights M, η > 1."""
    if eta <= 1:
        raise ConfigError(f"eta is {eta}: the regularised update needs eta > 1, for example 1.01.")
    return Regulariser(final=eta * (gamma * lipschitz / 2) ** 2, inner=eta - 1)


def final_layer_mask(params: PyTree, names: Sequence[str]) -> PyTree:
    """True on every leaf whose path has a component in `names` (for example ("head",)), as a tree like `params`.

    Raises ConfigError when nothing or everything matches, and names the components there are.
    """
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    paths = [tuple(keystr((entry,), simple=True) for entry in path) for path, _ in leaves]
    hits = [any(part in names for part in path) for path in paths]
    if not any(hits) or all(hits):
        known = sorted({"/".join(path) for path in paths})
        some = "every parameter" if any(hits) else "no parameter"
        raise ConfigError(f"final layer {tuple(names)} matches {some}: name components of {', '.join(known)}.")
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(params), hits)
