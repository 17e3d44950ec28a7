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

CODE = b"def answer(question): ...\n"
LARGE = b"weights " * 100
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(LARGE).hexdigest()}\nsize 800\n"
FILES: dict[str, bytes | str] = {
    "rag.py": CODE,
    "data/g\u00f6lden.jsonl": b"{}\n",
    "data/picture.png": bytes(range(256)) * 9_000,
    "latest": "data",
    "empty": b"",
    "model.bin": POINTER.encode(),
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


def writing(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda checkout: (checkout / name).write_bytes(content)


def link_elsewhere(checkout: Path) -> None:
    (checkout / "latest").unlink()
    (checkout / "latest").symlink_to("empty")


def link_out(checkout: Path) -> None:
    (checkout.parent / "same.py").write_bytes(CODE)
    (checkout / "rag.py").unlink()
    (checkout / "rag.py").symlink_to("../same.py")


def put_a_pipe_there(checkout: Path) -> None:
    (checkout / "rag.py").unlink()
    os.mkfifo(checkout / "rag.py")


def hide_from_git(checkout: Path) -> None:
    """With what git would be told not to look, and to run."""
    (checkout / "rag.py").write_bytes(b"def answer(question): return 'fine'\n")
    (checkout / ".git").mkdir()
    (checkout / ".git" / "config").write_text("[core]\n\tfsmonitor = touch ran\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (writing("index.bin", b"built"), ()),
        (writing("data/g\u00f6lden.jsonl", b"{}\r\n"), ()),
        (writing("model.bin", LARGE), ()),
        (writing("model.bin", LARGE + b"!"), ("model.bin",)),
        (lambda checkout: (checkout / "rag.py").unlink(), ("rag.py",)),
        (link_elsewhere, ("latest",)),
        (link_out, ("rag.py",)),
        (put_a_pipe_there, ("rag.py",)),
        (hide_from_git, ("rag.py",)),
    ],
    ids=[
        *("a new file", "line ends of Windows", "what Git LFS fetched", "another file than it fetched"),
        *("a removed file", "another link", "a link out", "a pipe", "an edit that git is told to hide"),
    ],
)
def test_files_are_changed_that_are_not_as_checking_out_makes_them(
    api: GitHubApi, checkout: Path, change: Callable[[Path], object], names: tuple[str, ...]
) -> None:
    change(checkout)
    assert changed_files(api, BASE_SHA, checkout) == names
    assert not (checkout / "ran").exists()


@pytest.mark.parametrize(("limit", "count"), [(4, 0), (3, 1)])
def test_line_ends_are_converted_back_in_files_up_to_a_size(
    api: GitHubApi, checkout: Path, monkeypatch: pytest.MonkeyPatch, limit: int, count: int
) -> None:
    monkeypatch.setattr(module, "_MAX_TEXT_BYTES", limit)
    (checkout / "data" / "g\u00f6lden.jsonl").write_bytes(b"{}\r\n")
    assert len(changed_files(api, BASE_SHA, checkout) or ()) == count


def test_what_can_not_be_known_is_none(api: GitHubApi, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert changed_files(api, "f" * 40, checkout) is None
    total = sum((checkout / name).lstat().st_size for name in FILES)
    for limit, found in ((total, ()), (total - 1, None)):
        monkeypatch.setattr(module, "MAX_CHECKOUT_BYTES", limit)
        assert changed_files(api, BASE_SHA, checkout) == found


def test_a_submodule_that_is_checked_out_can_not_be_compared(
    api: GitHubApi, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"path": "library", "type": "commit", "mode": SUBMODULE, "sha": "d" * 40}
    monkeypatch.setattr(module, "list_commit_files", lambda *_: (GitTreeElement(api, {}, entry),))
    (checkout / "library").mkdir()
    assert changed_files(api, BASE_SHA, checkout) == ()
    (checkout / "library" / "code.py").touch()
    assert changed_files(api, BASE_SHA, checkout) is None
