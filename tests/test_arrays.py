"""Helpers on axes."""

import jax
import jax.numpy as jnp
import numpy as np

from pqn.arrays import at_once
from pqn.programs.episodes import Finished


def test_at_once_reduces_each_leaf_by_itself():
    tree = {"a": jnp.array([1.0, 2.0, 3.0]), "b": (jnp.array([10.0, 20.0, 60.0]), None)}
    mean = at_once(lambda rows: jnp.mean(rows, axis=1), tree)
    assert jax.tree.map(float, mean) == {"a": 2.0, "b": (30.0, None)}


def test_sums_over_environments_are_one_operation_however_many_infos_there_are():
    names = [f"info{i}" for i in range(7)]
    rng = np.random.default_rng(0)

    def numbers():
        return jnp.asarray(rng.integers(0, 9, 5), jnp.float32)

    finished = Finished(numbers(), numbers(), numbers(), {name: numbers() for name in names})
    total = finished.over_environments()
    assert float(total.ret) == float(finished.ret.sum())
    assert {name: float(total.info[name]) for name in names} == {n: float(finished.info[n].sum()) for n in names}
    operations = [str(eqn.primitive) for eqn in jax.make_jaxpr(Finished.over_environments)(finished).eqns]
    assert operations.count("reduce_sum") == 1
