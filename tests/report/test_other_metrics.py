"""What a summary says of the metrics without a row: those that hold, and those that no rule checks."""

from __future__ import annotations

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.report.document import document_of
from ragstone.report.render import render
from ragstone.report.summary import summary_of
from tests.gate.conftest import build_run, make_manifest

N = 30


def run(**means: float) -> RunScores:
    return build_run({metric: [mean] * N for metric, mean in means.items()}, manifest=make_manifest())


def other_metrics(now: RunScores, before: RunScores | None, *checked: str) -> str:
    rules = {metric: {"max_drop": 0.02, "min": 0.1} for metric in checked}
    policy = policy_from_mapping({"gate": {"only_named": True}, "metrics": rules})
    report = document_of(decide_gate(now, before, policy), now, before)
    text = summary_of(report).other_metrics
    for form in ("md", "html"):
        assert text.split(" (")[0] in " ".join(render(report, form).split())
    return text


BEFORE = run(faithfulness=0.9, answer_relevancy=1.0, context_recall=0.8, tone=0.7)


def test_a_metric_that_no_rule_checks_is_not_said_to_hold() -> None:
    now = run(faithfulness=0.9, answer_relevancy=0.4, context_recall=0.8, tone=0.69)
    assert other_metrics(now, BEFORE, "faithfulness") == (
        "Faithfulness 0.90. 3 more are not checked (Answer relevancy 1.00 → 0.40)."
    )


def test_beside_a_metric_that_fell_those_that_hold_are_counted_apart() -> None:
    now = run(faithfulness=0.5, answer_relevancy=1.0, context_recall=0.8, tone=0.6)
    assert other_metrics(now, BEFORE, "faithfulness", "context_recall") == (
        "1 more metric held. 2 more are not checked (tone 0.70 → 0.60)."
    )


@pytest.mark.parametrize("before", [None, BEFORE], ids=["without a baseline", "as before"])
def test_without_a_loss_the_scores_are_said(before: RunScores | None) -> None:
    assert other_metrics(BEFORE, before, "faithfulness", "context_recall") == (
        "Faithfulness 0.90 and Context recall 0.80. 2 more are not checked (Answer relevancy 1.00, tone 0.70)."
    )


def test_where_all_are_checked_nothing_is_said_of_others() -> None:
    text = other_metrics(BEFORE, BEFORE, "faithfulness", "answer_relevancy", "context_recall", "tone")
    assert "not checked" not in text


def test_where_less_is_better_a_rise_is_the_loss() -> None:
    before, now = run(faithfulness=0.9, hallucination=0.1), run(faithfulness=0.9, hallucination=0.6)
    assert other_metrics(now, before, "faithfulness").endswith("1 more is not checked (Hallucination 0.10 → 0.60).")
