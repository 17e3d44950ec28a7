from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.github.api import base_files
from ragstone.github.api.base_files import list_base_files, read_base_files
from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, FakeGitHub


def test_files_come_from_the_base_as_they_stand_there(github: FakeGitHub, api: GitHubApi, tmp_path: Path) -> None:
    github.files[BASE_SHA] = {"ragstone.toml": b"[judge]\n", "data/set one/gölden.jsonl": b"{}\n", "other": b"x"}
    wanted = ("ragstone.toml", "./data/set one/gölden.jsonl", "pyproject.toml")
    found = read_base_files(api, BASE_SHA, wanted, tmp_path / "base")
    assert found == {
        "ragstone.toml": tmp_path / "base" / "ragstone.toml",
        "./data/set one/gölden.jsonl": tmp_path / "base" / "data" / "set one" / "gölden.jsonl",
    }
    assert {path: file.read_bytes() for path, file in found.items()} == {
        "ragstone.toml": b"[judge]\n",
        "./data/set one/gölden.jsonl": b"{}\n",
    }
    assert not (tmp_path / "base" / "other").exists()


def test_a_file_beyond_the_megabyte_that_the_contents_api_gives_comes_whole(
    github: FakeGitHub, api: GitHubApi, tmp_path: Path
) -> None:
    body = bytes(range(256)) * 6_000
    github.files[BASE_SHA] = {"golden.jsonl": body}
    found = read_base_files(api, BASE_SHA, ["golden.jsonl"], tmp_path / "base")
    assert found["golden.jsonl"].read_bytes() == body


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../outside", ".", "", "no\0name"])
def test_what_leads_out_of_the_repository_is_not_asked_for(
    github: FakeGitHub, api: GitHubApi, tmp_path: Path, path: str
) -> None:
    assert read_base_files(api, BASE_SHA, [path], tmp_path / "base") == {}
    assert github.seen == []


def test_a_folder_and_a_link_that_leads_out_are_no_files(github: FakeGitHub, api: GitHubApi, tmp_path: Path) -> None:
    github.files[BASE_SHA] = {"data/golden.jsonl": b"{}", "out.toml": "/etc/passwd", "in.toml": "data/golden.jsonl"}
    found = read_base_files(api, BASE_SHA, ["data", "out.toml", "in.toml"], tmp_path / "base")
    assert {path: file.read_bytes() for path, file in found.items()} == {"in.toml": b"{}"}


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILE_BYTES", 9), ("MAX_TOTAL_BYTES", 19), ("MAX_FILES", 1)])
def test_more_than_is_bounded_is_refused(
    github: FakeGitHub, api: GitHubApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    github.files[BASE_SHA] = {"a": b"0123456789", "b": b"0123456789"}
    assert len(read_base_files(api, BASE_SHA, ["a", "b"], tmp_path / "enough")) == 2
    monkeypatch.setattr(base_files, limit, value)
    with pytest.raises(GitHubApiError, match="than"):
        read_base_files(api, BASE_SHA, ["a", "b"], tmp_path / "base")


def test_a_token_that_may_not_read_contents_is_told_apart_from_an_absent_file(
    github: FakeGitHub, api: GitHubApi, tmp_path: Path
) -> None:
    for actor in github.actors.values():
        actor.reads = ALL_RIGHTS - {"contents"}
    with pytest.raises(GitHubApiError) as caught:
        read_base_files(api, BASE_SHA, ["ragstone.toml"], tmp_path / "base")
    assert caught.value.kind is ApiErrorKind.REFUSED


def test_listing_names_regular_files_only(github: FakeGitHub, api: GitHubApi) -> None:
    github.files[BASE_SHA] = {"data/one.jsonl": b"{}", "data/two.jsonl": b"{}", "link.jsonl": "data/one.jsonl"}
    assert list_base_files(api, BASE_SHA) == ("data/one.jsonl", "data/two.jsonl")
