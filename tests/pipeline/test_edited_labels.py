"""A gate whose golden set was edited since its baseline: an edit of metadata discards no comparison."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import Check, CheckKind
from ragstone.pipeline.compare import compare
from ragstone.pipeline.gate import GateOutcome
from tests.pipeline.project import Project, drop

N = 30
EDITED = 26
POLICY = """
[gate]
confirm = false
[system]
max_broken = 1.0
[metrics.context_recall]
max_drop = 0.05
"""
COLOURS = ["red", "green", "blue", "white", "yellow"]
REFERENCE: dict[str, Any] = {"reference": lambda n: f"It is painted {COLOURS[n % 5]}."}


def fact(n: int) -> str:
    return f"House number {n} is painted {COLOURS[n % 5]}."


@pytest.fixture
def project(project: Project) -> Project:
    """A project with a baseline in `main`, of healthy answers."""
    project.policy(POLICY)
    project.judge = "offline"
    edit(project)
    answer(project)
    project.gate("main")
    return project


def edit(project: Project, *, ids: bool = True, **labels: Any) -> None:
    """Write the golden set; `labels` are set in most rows, each a value, or a function of the number."""
    rows = []
    for n in range(N):
        row: dict[str, Any] = {
            "id": f"q{n}",
            "question": f"What is the colour of house number {n}?",
            "reference": fact(n),
        }
        if n < EDITED:
            row |= {name: value(n) if callable(value) else value for name, value in labels.items()}
        rows.append({name: value for name, value in row.items() if value and (ids or name != "id")})
    project.write("golden.jsonl", rows)


def answer(project: Project, *, broken: bool = False) -> None:
    """Answer all questions; a broken retriever finds other houses."""
    rows = []
    for n in range(N):
        other = n + 7 if broken else n
        contexts = [{"id": f"d{other}", "text": fact(other)}]
        rows.append({"question": f"What is the colour of house number {n}?", "answer": fact(n), "contexts": contexts})
    project.write("outputs.jsonl", rows)


def recall_drop(outcome: GateOutcome) -> Check:
    return drop(outcome, "context_recall")


def test_an_edit_that_a_metric_does_not_read_keeps_its_baseline(project: Project) -> None:
    labels: dict[str, Any] = {
        "group": "one street",
        "tags": ["new"],
        "assertions": {"max_words": 50},
        "relevant_ids": lambda n: [f"d{n}"],
        "reference_contexts": lambda n: [fact(n)],
    }
    edit(project, **labels)
    found = project.gate("same", "main")
    assert (found.exit_code, recall_drop(found).n) == (0, N)
    assert not any("labels" in warning for warning in found.verdict.warnings)


@pytest.mark.heavy
@pytest.mark.parametrize("ids", [True, False], ids=["ids", "ids from the content"])
def test_the_baseline_is_scored_again_by_edited_references(project: Project, ids: bool) -> None:
    edit(project, ids=ids)
    project.gate("main")
    edit(project, ids=ids, **REFERENCE)
    found = project.gate("same", "main", reported_again=ids)
    assert (found.exit_code, recall_drop(found).n) == (0, N)
    assert f"labels of {EDITED} samples changed" in found.verdict.warnings[0]
    assert found.verdict.comparability is not None
    assert not found.verdict.comparability.skipped
    answer(project, broken=True)
    found = project.gate("broken", "main")
    assert (found.exit_code, recall_drop(found).n) == (1, N)


def test_scores_of_the_baseline_are_those_by_the_labels_of_now(project: Project) -> None:
    """References that no context of either run holds: nothing was lost, whatever the baseline scored then."""
    edit(project, reference="Bananas were invented in 1850.")
    check = recall_drop(project.gate("same", "main"))
    assert (check.n, check.estimate) == (N, 0.0)
    assert check.baseline is not None
    assert check.baseline < 0.5 < project.opened("main").scores()["context_recall"].values["q0"]


def test_a_metric_without_labels_any_more_ends_with_6(project: Project) -> None:
    edit(project, reference=None)
    found = project.gate("same", "main")
    [check] = [check for check in found.verdict.checks if check.kind is CheckKind.GOLDEN_SET]
    assert found.exit_code == 6
    assert found.verdict.reason == check.reason
    assert f"{EDITED} of {N} questions" in check.reason
    assert "ragstone accept --metric 'golden set'" in check.reason


def test_a_comparison_that_judges_nothing_ends_with_6_where_references_changed(project: Project) -> None:
    edit(project, **REFERENCE)
    project.gate("same")
    policy = load_policy(project.root / "thresholds.toml")
    found = compare(project.root / "main", project.root / "same", policy)
    assert found.verdict.exit_code == 6
    assert f"{EDITED} of {N} questions" in found.verdict.reason
