"""A gate whose golden set was edited since its baseline: an edit of metadata discards no comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import Check, CheckKind
from ragstone.pipeline.compare import compare
from ragstone.pipeline.gate import GateOutcome
from ragstone.settings.load import load_settings
from tests.pipeline.reported import gated

N = 30
EDITED = 26
POLICY = """
[gate]
decision = "point"
[system]
max_broken = 1.0
[metrics.context_recall]
max_drop = 0.05
"""
COLOURS = ["red", "green", "blue", "white", "yellow"]


def fact(n: int, shift: int = 0) -> str:
    return f"House number {n} is painted {COLOURS[(n + shift) % 5]}."


class Project:
    """A project with a baseline in `main`, of healthy answers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "thresholds.toml").write_text(POLICY, encoding="utf-8")
        self.edit()
        self.answer()
        self.gate("main")

    def write(self, name: str, rows: list[dict[str, Any]]) -> None:
        (self.root / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def edit(self, *, ids: bool = True, **labels: Any) -> None:
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
        self.write("golden.jsonl", rows)

    def answer(self, *, broken: bool = False) -> None:
        """Answer all questions; a broken retriever finds other houses."""
        rows = []
        for n in range(N):
            found = [{"id": f"d{n + 7 * broken}", "text": fact(n + 7 * broken)}]
            rows.append({"question": f"What is the colour of house number {n}?", "answer": fact(n), "contexts": found})
        self.write("outputs.jsonl", rows)

    def gate(self, out: str, baseline: str | None = None, **more: Any) -> GateOutcome:
        settings = load_settings(
            directory=self.root,
            environ={},
            overrides={
                "golden.paths": ("golden.jsonl",),
                "system.entrypoint": "file:outputs.jsonl",
                "judge.name": "offline",
                "run.out": out,
                "gate.baseline": baseline,
                **more,
            },
        )
        return gated(settings, RunContext(environ={}), formats=("md", "json"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def drop(found: GateOutcome) -> Check:
    return next(check for check in found.verdict.checks if check.name == "context_recall.drop")


METADATA: list[dict[str, Any]] = [
    {"group": lambda n: f"street {n % 4}"},
    {"group": "one street"},
    {"relevant_ids": lambda n: [f"d{n}"]},
    {"reference_contexts": lambda n: [fact(n)]},
    {"tags": ["new"]},
    {"assertions": {"max_words": 50}},
]


@pytest.mark.parametrize("labels", METADATA, ids=lambda labels: next(iter(labels)))
def test_an_edit_that_a_metric_does_not_read_keeps_its_baseline(project: Project, labels: dict[str, Any]) -> None:
    project.edit(**labels)
    found = project.gate("same", "main")
    assert (found.exit_code, drop(found).n) == (0, N)
    project.answer(broken=True)
    found = project.gate("broken", "main")
    assert found.exit_code == 1, "a broken retriever"
    assert drop(found).n == N


def test_a_group_around_everything_hides_no_loss(project: Project) -> None:
    (project.root / "thresholds.toml").write_text(POLICY.replace('decision = "point"', ""), encoding="utf-8")
    project.edit(group="one street")
    project.answer(broken=True)
    assert project.gate("broken", "main").exit_code == 1


def test_runs_of_an_older_version_are_paired_by_their_records(project: Project) -> None:
    """Their hashes are of everything, and are not read."""
    samples = project.root / "main" / "samples.jsonl"
    text = samples.read_text(encoding="utf-8")
    lines = [json.loads(line) | {"content_hash": "of an older version"} for line in text.splitlines()]
    project.write("main/samples.jsonl", lines)
    project.edit(group="one street")
    assert drop(project.gate("same", "main")).n == N


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "ids from the content"])
def test_the_baseline_is_scored_again_by_edited_references(project: Project, ids: bool) -> None:
    project.edit(ids=ids)
    project.gate("main")
    project.edit(ids=ids, reference=lambda n: f"It is painted {COLOURS[n % 5]}.")
    found = project.gate("same", "main")
    assert (found.exit_code, drop(found).n) == (0, N)
    assert found.verdict.warnings[0].startswith(f"The labels of {EDITED} samples changed: the baseline's answers were")
    assert found.verdict.comparability is not None
    assert not found.verdict.comparability.skipped
    project.answer(broken=True)
    found = project.gate("broken", "main")
    assert (found.exit_code, drop(found).n) == (1, N)


def test_scores_of_the_baseline_are_those_by_the_labels_of_now(project: Project) -> None:
    """References that no context of either run holds: nothing was lost, whatever the baseline scored then."""
    project.edit(reference="Bananas were invented in 1850.")
    found = project.gate("same", "main")
    check = drop(found)
    assert (check.n, check.estimate) == (N, 0.0)
    assert check.baseline is not None
    assert check.baseline < 0.5 < RunDirectory.open(project.root / "main").scores()["context_recall"].values["q0"]


def test_a_metric_without_labels_any_more_ends_with_6(project: Project) -> None:
    project.edit(reference=None)
    found = project.gate("same", "main")
    [check] = [check for check in found.verdict.checks if check.kind is CheckKind.PAIRED]
    assert found.exit_code == 6
    assert found.verdict.reason == check.reason
    assert check.reason.startswith(f"only {N - EDITED} of {N} samples of the baseline can be compared")
    assert "ragstone accept --metric 'golden set'" in check.reason


def test_labels_that_nothing_compared_reads_cost_nothing(project: Project) -> None:
    project.edit(relevant_ids=lambda n: [f"d{n}"])
    found = project.gate("same", "main", **{"run.metrics": ("context_recall", "mrr")})
    assert not any("labels" in warning for warning in found.verdict.warnings)


def test_a_judge_that_changed_with_the_labels_scores_both_again(project: Project) -> None:
    manifest = project.root / "main" / "manifest.json"
    body = json.loads(manifest.read_text(encoding="utf-8"))
    body["judge"]["version"] = "older"
    manifest.write_text(json.dumps(body), encoding="utf-8")
    project.edit(reference=lambda n: f"It is painted {COLOURS[n % 5]}.")
    found = project.gate("same", "main")
    assert (found.exit_code, drop(found).n) == (0, N)
    assert found.verdict.warnings[0].startswith("The judge changed from offline judge older")


def test_a_comparison_that_judges_nothing_ends_with_6_where_references_changed(project: Project) -> None:
    project.edit(reference=lambda n: f"It is painted {COLOURS[n % 5]}.")
    project.gate("same")
    found = compare(project.root / "main", project.root / "same", load_policy(project.root / "thresholds.toml"))
    assert found.verdict.exit_code == 6
    assert f"only {N - EDITED} of {N} samples" in found.verdict.reason
