"""What of a sample a metric's score depends on, besides the question: an edit of anything else leaves it alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ragstone.evaluation.scoring import judge_sample
from ragstone.golden.sample import LABELS, Assertions, ExpectedCall, Label, Sample
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import METRICS, labels_of
from ragstone.metrics.score import Score
from ragstone.system.response import Context, Response, Retrieval, ToolCall

SAMPLE = Sample(
    "a",
    "How long is the warranty?",
    reference="The warranty is 24 months.",
    reference_contexts=("The warranty is 24 months.",),
    relevant_ids={"d1": 1.0},
    assertions=Assertions(must_contain=("24",)),
    hops=(1,),
    tools=(ExpectedCall(("lookup",), {"id": 7}),),
)
EDITED: dict[Label, Sample] = {
    "reference": replace(SAMPLE, reference="Shipping costs 5 euros."),
    "reference_contexts": replace(SAMPLE, reference_contexts=("Shipping costs 5 euros.",)),
    "relevant_ids": replace(SAMPLE, relevant_ids={"d2": 1.0}),
    "answerable": replace(SAMPLE, answerable=False),
    "assertions": replace(SAMPLE, assertions=Assertions(must_contain=("36",))),
    "tools": replace(SAMPLE, tools=(ExpectedCall(("lookup",), {"id": 8}),)),
}
CONTEXTS = (Context("The warranty is 24 months.", "d1"), Context("We ship to Mars.", "d3"))
RESPONSE = Response(
    "a",
    "The warranty is 24 months. [1]",
    CONTEXTS,
    latency_s=1.0,
    steps=(Retrieval("warranty", CONTEXTS), ToolCall("lookup", {"id": 7})),
)


def score(metric: Metric, sample: Sample) -> Score:
    judged = judge_sample(OfflineJudge(), [metric], sample, [RESPONSE])
    return asyncio.run(judged).scores[metric.info.name]


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if not metric.info.is_relative])
def test_an_edit_of_a_label_that_a_metric_does_not_read_leaves_its_score_alone(name: str) -> None:
    metric = METRICS[name]
    for label in LABELS:
        if label not in metric.labels:
            assert score(metric, EDITED[label]) == score(metric, SAMPLE), label


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("faithfulness", {"answerable"}),
        ("context_recall", {"answerable", "reference"}),
        ("recall@5", {"relevant_ids", "reference_contexts"}),
        ("latency_within@5", set()),
        ("a_metric_of_the_project", {"reference"}),
    ],
)
def test_what_metrics_read(name: str, reads: set[str]) -> None:
    assert labels_of(name) == reads
