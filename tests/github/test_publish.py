"""What a report is worth a comment for, and what it puts out."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ragstone.evaluation.manifest import Cost
from ragstone.gate.verdict import Action, Status
from ragstone.github.job_report import Report
from ragstone.github.outputs import output_values
from ragstone.report.parts import Document
from tests.report.conftest import helpdesk_report
from tests.report.runs import one_check

PASSED = one_check(Status.PASS, Action.BLOCK)
FAILED = helpdesk_report(Status.FAIL)


def with_cost(cost: Cost | None) -> Document:
    return replace(PASSED, run=replace(PASSED.run, cost=cost))


def outputs(report: Document | None) -> dict[str, str]:
    return output_values(Report(report), "")


def test_coverage_is_that_of_the_metric_that_covers_least_of_the_whole_run() -> None:
    (row,) = PASSED.metrics
    rows: list[dict[str, Any]] = [
        {"metric": "faithfulness", "score": 0.5, "n": 8, "failed": 2},
        {"metric": "context_recall", "score": None, "n": 9, "failed": 1},
        {"metric": "exact_match", "score": 0.25, "slice": "tag", "n": 0, "failed": 5},
        {"metric": "recall@5", "score": 0.75, "n": 0, "failed": 0},
    ]
    found = outputs(replace(PASSED, metrics=tuple(replace(row, **changes) for changes in rows)))
    assert found["coverage"] == "0.8"
    assert (found["faithfulness"], found["context-recall"], found["exact-match"]) == ("0.5", "", "")
    assert found["recall-at-5"] == "0.75"


def test_without_a_verdict_or_a_known_cost_outputs_are_empty() -> None:
    found = outputs(None)
    assert (found["verdict"], found["passed"], found["coverage"], found["cost-usd"]) == ("error", "false", "", "")
    assert outputs(with_cost(None))["cost-usd"] == ""
    assert outputs(with_cost(Cost(calls=4, usd=None)))["cost-usd"] == ""
    assert outputs(with_cost(Cost(calls=4, usd=0.25)))["cost-usd"] == "0.250000"


def test_a_metric_whose_name_no_output_can_have_is_left_out() -> None:
    (row,) = PASSED.metrics
    named = outputs(replace(PASSED, metrics=(replace(row, metric="2nd_half", score=0.5),)))
    assert "2nd-half" not in named
    assert outputs(replace(PASSED, metrics=(replace(row, metric="half", score=0.5),)))["half"] == "0.5"
