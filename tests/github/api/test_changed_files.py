"""Which files of a checkout differ from its commit is known from their content alone, whatever git is told."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from github.GitTreeElement import GitTreeElement

from ragstone.github.api import changed_files as module
from ragstone.github.api.base_files import SUBMODULE
from ragstone.github.api.changed_files import changed_files
from ragstone.github.api.client import GitHubApi
from tests.github.api.fake import BASE_SHA, FakeGitHub

FILES: dict[str, bytes | str] = {
    "rag.py": b"def answer(question): ...\n",
    "data/g\xc3\xb6lden.jsonl": b"{}\n",
    "data/picture.png": bytes(range(256)) * 9_000,
    "latest": "data",
    "empty": b"",
}


@pytest.fixture
def checkout(github: FakeGitHub, tmp_path: Path) -> Path:
    github.files[BASE_SHA] = dict(FILES)
    for name, content in FILES.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
    return tmp_path / "checkout"


def test_an_untouched_checkout_has_no_changed_files_and_new_ones_are_none(api: GitHubApi, checkout: Path) -> None:
    (checkout / "index.bin").write_bytes(b"built")
    assert changed_files(api, BASE_SHA, checkout) == ()


def edit(checkout: Path) -> None:
    (checkout / "rag.py").write_bytes(b"def answer(question): return 'fine'\n")


def remove(checkout: Path) -> None:
    (checkout / "rag.py").unlink()


def link_elsewhere(checkout: Path) -> None:
    (checkout / "latest").unlink()
    (checkout / "latest").symlink_to("empty")


def link_out(checkout: Path) -> None:
    (checkout.parent / "same.py").write_bytes(b"def answer(question): ...\n")
    (checkout / "rag.py").unlink()
    (checkout / "rag.py").symlink_to("../same.py")


def put_a_pipe_there(checkout: Path) -> None:
    (checkout / "rag.py").unlink()
    os.mkfifo(checkout / "rag.py")


def hide_from_git(checkout: Path) -> None:
    """With what git would be told not to look, and to run."""
    edit(checkout)
    (checkout / ".git").mkdir()
    (checkout / ".git" / "config").write_text("[core]\n\tfsmonitor = touch ran\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (edit, "rag.py"),
        (remove, "rag.py"),
        (link_elsewhere, "latest"),
        (link_out, "rag.py"),
        (put_a_pipe_there, "rag.py"),
        (hide_from_git, "rag.py"),
    ],
)
def test_a_changed_file_is_named(api: GitHubApi, checkout: Path, change: Callable[[Path], None], name: str) -> None:
    change(checkout)
    assert changed_files(api, BASE_SHA, checkout) == (name,)
    assert not (checkout / "ran").exists()


def test_what_checking_out_converts_is_no_change(github: FakeGitHub, api: GitHubApi, checkout: Path) -> None:
    large = b"weights " * 100
    name = hashlib.sha256(large).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{name}\nsize {len(large)}\n"
    github.files[BASE_SHA]["model.bin"] = pointer.encode()
    (checkout / "model.bin").write_bytes(large)
    (checkout / "data" / "g\xc3\xb6lden.jsonl").write_bytes(b"{}\r\n")
    assert changed_files(api, BASE_SHA, checkout) == ()
    (checkout / "model.bin").write_bytes(large + b"!")
    assert changed_files(api, BASE_SHA, checkout) == ("model.bin",)


@pytest.mark.parametrize(("limit", "count"), [(4, 0), (3, 1)])
def test_line_ends_are_converted_back_in_files_up_to_a_size(
    api: GitHubApi, checkout: Path, monkeypatch: pytest.MonkeyPatch, limit: int, count: int
) -> None:
    monkeypatch.setattr(module, "_CONVERTED_BYTES", limit)
    (checkout / "data" / "g\xc3\xb6lden.jsonl").write_bytes(b"{}\r\n")
    found = changed_files(api, BASE_SHA, checkout)
    assert found is not None
    assert len(found) == count


def test_what_can_not_be_known_is_none(
    github: FakeGitHub, api: GitHubApi, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert changed_files(api, "f" * 40, checkout) is None
    monkeypatch.setattr(module, "MAX_CHECKOUT_BYTES", 1_000)
    assert changed_files(api, BASE_SHA, checkout) is None


def test_a_submodule_that_is_checked_out_can_not_be_compared(
    api: GitHubApi, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"path": "library", "type": "commit", "mode": SUBMODULE, "sha": "d" * 40}
    module_entry = GitTreeElement(api.requester, {}, entry)
    monkeypatch.setattr(module, "list_commit_files", lambda *_: (module_entry,))
    (checkout / "library").mkdir()
    assert changed_files(api, BASE_SHA, checkout) == ()
    (checkout / "library" / "code.py").touch()
    assert changed_files(api, BASE_SHA, checkout) is None
