"""`export_run`: a run's agent as files for other programs, with a model card."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import jax

from pqn.errors import ConfigError, RunError, reason, suggest
from pqn.export.card import MARK, Subject, write_card
from pqn.export.formats import FORMATS, Written
from pqn.export.model import Model, Tensor
from pqn.runs import files
from pqn.runs.identity import spec_to_dict
from pqn.runs.json_text import to_json
from pqn.runs.opened import Which, open_run
from pqn.runs.trained import Trained

CARD, DESCRIPTION = "README.md", "agent.json"
DEFAULT_FOLDER = "export"  # in the run directory


@dataclasses.dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    written: dict[str, Written]
    """Format -> file."""

    @property
    def names(self) -> list[str]:
        """The names of all files, the card included."""
        return [*(each.file.name for each in self.written.values()), DESCRIPTION, CARD]


def export_run(
    run: str | os.PathLike[str],
    formats: str | Sequence[str],
    out: str | os.PathLike[str] | None = None,
    train_seed: int | None = None,
    *,
    network: object = None,
    checkpoint: Which = "last",
    warn: Callable[[str], None] | None = None,
) -> Exported:
    """Writes the agent of a checkpoint of a run, a description of it and a model card.

    Args:
      run: a run directory.
      formats: one or some of "onnx", "stablehlo" and "safetensors".
      out: the folder; by default `export` in the run directory.
      train_seed: which of the run's seeds; None is the first.
      network: the network, where the run was trained with one of your own; see `pqn.train`.
      checkpoint: which one; see `pqn.load`.
      warn: told what the user should know, in a sentence; by default a Python warning.

    Raises:
      PqnError: with a sentence: not a run, no such checkpoint, a missing package, or a file that cannot be written.
    """
    formats = [formats] if isinstance(formats, str) else formats
    if not formats:
        raise ConfigError(f"no format is named; it must be one of {', '.join(FORMATS)}")
    for name in formats:
        if name not in FORMATS:
            raise ConfigError(
                f"there is no format {name!r}; it must be one of {', '.join(FORMATS)}{suggest(name, FORMATS)}"
            )
    opened = open_run(run, warn)
    trained = opened.trained(checkpoint)
    index = opened.index_of(train_seed)
    seed = trained.config.seed + index
    folder = opened.path / DEFAULT_FOLDER if out is None else files.as_path("out", out)
    if out is None:
        files.is_directory(folder)  # written into the run itself, and not where a link in it leads
    _refuse_other_readme(folder)
    actor, policies = opened.actor(trained, network, "export")
    model = Model(actor.config, trained.spec, jax.tree.map(lambda x: x[index], policies))
    written = {name: FORMATS[name](model, folder) for name in formats}
    card = write_card(Subject(opened, trained, model, seed, written))
    _write(folder / DESCRIPTION, to_json(describe(trained, model, seed), indent=2) + "\n")
    _write(folder / CARD, card)
    return Exported(folder, written)


def describe(trained: Trained, model: Model, seed: int) -> dict[str, object]:
    """What a program must know of an exported agent: `agent.json`."""
    return {
        "format": 1,
        "step": trained.step,
        "seed": seed,
        "inputs": _described(model.inputs, [tensor.name for tensor in model.inputs]),
        "outputs": _described(model.outputs, model.output_names),
        "spec": spec_to_dict(trained.spec),
        "config": trained.config.to_dict(),
    }


def _described(tensors: Sequence[Tensor], names: Sequence[str]) -> list[dict[str, object]]:
    return [
        {"name": name, "dtype": str(x.dtype), "shape": ["batch", *x.shape], "meaning": x.meaning}
        for name, x in zip(names, tensors, strict=True)
    ]


def _refuse_other_readme(folder: Path) -> None:
    """A folder that has a README of somebody else is not ours to write a card into."""
    card = folder / CARD
    if files.is_file(card) and MARK.encode() not in files.read_bytes(card, files.MOST_JSON):
        raise RunError(f"{card} is not a model card of pqn: choose another folder with -o")


def _write(file: Path, text: str) -> None:
    try:
        files.write_atomically(file, text.encode())
    except OSError as error:
        raise RunError(f"cannot write {file}: {reason(error)}") from error
