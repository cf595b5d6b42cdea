"""The three formats: each writes one file and checks that it computes what the agent computes.

Safetensors holds the parameters alone, by name; ONNX and StableHLO hold the whole function.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import jax
import numpy as np
from jax import export as jax_export
from safetensors.numpy import save as serialise

from pqn.errors import CheckpointError, RunError, how_to_install, reason
from pqn.export.model import Model, largest_difference
from pqn.runs import files
from pqn.runs.state_tree import flatten

TOLERANCE = 1e-5  # of scores and memory
PLATFORMS = ("cpu", "cuda", "tpu")  # that a StableHLO file runs on


class Written(NamedTuple):
    """A file of an export."""

    file: Path
    difference: float | None  # from the agent in JAX, on examples; None for parameters alone, which are the same


def write_safetensors(model: Model, folder: Path) -> Written:
    """The parameters and statistics by name: `params/torso/Dense_0/kernel`."""
    _, arrays = flatten(model.policy)
    return _written(folder / "agent.safetensors", serialise(arrays, metadata={"format": "pqn"}))


def write_stablehlo(model: Model, folder: Path) -> Written:
    """`jax.export`'s serialised function, for a batch of any size, on any of `PLATFORMS`."""
    _require("flatbuffers")
    (batch,) = jax_export.symbolic_shape("batch")
    try:
        exported = jax_export.export(jax.jit(model), platforms=PLATFORMS)(*(x.spec(batch) for x in model.inputs))
    except Exception as error:  # of a network of one's own, which may compute with the size of its batch
        raise RunError(
            f"this network cannot be written as StableHLO for a batch of any size ({_first_line(error)}); "
            "try --format safetensors"
        ) from error
    data = bytes(exported.serialize())
    again = jax_export.deserialize(bytearray(data))
    return _checked(model, folder / "agent.stablehlo", data, lambda inputs: jax.device_get(again.call(*inputs)))


def write_onnx(model: Model, folder: Path) -> Written:
    """An ONNX graph by jax2onnx, whose batch is of any size."""
    to_onnx, runtime = _require("jax2onnx").to_onnx, _require("onnxruntime")
    (batch,) = jax_export.symbolic_shape("batch")
    try:
        with _quiet("onnx_ir", "jax2onnx"):
            graph = to_onnx(
                model,
                [tensor.spec(batch) for tensor in model.inputs],
                model_name="agent",
                input_names=[tensor.name for tensor in model.inputs],
                output_names=model.output_names,
            )
    except Exception as error:  # jax2onnx has no error of its own for what it cannot convert
        raise RunError(
            f"this network cannot be written as ONNX ({_first_line(error)}); try --format stablehlo"
        ) from error
    data = graph.SerializeToString()
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # it warns of constants that it removes
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def run(inputs: list[np.ndarray]) -> Sequence[np.ndarray]:
        return session.run(None, {tensor.name: array for tensor, array in zip(model.inputs, inputs, strict=True)})

    return _checked(model, folder / "agent.onnx", data, run)


FORMATS: dict[str, Callable[[Model, Path], Written]] = {
    "onnx": write_onnx,
    "stablehlo": write_stablehlo,
    "safetensors": write_safetensors,
}


def _checked(model: Model, file: Path, data: bytes, run: Callable[[list[np.ndarray]], Sequence[np.ndarray]]) -> Written:
    """Writes a file whose function was compared with the agent.

    Raises:
      CheckpointError: it computes something else.
    """
    difference = largest_difference(model, run)
    if not difference <= TOLERANCE:
        raise CheckpointError(
            f"{file.name} was not written: its outputs differ from the agent's by {difference:.2g}; please report this "
            "with the run's config.json"
        )
    return Written(_written(file, data).file, difference)


def _written(file: Path, data: bytes) -> Written:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(file, data)
    except OSError as error:
        raise RunError(f"cannot write {file}: {reason(error)}") from error
    return Written(file, None)


def _require(package: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise RunError(f"this format needs {package}: {how_to_install('export')}") from error


@contextlib.contextmanager
def _quiet(*loggers: str) -> Iterator[None]:
    """Within the block these libraries report errors only."""
    before = {name: logging.getLogger(name).level for name in loggers}
    for name in loggers:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
