"""`pqn push`, against a stand-in for the client of the Hub: what is uploaded, and what never is."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from hub import Client

import pqn
from pqn.cli.main import main


@pytest.fixture
def client(monkeypatch) -> Client:
    found = Client()
    monkeypatch.setitem(sys.modules, "huggingface_hub", found)
    return found


@pytest.fixture
def run(finished_run, tmp_path) -> Path:
    shutil.copytree(finished_run.run, tmp_path / "run")
    return tmp_path / "run"


def test_the_export_and_its_card_and_nothing_else(run, client, capsys):
    assert main(["push", str(run), "me/agent", "--train-seed", "1"]) == 0
    assert client.calls == [("create", "me/agent", False, True), ("upload", "me/agent")]
    assert sorted(client.uploaded) == ["README.md", "agent.json", "agent.safetensors"]
    assert b"seed of this agent | 1" in client.uploaded["README.md"]
    assert capsys.readouterr().out.splitlines()[-1] == "https://hub/me/agent"
    assert not (run / "export").exists()


def test_a_video_goes_along(run, client, tmp_path):
    (run / "agent.gif").write_bytes(b"GIF8 of the run")
    assert main(["push", str(run), "me/agent", "--private"]) == 0
    assert client.uploaded["agent.gif"] == b"GIF8 of the run" and client.calls[0][2] is True
    (tmp_path / "other.mp4").write_bytes(b"another")
    assert main(["push", str(run), "me/agent", "--video", str(tmp_path / "other.mp4")]) == 0
    assert client.uploaded["other.mp4"] == b"another" and "agent.gif" not in client.uploaded
    secret = tmp_path / "secret"
    secret.write_bytes(b"not of the run")
    (run / "agent.gif").unlink()
    (run / "agent.gif").symlink_to(secret)
    assert main(["push", str(run), "me/agent"]) == 0
    assert "agent.gif" not in client.uploaded  # a link in a run directory is not followed


def test_another_checkpoint_and_no_film_of_the_last_one(run, client, capsys):
    """The agent is that of the checkpoint asked for. A film in the run shows the last one, so it stays out."""
    (run / "agent.gif").write_bytes(b"of the last checkpoint")
    first = sorted((run / "checkpoints").glob("step-*"))[0]
    steps = int(first.name.removeprefix("step-")) * 64  # of an update of conftest's TINY
    assert main(["push", str(run), "me/agent", "--checkpoint", str(steps)]) == 0
    assert json.loads(client.uploaded["agent.json"])["step"] == steps < 640
    assert "agent.gif" not in client.uploaded
    assert (
        f"agent.gif is not uploaded, since it may show another agent of the run; --video {run}"
        in capsys.readouterr().err
    )
    assert main(["push", str(run), "me/agent", "--train-seed", "1"]) == 0
    assert "agent.gif" not in client.uploaded and "agent.gif is not uploaded" in capsys.readouterr().err
    words = ["push", str(run), "me/agent", "--checkpoint", "best", "--video", str(run / "agent.gif")]
    assert main(words) == 0
    best = pqn.load(run, checkpoint="best")
    assert json.loads(client.uploaded["agent.json"])["step"] == best.step and "agent.gif" in client.uploaded
    client.calls.clear()
    capsys.readouterr()
    assert "has no checkpoint of 1 steps" in sentence(["push", str(run), "me/agent", "--checkpoint", "1"], capsys)
    assert "is neither last, best nor a number of steps" in sentence([*words[:3], "--checkpoint", "bets"], capsys)
    assert not client.calls  # nothing is made on the Hub before there is something to upload


def sentence(words: list[str], capsys) -> str:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and not captured.out
    return captured.err


def test_mistakes(run, capsys, monkeypatch, tmp_path):
    words = ["push", str(run), "me/agent"]
    for name in ("agent", "me/", "/agent", "https://hub/me/agent", "me/my agent"):
        assert f"'{name}' is not the name of a repository: it must be owner/name" in sentence(
            [*words[:2], name], capsys
        )
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pushing needs huggingface_hub: pip install -e '.[hub]'" in sentence(words, capsys)
    monkeypatch.setitem(sys.modules, "huggingface_hub", Client(token=None))
    assert "there is no Hugging Face token: run `hf auth login`, or set HF_TOKEN" in sentence(words, capsys)
    refusing = Client(failure=ConnectionError("403 Forbidden: you are not me\nRequest ID: 7"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", refusing)
    assert "me/agent was not pushed: 403 Forbidden: you are not me\n" in sentence(words, capsys)
    assert "there is no video nowhere.mp4" in sentence([*words, "--video", "nowhere.mp4"], capsys)
    shutil.rmtree(run / "checkpoints")
    assert "there is no checkpoint in" in sentence(words, capsys)
    assert not refusing.uploaded


def test_the_real_client_takes_these_arguments():
    hub = pytest.importorskip("huggingface_hub")
    import inspect

    assert hub.get_token is not None
    signature = inspect.signature(hub.HfApi.create_repo)
    signature.bind(None, "me/agent", private=False, exist_ok=True)
    upload = inspect.signature(hub.HfApi.upload_folder)
    upload.bind(None, repo_id="me/agent", folder_path=".", allow_patterns=["a"], commit_message="m")
