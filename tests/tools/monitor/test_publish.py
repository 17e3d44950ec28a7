"""What a monitor says on GitHub: a summary, and an issue for as long as an alert fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.cli.monitor import publish_monitored
from ragstone.evaluation.redact import Redactor
from ragstone.stats.surveillance import Look
from ragstone.tools.monitor.figures import Figure, Window, kind_of
from ragstone.tools.monitor.outcome import LogRead, Monitored, Watched
from tests.github.api.conftest import QUICK
from tests.github.api.fake import FakeGitHub
from tests.github.builders import Checkout


def found(*, alarm: bool, log: str = "log.jsonl") -> Monitored:
    look = Look(30, 3.0, 3.0, alarm=alarm, since=29, level=0.11)
    kind = kind_of("error_rate")
    errors = Watched("error_rate", kind, "fail", 0.02, 0.12, 0.05, 0.02, 28, 28, look, "2026-11-20", 0.11)
    window = Window("2026-11-21", {"interactions": Figure(100.0), "error_rate": Figure(0.12, 100.0, 0.1)})
    return Monitored((LogRead(log, new=100),), (window,), ("2026-11-21",), (errors,), (), "day", "UTC")


@pytest.fixture
def checkout(github: FakeGitHub, tmp_path: Path) -> Checkout:
    return Checkout(github, tmp_path)


def publish(checkout: Checkout, what: Monitored, **more: str) -> list[str]:
    said: list[str] = []
    environ = checkout.environ("schedule", **more)
    publish_monitored(what, environ, Redactor(()), said.append, patience=QUICK)
    return said


def test_an_issue_is_opened_updated_and_closed(github: FakeGitHub, checkout: Checkout) -> None:
    assert "was opened" in publish(checkout, found(alarm=True))[0]
    assert "was updated" in publish(checkout, found(alarm=True))[0]
    (issue,) = github.issues
    assert issue["title"] == "Ragstone: production has become worse"
    assert "errors" in issue["body"]
    assert "was closed" in publish(checkout, found(alarm=False))[0]
    assert github.issues[0]["state"] == "closed"
    assert publish(checkout, found(alarm=False)) == []


def test_the_issue_of_the_gate_is_another(github: FakeGitHub, checkout: Checkout) -> None:
    publish(checkout, found(alarm=True))
    publish(checkout, found(alarm=True), RAGSTONE_COMMENT_ID="shop")
    assert [issue["title"] for issue in github.issues] == [
        "Ragstone: production has become worse",
        "Ragstone (shop): production has become worse",
    ]


def test_the_summary_has_the_table_and_no_markup_of_a_file_name(checkout: Checkout) -> None:
    environ = checkout.environ("schedule")
    what = found(alarm=True, log="<img src=x> @team `x`|")
    publish_monitored(what, environ, Redactor(()), lambda _: None, patience=QUICK)
    summary = Path(environ["GITHUB_STEP_SUMMARY"]).read_text()
    assert "| errors | 12 % | 5 % | 2 % | FAIL |" in summary
    assert "<img" not in summary
    assert "@team" not in summary


def test_without_a_token_there_is_a_summary_and_a_notice(checkout: Checkout) -> None:
    said = publish(checkout, found(alarm=True), RAGSTONE_GITHUB_TOKEN="", GITHUB_TOKEN="")
    assert said == ["No issue was opened: GITHUB_TOKEN is not set."]


def test_a_refusal_is_a_notice(github: FakeGitHub, checkout: Checkout) -> None:
    github.fail("POST", "/issues$", status=403)
    (said,) = publish(checkout, found(alarm=True))
    assert "issues: write" in said
