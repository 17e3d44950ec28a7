"""What the oracle round asks, and which metrics it divides."""

from __future__ import annotations

from ragstone.evaluation.rounds.oracle import divisible_metrics, samples_with_contexts
from ragstone.golden.sample import GoldenSet, Origin, Sample
from ragstone.metrics.registry import select_metrics


def test_metrics_of_answers_are_divided_and_those_of_contexts_are_not() -> None:
    metrics = select_metrics(["faithfulness", "context_recall", "answer_relevancy", "hit_rate@5"])
    assert [metric.info.name for metric in divisible_metrics(metrics)] == ["faithfulness", "answer_relevancy"]


def test_samples_with_contexts_to_give_are_asked_again() -> None:
    origin = Origin("golden.jsonl", 1)
    given = Sample(id="given", question="How far?", reference_contexts=("Far.",), origin=origin)
    bare = Sample(id="bare", question="How near?", origin=origin)
    assert [sample.id for sample in samples_with_contexts(GoldenSet((given, bare)))] == ["given"]
