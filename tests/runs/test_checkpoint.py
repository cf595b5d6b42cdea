"""Checkpoints survive what really happens to files: kills, full disks, flipped bits, other networks."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from saved import restore, restore_latest

from pqn.errors import CheckpointError, DamagedCheckpoint
from pqn.runs import checkpoint, manifest, state_tree
from pqn.runs.leaves import Leaf
from pqn.runs.manifest import DATA, MANIFEST


class Net(NamedTuple):
    kernel: Any
    bias: Any


@flax.struct.dataclass
class State:
    params: Any
    opt: Any
    key: Any
    carry: Any = ()


def make_state(width: int = 8, seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    params = {
        "torso": {
            "Dense_0": {
                "bias": jnp.zeros(width),
                "kernel": jnp.asarray(rng.normal(size=(4, width)), jnp.float32),
            }
        }
    }
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.inject_hyperparams(optax.radam)(learning_rate=1e-3))
    return State(params, optimiser.init(params), jax.random.split(jax.random.key(seed), (2, 3)))


def as_bytes(leaf: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Everything that makes two arrays the same one: NaN payloads and the sign of zero included."""
    if state_tree.is_key(leaf):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.dtype.name, array.shape, array.tobytes()


def assert_same(left: Any, right: Any) -> None:
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert as_bytes(a) == as_bytes(b)


# ------------------------------------------------------------------------------------------------------- round trip


def test_full_training_state_comes_back_to_the_bit(tmp_path: Path) -> None:
    state = make_state()
    path = checkpoint.save(tmp_path, state, 40, {"update": 5, "config": {"lr": 1e-3}, "best": np.float32(2)})
    assert path == tmp_path / "step-000000000040"
    assert sorted(p.name for p in path.iterdir()) == ["manifest.json", "state.safetensors"]
    restored, metadata = restore(path, state)
    assert_same(restored, state)
    assert metadata == {"step": 40, "update": 5, "config": {"lr": 1e-3}, "best": 2.0}
    assert checkpoint.read(path).metadata == metadata
    assert restored.key.dtype == state.key.dtype
    np.testing.assert_array_equal(jax.random.uniform(restored.key[1, 2]), jax.random.uniform(state.key[1, 2]))


def test_shapes_alone_are_enough_to_restore(tmp_path: Path) -> None:
    state = make_state()
    path = checkpoint.save(tmp_path, state, 1)
    restored, _ = restore(path, jax.eval_shape(lambda: state))
    assert_same(restored, state)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(restored))


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_prng_keys_keep_their_generator(tmp_path: Path, impl: str) -> None:
    key = jax.random.key(7, impl=impl)
    restored, _ = restore(checkpoint.save(tmp_path, {"key": key}, 0), {"key": key})
    assert str(jax.random.key_impl(restored["key"])) == impl
    np.testing.assert_array_equal(jax.random.bits(restored["key"], (5,)), jax.random.bits(key, (5,)))


def test_key_of_another_generator_is_refused(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, {"key": jax.random.key(7)}, 0)
    with pytest.raises(CheckpointError, match=r"key has dtype key<fry>, this run needs key<rbg>"):
        restore(path, {"key": jax.random.key(7, impl="rbg")})


def test_odd_leaves(tmp_path: Path) -> None:
    state = {
        "scalar": jnp.float32(-0.0),
        "nan": np.array([np.nan, np.inf, -np.inf, 5e-324]),
        "empty": jnp.zeros((0, 3), jnp.int8),
        "flag": np.array([True, False]),
        "half": jnp.arange(3, dtype=jnp.bfloat16),
        "eighth": jnp.arange(3, dtype=jnp.float8_e4m3fn),
        "nibble": np.arange(-3, 3).astype(ml_dtypes.int4),
        "wide": np.array([1 + 2j], np.complex128),
        "foreign": np.arange(4, dtype=">i4"),
        "strided": np.arange(12).reshape(3, 4).T[::2],
        "number": 3,
        "real": 0.1,
        "truth": True,
        "nothing": None,
        "structure": [(), (jnp.ones(1),), Net({}, [np.uint8(3)])],
        "a/b": jnp.ones(2),
        "a": {"b": jnp.zeros(2), "": jnp.ones(1)},
        "100%": jnp.ones(3),
        "__metadata__": jnp.ones(4),
        "ünï cødé": jnp.ones(5),
    }
    restored, _ = restore(checkpoint.save(tmp_path, state, 0), state)
    restored["foreign"] = restored["foreign"].astype(">i4")
    assert_same(restored, state)
    assert [type(restored[name]) for name in ("number", "real", "truth")] == [int, float, bool]
    assert isinstance(restored["nan"], np.ndarray) and isinstance(restored["half"], jax.Array)


@pytest.mark.parametrize("state", [(), None, {}, jnp.arange(3), [jnp.float32(1)]])
def test_small_trees(tmp_path: Path, state: Any) -> None:
    assert_same(restore(checkpoint.save(tmp_path, state, 0), state)[0], state)


DTYPES = ["bool", "int8", "uint8", "int32", "uint32", "int64", "float16", "float32", "float64", "bfloat16", "complex64"]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    size = int(np.prod(shape)) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    raw = np.frombuffer(data, np.uint8) & 1 if dtype.kind == "b" else np.frombuffer(data, np.uint8)
    return raw.view(dtype).reshape(shape) if size else np.zeros(shape, dtype)


def trees() -> st.SearchStrategy[Any]:
    keys = st.text(st.sampled_from("ab/%_.0é "), max_size=4)

    def grow(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(children, max_size=3)
        return (
            st.dictionaries(keys, children, max_size=3) | lists | lists.map(tuple) | st.builds(Net, children, children)
        )

    return st.recursive(arrays() | st.none() | st.integers(-9, 9), grow, max_leaves=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees(), step=st.integers(0, 10**12 - 1))
def test_any_tree_round_trips(tmp_path: Path, tree: Any, step: int) -> None:
    path = checkpoint.save(tmp_path, tree, step, {"update": step}, keep=1)
    restored, metadata = restore(path, tree)
    assert_same(restored, tree)
    assert metadata == {"step": step, "update": step}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_restored_arrays_own_their_memory() -> None:
    """JAX on a CPU adopts the memory of an aligned NumPy array; such a buffer could not be donated."""
    raw = np.zeros(4096 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    aligned = raw[start : start + 4096].view(np.float32)
    leaf = Leaf("x", aligned.shape, "float32")
    for like in (jnp.zeros(1024), jax.ShapeDtypeStruct((1024,), jnp.float32)):
        placed = state_tree.place(leaf, aligned, like)
        assert placed.unsafe_buffer_pointer() != aligned.ctypes.data


def test_names_are_readable_and_parameters_load_alone(tmp_path: Path) -> None:
    state = make_state()
    path = checkpoint.save(tmp_path, {"learner": state, "a/b": {"c": jnp.ones(1)}}, 0)
    names = [leaf["path"] for leaf in json.loads((path / "manifest.json").read_text())["leaves"]]
    assert "learner/params/torso/Dense_0/kernel" in names
    assert "a%2Fb/c" in names
    params = checkpoint.place(checkpoint.read(path), jax.eval_shape(lambda: {"params": state.params}), "learner/")
    assert_same(params["params"], jax.tree.map(np.asarray, state.params))


@pytest.mark.parametrize("leaf", ["text", np.array(["text"]), np.array([None]), 10**30])
def test_leaves_that_are_no_arrays_are_named(tmp_path: Path, leaf: Any) -> None:
    with pytest.raises(TypeError, match="but a/0 is"):
        checkpoint.save(tmp_path, {"a": [leaf]}, 0)
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------------------------- another network


def test_another_network_is_named_by_its_first_weight(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, make_state(width=256), 0)
    with pytest.raises(CheckpointError) as error:
        restore(path, make_state(width=64))
    assert str(error.value) == (
        "this checkpoint is from another network: params/torso/Dense_0/bias has shape (256,), this run needs (64,)"
    )
    state = make_state(width=256)
    narrow = State({"torso": {"Dense_0": {"bias": jnp.zeros(256), "kernel": jnp.zeros((4, 64))}}}, state.opt, state.key)
    with pytest.raises(CheckpointError) as error:
        restore(path, narrow)
    assert str(error.value).endswith("params/torso/Dense_0/kernel has shape (4, 256), this run needs (4, 64)")


def test_other_differences_are_named(tmp_path: Path) -> None:
    state = {"env": jnp.zeros((16, 4)), "params": {"w": jnp.zeros(3)}}
    path = checkpoint.save(tmp_path, state, 0)
    cases = [
        ({"params": {"w": jnp.zeros(3)}, "env": jnp.zeros((8, 4))}, "configuration or version of pqn: env has shape"),
        ({"env": state["env"], "params": {"w": jnp.zeros(3, jnp.bfloat16)}}, "w has dtype float32, .* needs bfloat16"),
        ({"env": state["env"], "params": {"w": jnp.zeros(3), "b": jnp.zeros(1)}}, "network: it has no params/b with"),
        ({"env": state["env"]}, r"network: it holds params/w with shape \(3,\) .* which this run does not have"),
        ({"env": jnp.zeros(1), "params": {"w": jnp.zeros(4)}}, "another network: params/w"),  # weights speak first
    ]
    for like, sentence in cases:
        with pytest.raises(CheckpointError, match=sentence):
            restore(path, like)


def test_a_mismatch_does_not_fall_back_to_an_older_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, make_state(width=8), 1)
    checkpoint.save(tmp_path, make_state(width=16), 2)
    with pytest.raises(CheckpointError, match="another network"):
        restore_latest(tmp_path, make_state(width=8))


# ------------------------------------------------------------------------------------------------------------ damage


def flip(file: Path, position: int, bit: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(data)


@pytest.mark.parametrize("eighth", range(9))
def test_every_flipped_bit_of_the_data_is_found(tmp_path: Path, eighth: int) -> None:
    state = make_state()
    path = checkpoint.save(tmp_path, state, 0)
    size = (path / DATA).stat().st_size
    flip(path / DATA, min(eighth * size // 8, size - 1), bit=eighth % 8)
    with pytest.raises(DamagedCheckpoint, match=r"step-000000000000 is damaged: the SHA-256 of state.safetensors"):
        restore(path, state)


def test_no_flipped_bit_of_the_manifest_changes_what_is_read(tmp_path: Path) -> None:
    """A flip may hit white space and do no harm; it must never be believed."""
    state = {"w": jnp.arange(3.0), "key": jax.random.key(0)}
    path = checkpoint.save(tmp_path, state, 12, {"update": 3})
    manifest = path / MANIFEST
    good, found = manifest.read_bytes(), 0
    for position in range(len(good)):
        flip(manifest, position, bit=position % 8)
        try:
            restored, metadata = restore(path, state)
        except DamagedCheckpoint as error:
            assert MANIFEST in str(error) and "\n" not in str(error)
            found += 1
        else:
            assert_same(restored, state)
            assert metadata == {"step": 12, "update": 3}
        manifest.write_bytes(good)
    assert found > len(good) // 2


@pytest.mark.parametrize("name", [DATA, MANIFEST])
@pytest.mark.parametrize("part", [0, 1, 7, 8, 9, 0.25, 0.5, 0.9, -1])
def test_truncated_files_are_found(tmp_path: Path, name: str, part: float) -> None:
    state = make_state()
    path = checkpoint.save(tmp_path, state, 0)
    size = (path / name).stat().st_size
    length = int(size * part) if isinstance(part, float) else int(part) % (size + 1 if part >= 0 else size)
    if name == MANIFEST and part == -1:
        length -= 1  # the last byte is a newline, which nobody misses
    os.truncate(path / name, length)
    with pytest.raises(DamagedCheckpoint, match=name):
        restore(path, state)


@pytest.mark.parametrize("name", [DATA, MANIFEST])
def test_missing_files_are_found(tmp_path: Path, name: str) -> None:
    path = checkpoint.save(tmp_path, make_state(), 0)
    (path / name).unlink()
    with pytest.raises(DamagedCheckpoint, match=f"damaged: {name} is missing"):
        restore(path, make_state())


def test_files_of_two_checkpoints_do_not_mix(tmp_path: Path) -> None:
    first, second = (checkpoint.save(tmp_path, make_state(seed=seed), seed) for seed in (1, 2))
    shutil.copy(first / DATA, second / DATA)
    with pytest.raises(DamagedCheckpoint, match="SHA-256"):
        restore(second, make_state())


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"\xff\xfe", b'{"manifest_sha256": 3}', b"\0" * 100])
def test_manifests_that_are_none(tmp_path: Path, content: bytes) -> None:
    path = checkpoint.save(tmp_path, make_state(), 0)
    (path / MANIFEST).write_bytes(content)
    with pytest.raises(DamagedCheckpoint, match=MANIFEST):
        restore(path, make_state())


def test_a_newer_format_is_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "FORMAT_VERSION", 99)
        path = checkpoint.save(tmp_path, make_state(), 0)
    with pytest.raises(CheckpointError, match=r"has format version 99, .* reads version 1") as error:
        restore_latest(tmp_path, make_state())
    assert not isinstance(error.value, DamagedCheckpoint)
    assert path.exists()


def test_no_such_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        restore(tmp_path / "step-000000000009", make_state())


# ------------------------------------------------------------------------------------------------------------ latest


def test_the_previous_one_is_used_and_said_so_when_the_newest_is_torn(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, {"x": jnp.full(3, step)}, step)
    os.truncate(tmp_path / "step-000000000003" / DATA, 20)
    (tmp_path / "step-000000000002" / MANIFEST).unlink()
    said: list[str] = []
    state, metadata = restore_latest(tmp_path, {"x": jnp.zeros(3, jnp.int32)}, warn=said.append)
    assert metadata["step"] == 1 and int(state["x"][0]) == 1
    assert checkpoint.latest(tmp_path) == tmp_path / "step-000000000001"
    assert len(said) == 2
    assert "step-000000000003 is damaged" in said[0] and said[0].endswith("using the previous one")


def test_nothing_to_restore(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "absent") is None
    with pytest.raises(checkpoint.NoCheckpoint, match="there is no checkpoint in"):
        restore_latest(tmp_path, ())
    path = checkpoint.save(tmp_path, {"x": jnp.ones(1)}, 1)
    flip(path / DATA, 5, 0)
    said: list[str] = []
    with pytest.raises(checkpoint.NoCheckpoint, match="no intact checkpoint"):
        restore_latest(tmp_path, {"x": jnp.ones(1)}, warn=said.append)
    assert said[0].endswith("there is no older one")
    assert checkpoint.latest(tmp_path) is None


def test_only_the_last_k_are_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for step in range(0, 60, 10):
        checkpoint.save(tmp_path, {"x": jnp.ones(1)}, step, keep=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "notes.txt", "step-000000000030", "step-000000000040", "step-000000000050",
    ]  # fmt: skip


def test_a_resumed_run_replaces_the_future_it_abandoned(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        checkpoint.save(tmp_path, {"x": jnp.full(2, step)}, step)
    flip(tmp_path / "step-000000000030" / DATA, -1, 0)
    # resumed at 20, the run saves at other moments than before
    checkpoint.save(tmp_path, {"x": jnp.full(2, 25)}, 25, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000000020", "step-000000000025"]
    # or at the very same
    checkpoint.save(tmp_path, {"x": jnp.full(2, -25)}, 25, keep=2)
    state, _ = restore_latest(tmp_path, {"x": jnp.zeros(2, jnp.int32)})
    assert int(state["x"][0]) == -25
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000000020", "step-000000000025"]


def test_a_checkpoint_being_replaced_is_never_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    like = {"x": jnp.zeros(2, jnp.int32)}
    path = checkpoint.save(tmp_path, {"x": jnp.full(2, 1)}, 5)

    class Killed(BaseException):
        pass

    rename = Path.rename

    def dies(self: Path, target: Path) -> Path:
        if target == path:  # the old one has been moved away, the new one not yet moved in
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "rename", dies)
        checkpoint.save(tmp_path, {"x": jnp.full(2, 2)}, 5)
    assert int(restore_latest(tmp_path, like)[0]["x"][0]) == 1
    for value in (3, 4):
        checkpoint.save(tmp_path, {"x": jnp.full(2, value)}, 5, keep=3)
        assert int(restore_latest(tmp_path, like)[0]["x"][0]) == value
        assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(("step", "keep"), [(-1, None), (10**12, None), (0, 0)])
def test_senseless_arguments(tmp_path: Path, step: int, keep: int | None) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        checkpoint.save(tmp_path, (), step, keep=keep)


# ------------------------------------------------------------------------------------------------- disks and killers


@pytest.mark.parametrize("failing", ["write", "fsync", "mkdir", "rename"])
def test_a_full_disk_keeps_the_older_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    state = make_state()
    old = checkpoint.save(tmp_path, state, 1)

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(CheckpointError, match=r"step-000000000002 .*the disk is full"):
        if failing == "write":
            patch.setattr(checkpoint, "_write", full)
        elif failing == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(Path, failing, full)
        checkpoint.save(tmp_path, make_state(seed=1), 2, keep=1)
    assert [p.name for p in tmp_path.iterdir()] == [old.name]
    assert_same(restore_latest(tmp_path, state)[0], state)


def test_a_really_full_disk(tmp_path: Path) -> None:
    """A tmpfs of 256 kB, where the test may mount one."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting needs privileges")
    try:
        small, big = {"x": jnp.ones(1000)}, {"x": jnp.ones(100_000)}
        checkpoint.save(tmp_path, small, 1)
        with pytest.raises(CheckpointError, match=r"\(400 kB\): the disk is full"):
            checkpoint.save(tmp_path, big, 2, keep=1)
        assert_same(restore_latest(tmp_path, small)[0], small)
        checkpoint.save(tmp_path, small, 3, keep=1)  # nothing of the failure takes up room
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_an_unwritable_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write the checkpoint"):
        checkpoint.save(tmp_path / "file" / "checkpoints", (), 0)
    if os.geteuid() != 0:  # root may write anywhere
        tmp_path.chmod(0o500)
        with pytest.raises(CheckpointError, match="permission denied"):
            checkpoint.save(tmp_path, (), 0)
        tmp_path.chmod(0o700)
    else:
        with pytest.raises(CheckpointError, match="cannot write the checkpoint"):
            checkpoint.save("/proc/pqn", (), 0)


SAVER = textwrap.dedent("""
    import sys
    import numpy as np
    from pqn.runs import checkpoint
    step = 0
    while True:
        step += 1
        # Every number of the state is the step, so a mixture of two checkpoints would show.
        state = {"a": np.full(40_000, step), "b": {"c": np.full((300, 100), step, np.int32)}}
        checkpoint.save(sys.argv[1], state, step, {"update": step}, keep=2)
        print(step, flush=True)
""")


def test_kill_9_while_saving_never_loses_a_checkpoint(tmp_path: Path) -> None:
    """Ten kills at random moments of a process that does nothing but save."""
    rng = random.Random(0)
    like = {"a": np.zeros(40_000, np.int64), "b": {"c": np.zeros((300, 100), np.int32)}}
    torn = 0
    parent = subprocess.Popen(
        [sys.executable, "-c", FORKER.format(saver=SAVER), str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(),
    )  # fmt: skip
    assert parent.stdin and parent.stdout
    for _ in range(10):
        parent.stdin.write(f"{0.02 + rng.random() * 0.05}\n")
        parent.stdin.flush()
        reported = int(parent.stdout.readline())  # the last step whose save returned
        said: list[str] = []
        state, metadata = restore_latest(tmp_path, like, warn=said.append)
        assert said == []  # a kill leaves no damaged checkpoint, only a temporary directory
        assert metadata["step"] >= reported > 0
        assert all((leaf == metadata["step"]).all() for leaf in jax.tree.leaves(state))
        torn += any(p.name.startswith(".tmp-") for p in tmp_path.iterdir())
        checkpoint.save(tmp_path, state, metadata["step"] + 1, keep=2)
        assert not any(p.name.startswith(".tmp-") for p in tmp_path.iterdir())
        shutil.rmtree(tmp_path)
    parent.stdin.close()
    assert parent.wait(10) == 0
    assert torn > 0  # otherwise no kill came in the middle of a save, and the test showed nothing


# Starting Python and JAX takes a second, so one process forks the victims.
FORKER = textwrap.dedent("""
    import os, signal, sys, time
    import numpy as np
    from pqn.runs import checkpoint
    for line in sys.stdin:
        out, feed = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(feed, 1)
            exec({saver!r})
        os.close(feed)
        started = os.read(out, 1 << 16)
        time.sleep(float(line))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while chunk := os.read(out, 1 << 16):
            started += chunk
        os.close(out)
        print(started.split()[-1].decode(), flush=True)
""")


def _environment() -> dict[str, str]:
    source = str(Path(checkpoint.__file__).parents[2])
    return os.environ | {"PYTHONPATH": source, "JAX_PLATFORMS": "cpu"}
