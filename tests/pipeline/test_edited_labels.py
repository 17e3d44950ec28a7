"""A gate whose golden set was edited since its baseline: the baseline is scored again by the labels of now."""

from __future__ import annotations

import pytest

from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import CheckKind
from ragstone.pipeline.compare import compare
from tests.pipeline.project import Project, drop

N = 30
EDITED = 26
QUESTION = "Who painted house number {}?"
FACT = "House number {} was painted by its owner."
POLICY = "[gate]\nconfirm = false\n[system]\nmax_broken = 1.0\n[metrics.context_recall]\nmax_drop = 0.05\n"


@pytest.fixture
def project(project: Project) -> Project:
    """A project with a baseline in `main`, whose contexts hold the references."""
    project.policy(POLICY)
    project.judge = "offline"
    edit(project)
    rows = [{"question": QUESTION.format(n), "answer": FACT.format(n), "contexts": [FACT.format(n)]} for n in range(N)]
    project.write("outputs.jsonl", rows)
    project.gate("main")
    return project


def edit(project: Project, edited: str | None = FACT, *, ids: bool = True) -> None:
    """Write the golden set, with another reference, or none, in most rows."""
    rows = []
    for n in range(N):
        reference = edited if n < EDITED else FACT
        row = {"question": QUESTION.format(n)} | ({"id": f"q{n}"} if ids else {})
        rows.append(row if reference is None else row | {"reference": reference.format(n)})
    project.write("golden.jsonl", rows)


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "ids from the content"])
def test_scores_of_the_baseline_are_those_by_the_labels_of_now(project: Project, ids: bool) -> None:
    """References that no context of either run holds: nothing was lost, whatever the baseline scored then."""
    if not ids:
        edit(project, ids=False)
        project.gate("main")
    edit(project, "Bananas were invented in 1850.", ids=ids)
    found = project.gate("same", "main", reported_again=ids)
    check = drop(found, "context_recall")
    assert (check.n, check.estimate) == (N, 0.0)
    assert check.baseline is not None
    assert check.baseline < 0.5 < min(project.opened("main").scores()["context_recall"].values.values())
    assert f"labels of {EDITED} samples changed" in found.verdict.warnings[0]
    assert any(f"judging {EDITED} answers of the baseline again" in line for line in project.said)
    assert found.verdict.comparability is not None
    assert not found.verdict.comparability.skipped


def test_a_metric_without_labels_any_more_ends_with_6(project: Project) -> None:
    edit(project, None)
    found = project.gate("same", "main")
    [check] = [check for check in found.verdict.checks if check.kind is CheckKind.GOLDEN_SET]
    assert found.exit_code == 6
    assert found.verdict.reason == check.reason
    assert f"{EDITED} of {N} questions" in check.reason
    assert "ragstone accept --metric 'golden set'" in check.reason


def test_a_comparison_that_judges_nothing_ends_with_6_where_references_changed(project: Project) -> None:
    edit(project, "It was painted by its owner in 19{}.")
    project.gate("same")
    policy = load_policy(project.root / "thresholds.toml")
    found = compare(project.root / "main", project.root / "same", policy)
    assert found.verdict.exit_code == 6
    assert f"{EDITED} of {N} questions" in found.verdict.reason
