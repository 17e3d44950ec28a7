"""The metrics that the floors of golden rows ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError, GoldenSetError
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
    found = selected(("faithfulness",), min={"tone": 1.0}, max={"hallucination": 0.2})
    assert found == ["faithfulness", "hallucination", "tone"]


@pytest.mark.parametrize(
    ("referenced", "bare", "rare"),
    [
        (10, 4, {"context_precision_no_reference"}),
        (10, 5, set()),
        (10, 0, set()),
        (3, 4, {"context_precision"}),
        (4, 4, set()),
    ],
)
def test_of_two_metrics_of_a_family_one_of_few_samples_is_left_out(referenced: int, bare: int, rare: set[str]) -> None:
    samples = [Sample(f"r{number}", "Q?", reference="R.") for number in range(referenced)]
    samples += [Sample(f"b{number}", "Q?") for number in range(bare)]
    source = SystemSource(SystemSettings(entrypoint="app:answer"), Path())
    chosen = {metric.info.name for metric in ProjectMetrics(source).select(GoldenSet(samples))}
    assert {"context_precision", "context_precision_no_reference"} - chosen == rare


@pytest.mark.parametrize(
    ("part", "names", "said"),
    [
        ("retrieval", ("faithfulness",), "faithfulness can't be measured with part"),
        ("generation", ("context_recall", "hit_rate@5"), "context_recall, hit_rate@5 can't be measured with part"),
        ("retrieval", ("context_recall",), None),
        ("generation", ("faithfulness",), None),
    ],
)
def test_metrics_of_the_other_half_are_refused(part: str, names: tuple[str, ...], said: str | None) -> None:
    source = SystemSource(SystemSettings.model_validate({"entrypoint": "app:answer", "part": part}), Path())
    metrics = ProjectMetrics(source, selected=names)
    if said is None:
        assert [metric.info.name for metric in metrics.select(GoldenSet(()))] == list(names)
        return
    with pytest.raises(ConfigError, match=said):
        metrics.select(GoldenSet(()))


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
        ({"min": {"hallucination": 0.5}}, "less is better", "Use 'max'."),
        ({"max": {"faithfulness": 0.5}}, "more is better", "Use 'min'."),
    ],
)
def test_a_floor_that_can_not_be_is_refused_with_its_place(bounds: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(GoldenSetError, match=r"golden\.jsonl:3") as caught:
        selected(**bounds)
    assert said in caught.value.message
    assert caught.value.hint == hint
