"""A run directory is data: whatever stands in its files, nothing is executed, nothing hangs, every flaw is a sentence.

Several hundred spoiled runs, each a copy of one good run in which one thing was changed. Where a hash protects it, the
hash is computed anew, as an attacker would. Each is opened as evaluating (`load`), resuming and plotting open it. The
outcome must be a sentence, or the older checkpoint with a sentence that says so.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import build, tiny
from opening import Listening, WouldTrain, copy_of, would_train

import pqn
from pqn import training
from pqn.cli import plot
from pqn.cli.main import main
from pqn.errors import PqnError
from pqn.export.run import export_run
from pqn.runs import manifest
from pqn.runs.manifest import MANIFEST
from pqn.watch.film import make_film

SECONDS = 20  # a spoiled run that takes longer hangs; a tenth of a second is usual
NEWEST, OLDER = "step-000000000010", "step-000000000008"
CANARY = "canary_of_a_foreign_run"


# ------------------------------------------------------------------------------------------------------- the three ways


@pytest.fixture(scope="module")
def program() -> Any:
    """The real program of the run, which never compiles."""
    made = build(tiny(seeds=2))
    made.saved_shape()
    made.compile = would_train
    return made


@pytest.fixture
def run(tmp_path: Path, finished_run: Any, program: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy to spoil, on a system where a hang is an error and importing the canary leaves a trace."""
    path = copy_of(finished_run.run, tmp_path)
    (tmp_path / f"{CANARY}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\ndef make(**_): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(training.start, "make_program", lambda config, make_env: program)

    def hangs(*_: Any) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    yield path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert not (tmp_path / "executed").exists(), "something of the run was executed"
    sys.modules.pop(CANARY, None)


def load(run: Path) -> tuple[int, list[str]]:
    """The step that was loaded, and what was said."""
    with pytest.warns(UserWarning) as said:
        import warnings

        warnings.warn("so that there is one", stacklevel=1)
        step = pqn.load(run).step
    return step, [str(warning.message) for warning in said]


def resume(run: Path) -> tuple[int, list[str]]:
    listening = Listening()
    try:
        step = pqn.resume(run, progress=listening).summary["steps"]
    except WouldTrain:
        step = 0
    return step, listening.said


def draw(run: Path) -> tuple[int, list[str]]:
    return plot.run([str(run), "-o", str(run.parent / "curve.svg")]), []


def outcome(way: Callable[[Path], tuple[int, list[str]]], run: Path) -> str:
    """ "refused", "fell back" or "accepted"; every sentence is one."""
    try:
        step, said = way(run)
    except PqnError as error:
        assert_sentence(str(error))
        return "refused"
    for text in said:
        assert_sentence(text)
    if any("using the previous one" in text for text in said):
        assert step in (0, 512)
        return "fell back"
    return "accepted"


def assert_sentence(text: str) -> None:
    assert text.isprintable() and 10 < len(text) < 2000, text


# ------------------------------------------------------------------------------------------------ sealing, as they do


def edit(run: Path, change: Callable[[dict[str, Any]], Any], step: str = NEWEST) -> None:
    """Changes a manifest and seals it again; the change may return another content."""
    file = run / "checkpoints" / step / MANIFEST
    content = json.loads(file.read_text())
    content.pop("manifest_sha256")
    content = change(content) or content
    if isinstance(content, dict):
        content["manifest_sha256"] = manifest.seal(content)
    file.write_text(json.dumps(content))


def edit_data(run: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes the arrays and gives the manifest their size and hash."""
    file = run / "checkpoints" / NEWEST / manifest.DATA
    data = change(file.read_bytes())
    file.write_bytes(data)
    promise = {"file": manifest.DATA, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit(run, lambda content: content | {"data": promise})


def edit_json(run: Path, name: str, change: Callable[[Any], Any]) -> None:
    content = json.loads((run / name).read_text())
    content = change(content) or content
    (run / name).write_text(json.dumps(content))


def put(path: str, value: Any) -> Callable[[Any], None]:
    """A change that puts a value at a place such as "metadata.config.seeds"."""

    def change(content: Any) -> None:
        *parents, last = path.split(".")
        for part in parents:
            content = content[int(part) if part.isdigit() else part]
        content[int(last) if last.isdigit() else last] = copy.deepcopy(value)

    return change


def drop(path: str) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        *parents, last = path.split(".")
        for part in parents:
            content = content[int(part) if part.isdigit() else part]
        del content[last]

    return change


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


# ----------------------------------------------------------------------------------------------------------- manifests

MANIFEST_FIELDS = [
    *("format_version", "step", "metadata", "data", "data.file", "data.bytes", "data.sha256", "leaves"),
    *("leaves.0", "leaves.0.path", "leaves.0.shape", "leaves.0.dtype", "leaves.0.key_impl"),
    *("metadata.update", "metadata.step", "metadata.config", "metadata.spec", "metadata.seconds"),
    *("metadata.seconds.wall", "metadata.eval_returns", "metadata.pending", "metadata.pending.totals"),
    *("metadata.pending.updates", "metadata.rows", "metadata.run", "metadata.env", "metadata.env.name"),
    *("metadata.spec.obs_shape", "metadata.spec.obs_dtype", "metadata.spec.num_actions", "metadata.spec.name"),
    *("metadata.config.env", "metadata.config.env.name", "metadata.config.env.kwargs", "metadata.config.seeds"),
    *("metadata.config.total_steps", "metadata.config.network.hidden", "metadata.config.learner.lr"),
]
VALUES = [None, [], {}, "x", "\x1b[2Jred", -1, 1.5, 10**12, 2**62, True, [10**12, 10**12], nested(20)]
# What older runs have, or what says nothing about a run's numbers.
MAY_BE = {
    "metadata.eval_returns": [None],
    "metadata.pending": [None],
    "metadata.pending.totals": [{}],
    "metadata.rows": [None, {}],
    "metadata.seconds.wall": [1.5, 10**12, 2**62],
    "metadata.config.env.kwargs": [{}],
    "leaves.0.key_impl": [None],
}


@pytest.mark.parametrize("field", MANIFEST_FIELDS)
def test_any_value_in_any_field_of_a_resealed_manifest(field, run, tmp_path):
    file = run / "checkpoints" / NEWEST / MANIFEST
    good = file.read_bytes()
    for value in VALUES:
        edit(run, put(field, value))
        for way in (load, resume):
            harmless = any(value == other and type(value) is type(other) for other in MAY_BE.get(field, []))
            allowed = {"accepted"} if harmless else {"refused", "fell back"}
            assert outcome(way, run) in allowed, (field, value, way.__name__)
        file.write_bytes(good)


def first_leaf(content: dict[str, Any], **changes: Any) -> None:
    content["leaves"][0] |= changes


def resized(content: dict[str, Any], shape: list[int]) -> None:
    """A first array of another shape that is not more than a claim."""
    first_leaf(content, shape=shape)
    content["data"]["bytes"] = 4 * int(np.prod(shape, dtype=object))


MANIFESTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda content: [content],
    "a number": lambda content: 3,
    "a string": lambda content: "manifest",
    "another format": lambda content: content | {"format_version": 99},
    "a format of text": lambda content: content | {"format_version": "\x1b[31m"},
    "an array twice": lambda content: content["leaves"].append(content["leaves"][0]),
    "no array": lambda content: content | {"leaves": []},
    "one array less": lambda content: content["leaves"].pop() and None,
    "an array more": lambda content: content["leaves"].append({"path": "extra", "shape": [], "dtype": "float32"}),
    "an array within another": lambda content: content["leaves"].append(
        {"path": content["leaves"][0]["path"] + "/deeper", "shape": [0], "dtype": "float32"}
    ),
    "an endless name": lambda content: first_leaf(content, path="a" * 10_000),
    "a deep name": lambda content: first_leaf(content, path="/".join("a" * 500)),
    "a name that leaves": lambda content: first_leaf(content, path="../../../etc/passwd"),
    "a name with an escape": lambda content: first_leaf(content, path="\x1b]0;title\x07"),
    "a dtype of objects": lambda content: first_leaf(content, dtype="object"),
    "a dtype O": lambda content: first_leaf(content, dtype="O"),
    "a structured dtype": lambda content: first_leaf(content, dtype="i4,f8"),
    "a dtype of text": lambda content: first_leaf(content, dtype="<U4"),
    "a dtype of dates": lambda content: first_leaf(content, dtype="datetime64[s]"),
    "a dtype of nothing": lambda content: first_leaf(content, dtype="V4"),
    "another dtype": lambda content: first_leaf(content, dtype="int32"),
    "a wider dtype": lambda content: first_leaf(content, dtype="float64"),
    "a dtype of keys": lambda content: first_leaf(content, dtype="key<fry>"),
    "a generator that is none": lambda content: first_leaf(content, dtype="key<fry>", key_impl="nonsense"),
    "a generator of a number": lambda content: first_leaf(content, dtype="object", key_impl=0),
    "a generator of false": lambda content: first_leaf(content, dtype="object", key_impl=False),
    "a generator for numbers": lambda content: first_leaf(content, key_impl="threefry2x32"),
    "other keys": lambda content: (
        [leaf.update(dtype="key<rbg>", key_impl="rbg") for leaf in content["leaves"] if "key_impl" in leaf] and None
    ),
    "a negative size": lambda content: first_leaf(content, shape=[-1, -4]),
    "a shape of floats": lambda content: first_leaf(content, shape=[2.0]),
    "a shape of truths": lambda content: first_leaf(content, shape=[True, True]),
    "10¹² elements": lambda content: resized(content, [10**12]),
    "sizes that overflow": lambda content: resized(content, [2**32, 2**32]),
    "sizes that overflow to nothing": lambda content: first_leaf(content, shape=[2**32, 2**32, 0, 2**62]),
    "2⁴⁰ bytes": lambda content: resized(content, [2**38]),
    "more dimensions than there are": lambda content: first_leaf(content, shape=[1] * 100),
    "fewer bytes": lambda content: content["data"].update(bytes=content["data"]["bytes"] - 4),
    "more bytes": lambda content: content["data"].update(bytes=content["data"]["bytes"] + 4),
    "data elsewhere": lambda content: content["data"].update(file="../../../../etc/passwd"),
    "data at the root": lambda content: content["data"].update(file="/etc/passwd"),
    "a hash of nothing": lambda content: content["data"].update(sha256=""),
    "update 10⁹": put("metadata.update", 10**9),
    "update 9": put("metadata.update", 9),
    "another number of steps": put("metadata.step", 641),
    "three seeds": put("metadata.config.seeds", 3),
    "one seed": put("metadata.config.seeds", 1),
    "10⁹ seeds": put("metadata.config.seeds", 10**9),
    "10⁹ environments": put("metadata.config.env.num_envs", 10**9),
    "a rollout of 10¹² steps": put("metadata.config.learner.rollout_steps", 10**12),
    "10⁶ layers": put("metadata.config.network.hidden", [8] * 10**6),
    "10⁹ recurrent layers": put("metadata.config.network.memory_layers", 10**9),
    "a layer of 10¹² units": put("metadata.config.network.hidden", [10**12]),
    "another network": put("metadata.config.network.hidden", [32]),
    "a recurrent network": put("metadata.config.network.memory", "lstm"),
    "a network that is none": put("metadata.config.network.torso", "os:system"),
    "a logger that is none": put("metadata.config.log.to", [f"{CANARY}"]),
    "an option more": put("metadata.config.learner.evil", 1),
    "no learner": drop("metadata.config.learner"),
    "no configuration": drop("metadata.config"),
    "no spec": drop("metadata.spec"),
    "no update": drop("metadata.update"),
    "no seconds": drop("metadata.seconds"),
    "no id": drop("metadata.run"),
    "the id of another run": put("metadata.run", "0" * 32),
    "an id of many words": put("metadata.run", "rm -rf /"),
    "a function as environment": put("metadata.config.env.name", f"{CANARY}:make"),
    "a function in the identity": put("metadata.env.name", f"{CANARY}:make"),
    "another kind": put("metadata.env.kind", "function"),
    "a command as environment": lambda content: content["metadata"]["config"]["env"].update(
        name="os:system", kwargs={"command": "touch executed"}
    ),
    "a module of Gymnasium": put("metadata.config.env.name", f"gymnasium:{CANARY}:Env-v0"),
    "another environment": put("metadata.config.env.name", "Acrobot-v1"),
    "an option of the environment": put("metadata.config.env.kwargs", {"gravity": 1.0}),
    "more actions": put("metadata.spec.num_actions", 3),
    "10⁹ actions": put("metadata.spec.num_actions", 10**9),
    "an observation of 10¹² numbers": put("metadata.spec.obs_shape", [10**12]),
    "an observation of none": put("metadata.spec.obs_shape", [0]),
    "an observation of objects": put("metadata.spec.obs_dtype", "O"),
    "a limit of −1": put("metadata.spec.max_episode_steps", -1),
    "a spec of more": put("metadata.spec.evil", "x"),
    "negative seconds": put("metadata.seconds.train", -1.0),
    "returns of one seed": put("metadata.eval_returns", [[1.0]]),
    "returns of text": put("metadata.eval_returns", [["a"], ["b"]]),
    "ragged returns": put("metadata.eval_returns", [[1.0], [1.0, 2.0]]),
    "totals of text": put("metadata.pending", {"updates": 1, "seconds": 1.0, "totals": {"loss": "x"}}),
    "totals without a loss": put("metadata.pending", {"updates": 1, "seconds": 1.0, "totals": {}}),
    "totals of three seeds": put("metadata.pending", {"updates": 0, "seconds": 1.0, "totals": {"loss": [0, 0, 0]}}),
    "rows of text": put("metadata.rows", {"train": "many"}),
    "rows below none": put("metadata.rows", {"train": -1}),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_resealed_manifest(name, run):
    edit(run, MANIFESTS[name])
    for way in (load, resume):
        assert outcome(way, run) in ("refused", "fell back"), way.__name__


def header(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    size = struct.unpack("<Q", data[:8])[0]
    content = json.loads(data[8 : 8 + size])
    content = change(content) or content
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def in_header(**changes: Any) -> Callable[[bytes], bytes]:
    def change(content: dict[str, Any]) -> None:
        first = next(name for name in content if name != "__metadata__")
        content[first] |= changes

    return lambda data: header(data, change)


def overwrite(data: bytes, name: str, new: bytes) -> bytes:
    """Other bytes at the start of an array."""
    size = struct.unpack("<Q", data[:8])[0]
    start = 8 + size + json.loads(data[8 : 8 + size])[name]["data_offsets"][0]
    return data[:start] + new + data[start + len(new) :]


DATA: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "seven bytes": lambda data: data[:7],
    "a header alone": lambda data: data[: 8 + struct.unpack("<Q", data[:8])[0]],
    "half": lambda data: data[: len(data) // 2],
    "one byte less": lambda data: data[:-1],
    "one byte more": lambda data: data + b"\0",
    "zeros": lambda data: b"\0" * len(data),
    "a header of 2⁶⁰ bytes": lambda data: struct.pack("<Q", 2**60) + data[8:],
    "a header of 2⁶⁴−1 bytes": lambda data: b"\xff" * 8 + data[8:],
    "a header of no bytes": lambda data: b"\0" * 8 + data[8:],
    "no JSON": lambda data: data[:8] + b"x" + data[9:],
    "nested JSON": lambda data: struct.pack("<Q", 20_000) + b"[" * 20_000 + data[8:],
    "other names": lambda data: data.replace(b"learner/updates", b"learner/evildoes"),
    "no arrays": lambda data: header(data, lambda content: {"__metadata__": {}}),
    "offsets that overlap": in_header(data_offsets=[0, 8]),
    "offsets outside": in_header(data_offsets=[10**9, 10**9 + 4]),
    "offsets backwards": in_header(data_offsets=[8, 0]),
    "offsets that overflow": in_header(data_offsets=[2**63, 2**63 + 4]),
    "negative offsets": in_header(data_offsets=[-8, 0]),
    "a shape of 2⁶⁰": in_header(shape=[2**60]),
    "a shape that overflows": in_header(shape=[2**33, 2**33]),
    "a dtype that is none": in_header(dtype="O"),
    "a wider dtype": in_header(dtype="F64"),
    "counters of another update": lambda data: overwrite(data, "learner/updates", b"\x07\0\0\0"),
    "counters of many updates": lambda data: overwrite(data, "learner/updates", b"\xff\xff\xff\x7f"),
}


@pytest.mark.parametrize("name", DATA)
def test_data_with_a_hash_of_its_own(name, run):
    edit_data(run, DATA[name])
    for way in (load, resume):
        assert outcome(way, run) in ("refused", "fell back"), way.__name__


# --------------------------------------------------------------------------------------------------- in place of files


def fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # the system allows about a hundred characters


def a_huge_file(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**40)  # a hole, which takes no space on the disk


INSTEAD: dict[str, Callable[[Path], Any]] = {
    "a pipe": fifo,
    "a socket": a_socket,
    "a directory": lambda path: path.mkdir(),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to outside": lambda path: path.symlink_to("/etc/passwd"),
    "a link to nothing": lambda path: path.symlink_to("/nonexistent"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a huge file": a_huge_file,
    "an empty file": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 10),
    "deep JSON": lambda path: path.write_text("[" * 100_000),
    "deep closed JSON": lambda path: path.write_text("[" * 900 + "]" * 900 + "\n"),
    "a huge number": lambda path: path.write_text('{"update": ' + "9" * 5000 + "}\n"),
    "an infinite number": lambda path: path.write_text('{"update": 1e400, "step": Infinity}\n'),
    "a list": lambda path: path.write_text("[1, 2]\n"),
    "a number": lambda path: path.write_text("3\n"),
    "an empty object": lambda path: path.write_text("{}\n"),
    "a name twice": lambda path: path.write_text('{"update": 1, "update": 2}\n'),
}
FILES = ["config.json", "environment.json", "metrics.jsonl", "summary.json", ".lock", "checkpoints"]
FILES += [f"checkpoints/{NEWEST}", f"checkpoints/{NEWEST}/manifest.json", f"checkpoints/{NEWEST}/state.safetensors"]
SPECIAL = list(INSTEAD)[:7]


def harmless(file: str, instead: str, way: Any) -> bool:
    """Whether this file is nothing to this way of opening a run, or what is lost with it is said and made again."""
    if way is draw:
        read = file in ("config.json", "environment.json", "metrics.jsonl")
        return not read or (file, instead) == ("environment.json", "an empty object")
    if way is load:
        return file in ("summary.json", "metrics.jsonl", ".lock")
    return (
        file == "summary.json"
        or (file == ".lock" and instead not in SPECIAL)
        or (file == "checkpoints" and instead == "a directory")  # an empty one: the run starts from the beginning
        or (file == "metrics.jsonl" and instead not in (*SPECIAL, "a huge file"))
    )


@pytest.mark.parametrize("instead", INSTEAD)
@pytest.mark.parametrize("file", FILES)
def test_something_else_in_place_of_a_file(file, instead, run):
    path = run / file
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    INSTEAD[instead](path)
    for way in (load, draw, resume):
        found = outcome(way, run)
        if not harmless(file, instead, way):
            assert found in ("refused", "fell back"), way.__name__


# ----------------------------------------------------------------------------------------- nothing of a run is executed

CODE = [
    (f"{CANARY}:make", {}),
    ("os:system", {"command": "touch executed"}),
    ("subprocess:call", {"args": ["touch", "executed"]}),
    (f"gymnasium:{CANARY}:Env-v0", {}),
    (f"gymnasium:{CANARY}:Env", {"vectorization_mode": "async"}),
    ("gymnasium:GymV21Environment-v0", {"env_id": f"{CANARY}:Env-v0"}),
    ("python:canary", {}),
    (f"python:{CANARY}:make", {}),
    (f"{CANARY}.make", {}),
    (f":{CANARY}", {}),
    (f"atari:{CANARY}", {}),
    ("x:y; touch executed", {}),
    ("$(touch executed):make", {}),
]


def rewrite(run: Path, name: str, kwargs: dict[str, Any]) -> None:
    """Names another environment everywhere, so that nothing in the run contradicts it."""
    kind = "python" if name.startswith("python:") else "function" if ":" in name else "registered"
    for step in sorted(path.name for path in (run / "checkpoints").iterdir()):
        edit(run, put("metadata.config.env.name", name), step)
        edit(run, put("metadata.config.env.kwargs", kwargs), step)
        edit(run, put("metadata.env.name", name), step)
        edit(run, put("metadata.env.kind", kind), step)
    edit_json(run, "config.json", put("env.name", name))
    edit_json(run, "config.json", put("env.kwargs", kwargs))
    edit_json(run, "environment.json", put("env.name", name))
    edit_json(run, "environment.json", put("env.kind", kind))


@pytest.mark.parametrize(("name", "kwargs"), CODE)
def test_code_that_a_run_names_is_not_run(name, kwargs, run, capsys):
    rewrite(run, name, kwargs)
    for command in ("eval", "resume", "stability", "video"):
        assert main([command, str(run)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("pqn: ") and error.count("\n") == 1, error
        if name in (f"{CANARY}:make", "os:system", f"gymnasium:{CANARY}:Env-v0"):
            assert f"repeat `pqn {command} {run} --env {name}`" in error
    assert outcome(load, run) == "accepted"  # needs no environment
    assert outcome(draw, run) == "accepted"
    with pytest.raises(PqnError):
        pqn.resume(run, progress=Listening())
    assert CANARY not in sys.modules and not (run.parent / "executed").exists()


def test_a_command_to_repeat_is_safe_to_copy(run, capsys):
    rewrite(run, "x:y; touch executed", {})
    assert main(["resume", str(run)]) == 2
    assert "--env 'x:y; touch executed'`" in capsys.readouterr().err


def test_links_are_not_followed_when_something_is_written(run, tmp_path):
    """Every name under which a file of the run is ever written, as a link to a file outside."""
    outside = tmp_path / "outside"
    outside.write_text("precious")
    for name in (".summary.json.tmp", "metrics.jsonl.tmp", ".stability.json.tmp", "checkpoints/.tmp-step-link"):
        (run / name).symlink_to(outside)
    (run / "summary.json").unlink()
    assert resume(run)[0] == 640
    assert outside.read_text() == "precious" and json.loads((run / "summary.json").read_text())["steps"] == 640
    for name in ("curve.png", ".lock", "agent.mp4", "agent.gif", "export"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(outside)
    assert plot_into(run) == "refused" and outcome(resume, run) == "refused"
    assert film_into(run) == "refused" and export_into(run) == "refused"
    (run / "export").unlink()
    (run / "export").symlink_to(tmp_path)  # a directory
    assert export_into(run) == "refused" and not (tmp_path / "agent.safetensors").exists()
    assert outside.read_text() == "precious"


def film_into(run: Path) -> str:
    return outcome(lambda path: (make_film(path, warn=print).step, []), run)


def export_into(run: Path) -> str:
    return outcome(lambda path: (len(export_run(path, ["safetensors"], warn=print).names), []), run)


def plot_into(run: Path) -> str:
    return outcome(lambda path: (plot.run([str(path)]), []), run)


def test_a_label_is_text_and_not_mathematics(run):
    rewrite(run, "CartPole-v1", {})
    for file in ("config.json",):
        edit_json(run, file, put("preset", r"$\frac{1}{$"))
    assert draw(run)[0] == 0
    edit_json(run, "config.json", put("preset", "\x1b[2J"))
    assert outcome(draw, run) == "refused"


def test_a_future_that_the_run_does_not_have(run):
    """A checkpoint that agrees with itself in everything, one update after the run's last."""
    edit_data(run, lambda data: overwrite(data, "learner/updates", b"\x0b\0\0\0" * 2))
    edit(run, put("metadata.update", 11))
    edit(run, put("metadata.step", 11 * 64))
    edit(run, put("step", 11))
    (run / "checkpoints" / NEWEST).rename(run / "checkpoints" / "step-000000000011")
    for way in (load, resume):
        step, said = way(run)
        assert step in (0, 512) and any("says update 11, and its configuration ends at 10" in text for text in said)
