"""Where retrieval falls, ids of an earlier corpus are told from a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragstone.pipeline.gate import GatedRun
from tests.pipeline.project import Project

N = 20
IDS = tuple(f"q{i:02}" for i in range(N))
Contexts = list[tuple[str, str]]


def evidence(i: int) -> str:
    return f"The house number {i} in Mill Lane was painted in the year {1900 + i} by its owner."


def contexts(i: int) -> Contexts:
    return [
        (f"h{i}-0", evidence(i)),
        (f"h{i}-1", f"Its garden of {i} square metres has an old pear tree beside the well."),
        (f"h{i}-2", f"A bus to the harbour stops every {i} minutes in front of it."),
    ]


def rechunked(i: int) -> Contexts:
    words = " ".join(text for _, text in contexts(i)).split()
    return [(f"new{i}-{n}", " ".join(words[n : n + 8])) for n in range(0, len(words), 8)]


def moved(i: int) -> Contexts:
    """The evidence is gone from three, and ranks lower in five."""
    first, second, third = contexts(i)
    if i < 3:
        return [(f"x{i}", "Nothing of this has to do with the question, however long it may be."), second]
    return [second, third, first] if i < 8 else [first, second, third]


def answer(project: Project, retrieve: Callable[[int], Contexts]) -> None:
    rows = []
    for i, name in enumerate(IDS):
        retrieved = [{"id": key, "text": text} for key, text in retrieve(i)]
        rows.append({"id": name, "answer": evidence(i), "contexts": retrieved})
    project.write("outputs.jsonl", rows)


def compared(project: Project, label: str, change: Callable[[int], Contexts], *metrics: str) -> GatedRun:
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(IDS):
        question = f"When was the house painted that has number {i}?"
        labels = {"ids": {"relevant_ids": [f"h{i}-0"]}, "text": {"reference_contexts": [evidence(i)]}, "none": {}}
        rows.append({"id": name, "question": question, "reference": evidence(i), **labels[label]})
    project.write("golden.jsonl", rows)
    project.policy("".join(f'[metrics."{name}"]\nmax_drop = 0.02\n' for name in metrics))
    project.judge = "offline"
    project.defaults = {"run__metrics": metrics}
    answer(project, contexts)
    project.gate("main")
    answer(project, change)
    return project.gate("out", "main")


def warned(outcome: GatedRun) -> list[str]:
    return [text for text in outcome.document.warnings if text.startswith("relevant_ids no longer fit")]


def test_ids_of_an_earlier_corpus_are_told_from_a_loss(project: Project) -> None:
    outcome = compared(project, "ids", rechunked, "recall@10")
    assert outcome.verdict.explanation.outdated_ids == IDS
    (warning,) = warned(outcome)
    assert "in 20 samples the evidence is still returned" in warning


@pytest.mark.parametrize(("label", "metric"), [("text", "mrr"), ("ids", "mrr"), ("none", "context_precision")])
def test_evidence_that_is_gone_or_ranks_lower_is_a_loss(project: Project, label: str, metric: str) -> None:
    assert warned(compared(project, label, moved, metric)) == []
