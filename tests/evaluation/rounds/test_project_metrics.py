"""The metrics that the floors of golden rows ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import GoldenSetError
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.sources import SystemSource
from ragstone.golden.sample import Assertions, ExpectedCall, GoldenSet, Origin, Sample
from ragstone.metrics.registry import DEFAULT
from ragstone.settings.settings import CustomMetric, SystemSettings

TONE = {"tone": CustomMetric(rubric="Is it polite?")}


def selected(names: tuple[str, ...] | None = None, **bounds: Any) -> list[str]:
    golden = GoldenSet([Sample("a", "Q?", origin=Origin("golden.jsonl", 3), **bounds)])
    source = SystemSource(SystemSettings(entrypoint="app:answer"), Path())
    return [metric.info.name for metric in ProjectMetrics(source, TONE, names).select(golden)]


def test_what_a_sample_must_reach_is_measured() -> None:
    assert "answer_similarity" not in selected()
    assert "answer_similarity" in selected(min={"answer_similarity": 0.5})
    assert selected(("faithfulness",), min={"tone": 1.0}, max={"hallucination": 0.2}) == [
        "faithfulness",
        "hallucination",
        "tone",
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, set()),
        ({"reference_contexts": ("A", "B"), "hops": (1, 2)}, {"hop_recall", "hop_precision"}),
        ({"tools": (ExpectedCall(("lookup",)),)}, {"tool_selection"}),
        ({"tools": (ExpectedCall(("lookup",), {"id": 7}),)}, {"tool_selection", "tool_arguments"}),
        ({"expects_clarification": True}, {"clarification"}),
        ({"assertions": Assertions(max_words=50)}, {"assertions"}),
        ({"relevant_ids": {"d1": 1.0}}, {"recall@5", "ndcg@10"}),
    ],
)
def test_labels_switch_on_the_metrics_that_read_them(labels: dict[str, Any], expected: set[str]) -> None:
    assert set(selected(**labels)) - {*DEFAULT, "context_precision_no_reference", "tone"} == expected


@pytest.mark.parametrize(
    ("bounds", "said", "hint"),
    [
        ({"min": {"faithfulnes": 0.5}}, "'min' of faithfulnes: unknown metric", "Did you mean 'faithfulness'?"),
        ({"min": {"hallucination": 0.5}}, "less is better for hallucination", "Use 'max'."),
        ({"max": {"faithfulness": 0.5}}, "more is better for faithfulness", "Use 'min'."),
    ],
)
def test_a_floor_that_can_not_be_is_refused_with_its_place(bounds: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(GoldenSetError, match=r"golden\.jsonl:3") as caught:
        selected(**bounds)
    assert said in caught.value.message
    assert caught.value.hint == hint
