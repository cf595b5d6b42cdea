"""Runs that older versions of pqn wrote: they load, are evaluated, and go on to the state they had then.

tests/data has them as those versions wrote them, with the checkpoint before the last and the last.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostenvs import Savable
from opening import Listening, copy_of

import pqn
from pqn.envs.probe import Counter
from pqn.errors import CheckpointError
from pqn.play import evaluate_run
from pqn.runs import checkpoint, migrations
from pqn.runs.leaves import Contents, Leaf

DATA = Path(__file__).parents[1] / "data"


def simulators(num_envs: int) -> Savable:
    return Savable(Counter(), num_envs)


# Name of the run, the environment to give again, environment steps, the last update.
RUNS = [
    ("run-96e9915", None, 128, 8),  # without identities, ids and totals
    ("run-0e7f976-team", None, 96, 6),  # two agents, a GRU, burn-in, batch norms, Adam
    ("run-0e7f976-simulators", simulators, 96, 6),  # with greedy environments; its simulators can be saved
]


@pytest.mark.parametrize(("name", "env", "steps", "last"), RUNS)
def test_it_loads_and_is_evaluated(name, env, steps, last, tmp_path):
    run = copy_of(DATA / name, tmp_path)
    assert pqn.load(run, seed=1).step == steps
    assert evaluate_run(run, 2, env=env, warn=lambda text: None)["step"] == steps


@pytest.mark.parametrize(("name", "env", "steps", "last"), RUNS)
def test_it_goes_on_to_the_state_it_had_then(name, env, steps, last, tmp_path):
    run = copy_of(DATA / name, tmp_path)
    ended = Path("checkpoints") / f"step-{last:012d}"
    shutil.rmtree(run / ended)
    (run / "summary.json").unlink()
    listening = Listening()
    pqn.resume(run, env=env, progress=listening)
    assert not any("are lost" in line for line in listening.said)
    now, then = checkpoint.read(run / ended), migrations.present(checkpoint.read(DATA / name / ended))
    assert {n: leaf[:3] for n, leaf in now.leaves.items()} == {n: leaf[:3] for n, leaf in then.leaves.items()}
    for leaf, array in now.arrays.items():  # equal to the bit on the machine that wrote it; another processor may round
        np.testing.assert_allclose(array, then.arrays[leaf], rtol=1e-4, atol=1e-5, err_msg=leaf)
    assert pqn.load(run).step == steps


# ------------------------------------------------------------------------------------------------ the optimiser's state

SHAPES = {  # of parameters of two seeds, in the order of the tree; those with 2**17 numbers a seed or more are large
    "head/bias": (2, 3),
    "torso/Dense_0/kernel": (2, 2**9, 2**8),
    "torso/Dense_1/bias": (2, 5),
    "torso/Dense_1/kernel": (2, 2**8, 2**9 - 1),
    "torso/Dense_2/kernel": (2, 2**10, 2**8),
}


def contents_of(arrays: dict[str, np.ndarray]) -> Contents:
    leaves = {name: Leaf(name, array.shape, array.dtype.name) for name, array in arrays.items()}
    return Contents(Path("step"), leaves, arrays, {})


def packed(moment: dict[str, np.ndarray]) -> list[np.ndarray]:
    """As those versions packed it."""
    small = [array.reshape(2, -1) for array in moment.values() if array[0].size < 2**17]
    return [*([np.concatenate(small, axis=-1)] if small else []), *(a for a in moment.values() if a[0].size >= 2**17)]


def old_and_new(shapes: dict[str, tuple[int, ...]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same state in the old layout and in the new one."""
    rng = np.random.default_rng(0)
    mu, nu, params = ({n: rng.random(s, np.float32) for n, s in shapes.items()} for _ in range(3))
    common = {f"learner/params/{name}": array for name, array in params.items()}
    common |= {"learner/opt/count": np.zeros(2, np.int32)}
    after = {"learner/updates": np.zeros(2, np.int32), "key": np.zeros((2, 2), np.uint32)}
    old = {f"learner/opt/{m}/{i}": a for m, tree in (("mu", mu), ("nu", nu)) for i, a in enumerate(packed(tree))}
    new = {f"learner/opt/{m}/{name}": a for m, tree in (("mu", mu), ("nu", nu)) for name, a in tree.items()}
    return common | old | after, common | new | after


ONLY_LARGE = {"a": (2, 2**9, 2**8), "b": (2, 2**17)}
ONLY_SMALL = {"a": (2, 3), "b": (2,), "c": (2, 4, 0)}


@pytest.mark.parametrize("shapes", [SHAPES, ONLY_LARGE, ONLY_SMALL])
def test_numbers_become_names(shapes):
    old, new = old_and_new(shapes)
    found = migrations.present(contents_of(old))
    assert list(found.leaves) == list(found.arrays) == list(new)
    for name, array in new.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
        assert found.leaves[name] == Leaf(name, array.shape, array.dtype.name)


def test_parts_of_runs_with_simulators_have_new_names():
    old = ["key", "stream/seen/0/obs", "stream/seen/10/first", "stream/window/obs", "beside/ret", "envs/0/beside"]
    new = [
        "key",
        "stream/observed/0/obs",
        "stream/observed/10/first",
        "stream/window/obs",
        "greedy/ret",
        "envs/0/beside",
    ]
    arrays = {name: np.full(2, number, np.float32) for number, name in enumerate(old)}
    found = migrations.present(contents_of(arrays))
    assert list(found.leaves) == list(found.arrays) == [leaf.name for leaf in found.leaves.values()] == new
    for before, after in zip(old, new, strict=True):
        np.testing.assert_array_equal(found.arrays[after], arrays[before])


def test_the_present_layout_is_left_alone():
    _, new = old_and_new(SHAPES)
    contents = contents_of(new)
    assert migrations.present(contents) is contents


WRONG = {
    "a number too few": lambda old: old.update({"learner/opt/mu/0": old["learner/opt/mu/0"][:, 1:]}),
    "an array too few": lambda old: old.pop("learner/opt/nu/2"),
    "an array too many": lambda old: old.update({"learner/opt/mu/3": old["learner/opt/mu/1"]}),
    "a gap": lambda old: old.update({"learner/opt/mu/7": old.pop("learner/opt/mu/1")}),
    "another shape": lambda old: old.update({"learner/opt/nu/1": old["learner/opt/nu/1"][:, 1:]}),
    "another dtype": lambda old: old.update({"learner/opt/nu/1": old["learner/opt/nu/1"].astype(np.float64)}),
    "no axis": lambda old: old.update({"learner/opt/mu/0": np.zeros((), np.float32)}),
    "no parameters": lambda old: [old.pop(name) for name in list(old) if "params" in name],
}


@pytest.mark.parametrize("change", WRONG)
def test_what_cannot_be_resumed_says_why(change):
    old, _ = old_and_new(SHAPES)
    WRONG[change](old)
    with pytest.raises(CheckpointError, match=r"cannot be resumed: .* the arrays of learner/opt/(mu|nu) do not have"):
        migrations.present(contents_of(old))


def test_maps_of_craftax_become_as_narrow_as_they_are_now():
    names = {"stream/env/inner/map": np.int32, "stream/env/spare/states/item_map": np.int32}
    others = {"stream/env/inner/light_map": np.float32, "stream/env/inner/mob_map": bool}
    arrays = {
        name: (np.arange(2 * 9 * 48 * 48) % 40).reshape(2, 9, 48, 48).astype(kind) for name, kind in names.items()
    }
    arrays |= {name: np.ones((2, 9, 48, 48), kind) for name, kind in others.items()}
    arrays["stream/env/map"] = np.zeros((2, 64, 64), np.int32)  # Classic has one floor and keeps its map
    leaves = {name: Leaf(name, array.shape, array.dtype.name) for name, array in arrays.items()}
    now = migrations.present(Contents(Path("x"), leaves, arrays, {}))
    assert list(now.leaves) == list(leaves)
    for name, array in arrays.items():
        wanted = np.uint8 if name in names else array.dtype
        assert now.arrays[name].dtype == wanted and now.leaves[name].dtype == np.dtype(wanted).name
        np.testing.assert_array_equal(now.arrays[name], array)
    assert migrations.present(now) == now
