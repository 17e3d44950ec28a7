"""Titles, phrases and numbers as a reader wants them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import default_policy
from ragstone.gate.verdict import CheckKind
from ragstone.metrics.score import Failed
from ragstone.report.document import check_part
from ragstone.report.filters import PHRASES, other_checks
from ragstone.report.render import render
from ragstone.report.summary import summary_of
from tests.report.conftest import helpdesk_report


@pytest.mark.parametrize(("n", "left_out", "named"), [(1, 9, True), (4, 6, True), (6, 4, False), (10, 0, False)])
def test_a_score_of_few_samples_says_of_how_many(n: int, left_out: int, named: bool) -> None:
    report = helpdesk_report()
    rows = tuple(
        replace(row, n=n, not_applicable=left_out, status=None, score=1.0, change=None, current=None)
        for row in report.metrics
    )
    report = replace(report, metrics=rows, checks=())
    for form in ("text", "md", "html"):
        text = render(replace(report, metrics=tuple(replace(row, check=None) for row in rows)), form)
        assert (f"1.00 (n = {n})" in text.replace("&nbsp;", " ").replace("\u00a0", " ")) is named
    assert (f"1.00 (n = {n})" in summary_of(report).other_metrics.replace("\u00a0", " ")) is named


def test_metrics_that_lost_the_same_samples_share_a_row() -> None:
    values = {f"q{number}": 0.9 for number in range(5)}
    lost = {f"x{number}": Failed("judge", "timeout") for number in range(4)}
    names = ("faithfulness", "context_recall", "context_precision")
    metrics = {name: MetricScores(values, failed=lost) for name in names}
    metrics["answer_relevancy"] = MetricScores(values, failed={**lost, "y": Failed("judge", "refused")})
    samples = dict.fromkeys([*values, *lost, "y"], SampleFacts())
    checks = map(check_part, decide_gate(RunScores("run", metrics, samples), None, default_policy()).checks)
    assert [(row.title, row.n) for row in other_checks(checks) if row.kind == CheckKind.COVERAGE] == [
        ("Coverage: Faithfulness, Context recall, Context precision", 9),
        ("Coverage: Answer relevancy", 10),
    ]


def test_without_a_baseline_nothing_got_worse() -> None:
    worst = helpdesk_report().samples.worst
    assert PHRASES["worst_heading"](worst) == "What got worse"
    alone = [replace(sample, changes=tuple(replace(c, baseline=None) for c in sample.changes)) for sample in worst]
    assert PHRASES["worst_heading"](alone) == "What falls short"
