"""A stand-in for the client of the Hugging Face Hub, which records what is asked of it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType


class Client(ModuleType):
    """Put in the place of the module `huggingface_hub`. A folder is read when it is uploaded: it is gone afterwards."""

    def __init__(self, token: str | None = "hf_secret", failure: Exception | None = None):
        super().__init__("huggingface_hub")
        self.token, self.failure, self.calls, self.uploaded = token, failure, [], {}
        self.HfApi = lambda: self

    def get_token(self) -> str | None:
        return self.token

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> str:
        if self.failure is not None:
            raise self.failure
        self.calls.append(("create", repo_id, private, exist_ok))
        return f"https://hub/{repo_id}"

    def upload_folder(self, *, repo_id: str, folder_path: str, allow_patterns: list[str], commit_message: str) -> None:
        self.calls.append(("upload", repo_id))
        files = {path.relative_to(folder_path).as_posix(): path for path in Path(folder_path).rglob("*")}
        self.uploaded = {name: path.read_bytes() for name, path in files.items() if name in allow_patterns}
        assert files.keys() == self.uploaded.keys(), "there is more in the folder than may be uploaded"
