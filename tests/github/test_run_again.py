"""Jobs of one pull request that run again: the answers of earlier ones count, if they are of the same files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from tests.github.api.payloads import MERGE_SHA
from tests.github.builders import Outcome
from tests.github.runs import artifact_of
from tests.github.test_baseline_in_jobs import Season, season
from tests.system.service import Reply, Server, said

__all__ = ["season"]

N = 20
LOST = 8
"""Questions: enough to fail by one answer each."""
CONFIG = """
[golden]
paths = "golden.jsonl"
[system]
entrypoint = "{url}/ask"
version = "1"
[run]
metrics = ["token_f1"]
"""


@pytest.fixture
def service() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def answer(service: Server, wrong: int) -> None:
    """From now on, `wrong` of the questions get bad answers, in other words each time."""

    def reply(_path: str, body: Any) -> Reply:
        number = int(body["question"].removeprefix("What is ").removesuffix("?"))
        return said({"answer": f"No{'o' * len(service.seen)}" if number < wrong else f"It is {number}."})

    service.reply = reply


def pull(season: Season) -> Outcome:
    """A job of the pull request, and its upload."""
    outcome = season.job()
    season.run.update(status="completed")
    season.github.add_artifact(season.run["id"], artifact_of(season.out))
    return outcome


def test_a_red_pull_request_is_not_green_by_an_empty_commit(season: Season, service: Server) -> None:
    checkout = season.checkout
    rows = [{"id": f"q{i}", "question": f"What is {i}?", "reference": f"It is {i}."} for i in range(N)]
    checkout.write_golden(rows)
    checkout.write("ragstone.toml", CONFIG.format(url=service.url))
    checkout.write("thresholds.toml", "[gate]\nconfirm = false\n[metrics.token_f1]\nmax_drop = 0.0\n")
    checkout.is_base()
    season.github.trees[MERGE_SHA] = "3" * 40
    answer(service, 0)
    season.merge()
    checkout.reports_again = True
    answer(service, LOST)
    assert pull(season).code == 1
    before = len(service.seen)
    answer(service, LOST // 2)
    second = pull(season)
    assert second.code == 1
    assert len(service.seen) == before + N, "the earlier run costs no answer"
    for text in (second.summary, checkout.comments[-1]):
        assert "Counts the answers of 1 earlier run of the same files." in text
    report = checkout.read("report.json")
    assert any("1 earlier run of the same files" in finding["text"] for finding in report["findings"])
    assert report["run"]["answers"] == 2
    run = RunDirectory.open(season.out)
    assert (run.manifest.answers, run.manifest.earlier, run.manifest.own_answers) == (2, (1,), 1)
    record = next(record for record in run.records() if record.sample.id == f"q{LOST - 1}")
    assert record.response.answer == f"It is {LOST - 1}."
    assert record.answers[1].response.answer.startswith("No")
