"""The history over a season of jobs: main adds to it, pull requests read it, a checkout has no say in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.github.evaluate import merged_pull_request
from tests.cli.project import read_rows, write_rows
from tests.github.test_baseline_in_jobs import FLOOR, Season, season

__all__ = ["season"]


def lines(folder: Path) -> list[Any]:
    return [one for one in read_rows(folder / "history.jsonl") if one["kind"] == "run"]


def texts(season: Season) -> list[str]:
    return [finding["text"] for finding in season.checkout.read("report.json")["findings"]]


def test_every_main_run_adds_a_line_also_those_that_fail_and_a_pull_request_adds_none(season: Season) -> None:
    season.checkout.write("thresholds.toml", FLOOR)
    season.merge()
    season.checkout.answer_badly()
    season.merge()
    season.heal()
    season.merge()
    found = lines(season.out)
    assert [one["eligible"] for one in found] == [True, False, True]
    assert [one["github_run"] for one in found] == [901, 902, 903]
    assert {one["event"] for one in found} == {"push"}
    season.job()
    assert not (season.out / "history.jsonl").exists()
    (drift,) = [check for check in season.checkout.read("report.json")["checks"] if check["kind"] == "drift"]
    assert "3 main runs ago" in drift["reason"]


@pytest.mark.heavy
def test_a_history_in_the_checkout_is_not_believed(season: Season) -> None:
    season.merge()
    forged = [{**lines(season.out)[0], "run": f"{number:016x}", "github_run": number} for number in range(1, 9)]
    text = "".join(json.dumps(one) + "\n" for one in forged)
    for event in ("pull_request", "push"):
        season.checkout.write("mine.jsonl", text)
        assert season.job(event, RAGSTONE_HISTORY="mine.jsonl").code == 0
        assert any("is ignored" in warning for warning in texts(season))
        assert (season.checkout.root / "mine.jsonl").read_text(encoding="utf-8") == text
    assert len(lines(season.out)) == 2


def test_a_history_that_was_damaged_on_the_way_is_said_and_goes_on(season: Season) -> None:
    season.job("push")
    with (season.out / "history.jsonl").open("ab") as stream:
        stream.write(b"\xff\xfe not a line\n")
    season.upload()
    season.merge()
    assert any("The history is damaged in 1 line: history.jsonl:3" in warning for warning in texts(season))
    assert len(lines(season.out)) == 2


def lose(season: Season) -> None:
    """A job on main that ends with a loss."""
    season.job("push", GITHUB_SHA="f" * 40)
    found = lines(season.out)
    found[2]["run"] = "e" * 16  # a job of the same second has the same name
    loss = {"metric": "faithfulness", "since": found[2]["run"], "commit": "f" * 40, "loss": 0.25, "shown": True}
    found[2] |= {"eligible": False, "verdict": "fail", "below": [loss]}
    kept = [one for one in read_rows(season.out / "history.jsonl") if one["kind"] == "samples"]
    write_rows(season.out / "history.jsonl", [*kept, *found])


def test_a_branch_below_its_level_is_said_on_top_of_a_pull_request_and_is_its_reference(season: Season) -> None:
    season.merge()
    season.merge()
    lose(season)
    season.upload()
    assert season.job().code == 0
    (warning,) = [warning for warning in texts(season) if "below its level" in warning]
    for fact in ("0.25", "faithfulness", "fffffff", "the newest merge"):
        assert fact in warning


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ("Merge pull request #12 from o/topic\n\nFix it", 12),
        ("Fix it (#7)", 7),
        ("Fix it (#7)\n\n* one (#8)", 7),
        ("Fix #9", None),
        ("Fix it (#0)", None),
        (None, None),
    ],
)
def test_the_pull_request_that_a_commit_merged_is_read_from_its_message(
    message: str | None, number: int | None
) -> None:
    assert merged_pull_request(message) == number
