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


BEFORE = run(faithfulness=0.9, answer_relevancy=1.0, context_recall=0.8, tone=0.7)
LESS_RELEVANT = run(faithfulness=0.9, answer_relevancy=0.4, context_recall=0.8, tone=0.69)
UNFAITHFUL = run(faithfulness=0.5, answer_relevancy=1.0, context_recall=0.8, tone=0.6)
SCORES = "Faithfulness 0.90 and Context recall 0.80. 2 more are not checked (Answer relevancy 1.00, tone 0.70)."
ALL = "faithfulness answer_relevancy context_recall tone"


@pytest.mark.parametrize(
    ("now", "before", "checked", "said"),
    [
        (
            LESS_RELEVANT,
            BEFORE,
            "faithfulness",
            "Faithfulness 0.90. 3 more are not checked (Answer relevancy 1.00 → 0.40).",
        ),
        (
            UNFAITHFUL,
            BEFORE,
            "faithfulness context_recall",
            "1 more metric held. 2 more are not checked (tone 0.70 → 0.60).",
        ),
        (BEFORE, None, "faithfulness context_recall", SCORES),
        (BEFORE, BEFORE, "faithfulness context_recall", SCORES),
        (BEFORE, BEFORE, ALL, "Faithfulness 0.90, Answer relevancy 1.00, Context recall 0.80 and tone 0.70."),
        (
            run(faithfulness=0.9, hallucination=0.6),
            run(faithfulness=0.9, hallucination=0.1),
            "faithfulness",
            "Faithfulness 0.90. 1 more is not checked (Hallucination 0.10 → 0.60).",
        ),
    ],
    ids=["unchecked fell", "beside a loss", "no baseline", "no loss", "all are checked", "less is better"],
)
def test_what_is_said_of_the_metrics_without_a_row(
    now: RunScores, before: RunScores | None, checked: str, said: str
) -> None:
    rules = {metric: {"max_drop": 0.02, "min": 0.1} for metric in checked.split()}
    policy = policy_from_mapping({"gate": {"only_named": True}, "metrics": rules})
    report = document_of(decide_gate(now, before, policy), now, before)
    assert summary_of(report).other_metrics == said
    for form in ("md", "html"):
        assert said.split(" (")[0] in " ".join(render(report, form).split())
