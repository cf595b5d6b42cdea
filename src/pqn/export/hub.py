"""`push_run`: an exported agent in a repository of the Hugging Face Hub."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from pqn.errors import RunError, how_to_install, reason
from pqn.export.run import export_run
from pqn.runs.opened import Which, open_run

VIDEOS = ("agent.mp4", "agent.gif", "agent.txt")  # what `pqn video` leaves in a run directory


def push_run(
    run: str | os.PathLike[str],
    repository: str,
    formats: Sequence[str],
    train_seed: int | None = None,
    *,
    network: object = None,
    checkpoint: Which = "last",
    video: str | os.PathLike[str] | None = None,
    private: bool = False,
    warn: Callable[[str], None] | None = None,
) -> tuple[str, list[str]]:
    """Exports an agent and uploads the export, its card and a film of it if there is one: nothing else of the run.

    Args:
      run: a run directory.
      repository: "owner/name"; it is created where it does not exist.
      formats: see `export_run`.
      train_seed: which of the run's seeds; None is the first.
      network: the network, where the run was trained with one of your own; see `pqn.train`.
      checkpoint: which one; see `pqn.load`.
      video: a film to add; by default the one that `pqn video` left in the run directory, if any, unless a seed or
        another checkpoint than the last is asked for, which that film may not show.
      private: of a new repository.
      warn: told what the user should know.

    Returns:
      The address of the repository, and the names of what was uploaded.

    Raises:
      PqnError: with a sentence: no client, no token, nothing to export, or what the Hub answered.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise RunError(f"{repository!r} is not the name of a repository: it must be owner/name")
    client = _client()
    if client.get_token() is None:
        raise RunError("there is no Hugging Face token: run `hf auth login`, or set HF_TOKEN")
    with tempfile.TemporaryDirectory() as folder:
        open_run(run, warn).given_network(network, "push")
        exported = export_run(run, formats, folder, train_seed, network=network, checkpoint=checkpoint, warn=warn)
        names = exported.names
        film = _film(Path(run), video)
        # What `pqn video RUN` leaves shows the first seed of the last checkpoint.
        if film is not None and video is None and (checkpoint != "last" or train_seed is not None):
            told = f"{film} is not uploaded, since it may show another agent of the run; --video {film} adds it"
            (warn or warnings.warn)(told)
        elif film is not None:
            names.append(film.name)
            try:
                shutil.copyfile(film, Path(folder) / film.name)
            except OSError as error:
                raise RunError(f"cannot read {film}: {reason(error)}") from error
        return _upload(client, repository, private, folder, names), names


def _upload(client: ModuleType, repository: str, private: bool, folder: str, names: list[str]) -> str:
    """Uploads files of a folder; returns the address of the repository."""
    try:
        api = client.HfApi()
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=names, commit_message="Agent exported by pqn"
        )
    except Exception as error:  # of the client, of its network library, of the Hub
        told = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RunError(f"{repository} was not pushed: {told}") from error
    return str(address)


def _film(run: Path, video: str | os.PathLike[str] | None) -> Path | None:
    """The film to upload."""
    if video is not None:
        if not Path(video).is_file():
            raise RunError(
                f"there is no video {os.fspath(video)}: make one with `pqn video {run} -o {os.fspath(video)}`"
            )
        return Path(video)
    return next((run / name for name in VIDEOS if (run / name).is_file() and not (run / name).is_symlink()), None)


def _client() -> ModuleType:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise RunError(f"pushing needs huggingface_hub: {how_to_install('hub')}") from error
