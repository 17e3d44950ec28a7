from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ragstone.github.api import base_files
from ragstone.github.api.base_files import list_base_files, read_base_files
from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, FakeGitHub

Read = Callable[..., dict[str, bytes]]


@pytest.fixture
def read(api: GitHubApi, tmp_path: Path) -> Read:
    """Reads paths of the base, each call into a folder of its own."""

    def contents(*paths: str) -> dict[str, bytes]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        found: Mapping[str, Path] = read_base_files(api, BASE_SHA, paths, folder)
        assert {file.relative_to(folder) for file in found.values()} == {Path(path) for path in found}
        return {path: file.read_bytes() for path, file in found.items()}

    return contents


def test_files_come_from_the_base_as_they_stand_there(github: FakeGitHub, read: Read) -> None:
    large = bytes(range(256)) * 6_000  # beyond the megabyte that the API of contents gives
    github.files[BASE_SHA] = {"ragstone.toml": b"[judge]\n", "set one/g\u00f6lden.jsonl": large, "other": b"x"}
    found = read("ragstone.toml", "./set one/g\u00f6lden.jsonl", "pyproject.toml")
    assert found == {"ragstone.toml": b"[judge]\n", "./set one/g\u00f6lden.jsonl": large}


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../outside", ".", "..", "", "no\0name"])
def test_what_leads_out_of_the_repository_is_not_asked_for(github: FakeGitHub, read: Read, path: str) -> None:
    assert read(path) == {}
    assert github.seen == []


def test_a_folder_and_a_link_that_leads_out_are_no_files(github: FakeGitHub, api: GitHubApi, read: Read) -> None:
    github.files[BASE_SHA] = {"data/golden.jsonl": b"{}", "out.toml": "/etc/passwd", "in.toml": "data/golden.jsonl"}
    assert read("data", "out.toml", "in.toml") == {"in.toml": b"{}"}
    assert list_base_files(api, BASE_SHA) == ("data/golden.jsonl",)


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILE_BYTES", 10), ("MAX_TOTAL_BYTES", 20), ("MAX_FILES", 2)])
def test_files_are_read_up_to_each_limit(
    github: FakeGitHub, read: Read, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    github.files[BASE_SHA] = {"a": b"0123456789", "b": b"0123456789"}
    monkeypatch.setattr(base_files, limit, value)
    assert len(read("a", "b")) == 2
    monkeypatch.setattr(base_files, limit, value - 1)
    with pytest.raises(GitHubApiError, match="than"):
        read("a", "b")


def test_a_token_that_may_not_read_contents_is_told_apart_from_an_absent_file(github: FakeGitHub, read: Read) -> None:
    for actor in github.actors.values():
        actor.reads = ALL_RIGHTS - {"contents"}
    with pytest.raises(GitHubApiError) as caught:
        read("ragstone.toml")
    assert caught.value.kind is ApiErrorKind.REFUSED
