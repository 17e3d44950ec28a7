"""Looks of pull requests: main counts the artifacts that they left, and takes nothing else from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ci.github.fake import FORK_ID, FakeGitHub
from tests.job.builders import Checkout
from tests.job.test_baseline_in_jobs import Season


@pytest.fixture
def season(github: FakeGitHub, tmp_path: Path) -> Season:
    return Season(github, Checkout(tmp_path))


def left(season: Season, number: int, sha: str, *, at: str = "2026-12-01T00:00:00Z", **run: Any) -> None:
    """An artifact that a pull request's run left; its content can't be read."""
    found = season.github.add_artifact(number, b"not an archive", created_at=at)
    found["workflow_run"].update({"head_branch": "topic", "head_sha": sha, "id": number, **run})


def looks(season: Season) -> list[Any]:
    lines = map(json.loads, (season.out / "history.jsonl").read_text(encoding="utf-8").splitlines())
    return [one for one in lines if one["kind"] == "look"]


def test_main_counts_the_runs_and_the_commits_of_pull_requests_since_its_newest_run(season: Season) -> None:
    season.merge()
    assert looks(season) == []
    for number, sha in ((1, "a" * 40), (2, "a" * 40), (3, "b" * 40)):
        left(season, number, sha)
    left(season, 3, "b" * 40)  # another attempt
    left(season, 4, "c" * 40, head_branch="main", head_repository_id=FORK_ID)
    left(season, 5, "d" * 40, head_branch="main")
    left(season, 6, "e" * 40, head_branch="gh-readonly-queue/main/pr-1")
    season.merge()
    (found,) = looks(season)
    assert (found["by"], found["candidates"]) == ({"pull_request": 4.0}, 3.0)
    first = json.loads((season.out / "history.jsonl").read_text(encoding="utf-8").splitlines()[1])
    assert (found["golden"], found["samples"]) == (first["golden"], first["samples"])


def test_what_is_older_than_the_last_count_is_not_counted_again(season: Season) -> None:
    season.merge()
    left(season, 1, "a" * 40, at="2020-01-01T00:00:00Z")
    season.merge()
    assert looks(season) == []


def test_a_list_that_is_flooded_or_can_t_be_read_costs_nothing_but_the_number(season: Season) -> None:
    season.merge()
    for number in range(1, 700):
        left(season, number, f"{number:040x}")
    assert season.merge().code == 0
    (found,) = looks(season)
    assert found["by"] == {"pull_request": 500.0}
    listed = [one for one in season.github.seen if one.path.endswith("/actions/artifacts")]
    assert len(listed) <= 10


def test_a_pull_request_adds_no_line_and_asks_for_no_list(season: Season) -> None:
    season.merge()
    left(season, 1, "a" * 40)
    asked = len(season.github.seen)
    season.job()
    assert not (season.out / "history.jsonl").exists()
    assert not [one for one in season.github.seen[asked:] if one.path.endswith("/actions/artifacts")]
