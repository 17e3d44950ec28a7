"""A gate whose judge changed: the baseline's stored answers are judged again, by the real SDK, on a loopback server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.errors import EXIT_GATE_FAILED, EXIT_PASS
from ragstone.gate.verdict import CheckKind, Status
from ragstone.pipeline.gate import GatedRun
from tests.cli.project import read_json
from tests.pipeline.project import MODEL, Project, doubting, drop

N = 12
NEW = "openai:gpt-5.4-mini"
POLICY = """
[gate]
on_judge_change = "rejudge"
confirm = false
confidence = 0.51
[metrics.faithfulness]
min = 0.2
max_drop = 0.05
"""


@pytest.fixture
def project(project: Project) -> Project:
    """A project with a baseline in `main`, judged by another model than the next runs."""
    project.write_golden(N)
    project.policy(POLICY)
    project.defaults = {"judge__planted": 0, "run__metrics": ("faithfulness",)}  # calls are counted
    answer(project)
    project.gate("main", judge=MODEL)
    project.fake.seen.clear()
    return project


def answer(project: Project, wrong: int = 0) -> None:
    """Answer all questions, the first few of them wrongly."""
    words = ["wrong" if n < wrong else "right" for n in range(N)]
    rows = [{"id": f"q{n}", "answer": f"{n}, {words[n]}.", "contexts": [f"{n}: {words[n]}."]} for n in range(N)]
    project.write("outputs.jsonl", rows)


def test_a_pull_request_that_changes_the_judge_and_loses_quality_fails(project: Project) -> None:
    doubting(project.fake, "wrong.")
    answer(project, wrong=4)
    found = project.gate("new", "main", judge=NEW, reported_again=True)
    assert found.exit_code == EXIT_GATE_FAILED
    assert (drop(found).status, drop(found).n) == (Status.FAIL, N)
    assert drop(found).estimate == pytest.approx(-4 / N)
    top = found.verdict.warnings[0]
    assert "from openai gpt-4o-mini to openai gpt-5.4-mini" in top
    assert "judged again by openai gpt-5.4-mini (8 calls, under $0.01)" in top
    assert not any("not compared" in warning for warning in found.document.warnings)
    assert "judged again by" in project.report("new")


def test_a_stricter_judge_fails_no_unchanged_system(project: Project) -> None:
    doubting(project.fake, "\n0: right.", "\n1: right.", "\n2: right.")
    found = project.gate("new", "main", judge=NEW)
    assert found.exit_code == EXIT_PASS
    assert drop(found).estimate == 0.0
    assert project.calls == 2 * N, "answers in common are judged once"


def test_the_baseline_stays_the_one_that_it_was(project: Project) -> None:
    before = project.opened("main")
    records = (before.path / "samples.jsonl").read_bytes()
    fact = project.gate("new", "main", judge=NEW).run.manifest.baseline
    assert fact is not None
    assert fact.used is not None
    assert fact.used.fingerprint == before.fingerprint
    assert fact.lineage == (before.fingerprint,)
    assert project.opened("main").manifest == before.manifest
    assert (before.path / "samples.jsonl").read_bytes() == records
    calls = project.calls
    project.gate("next", "new", judge=NEW)
    assert project.calls == calls, "nothing is left to judge again"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("change", "judge", "warning"),
    [
        ({}, MODEL, ""),
        ({"metrics": {"faithfulness": "0"}}, MODEL, "Faithfulness was version 0 in the baseline"),
        ({"judge": {"version": "0" * 64}}, MODEL, "The prompts of the judge changed (000000000000 to "),
        ({}, "offline", "judged again by offline judge"),
    ],
    ids=["the same judge", "an older metric", "other prompts", "the offline judge, without a key"],
)
def test_what_changed_is_said_and_nothing_is_asked_for_that_was_judged(
    project: Project, change: dict[str, dict[str, str]], judge: str, warning: str
) -> None:
    file = project.root / "main" / "manifest.json"
    manifest = read_json(file)
    file.write_text(json.dumps(manifest | {name: manifest[name] | part for name, part in change.items()}))
    found = project.gate("new", "main", judge=judge)
    assert (drop(found).n, project.calls) == (N, 0)
    told = [text for text in found.verdict.warnings if "judged again" in text]
    assert warning in "".join(found.verdict.warnings[:1])
    assert bool(told) is bool(warning)


def test_a_metric_that_the_baseline_lacks_is_scored_on_its_answers(project: Project) -> None:
    project.policy(POLICY + "[metrics.token_f1]\nmax_drop = 0.05\n")
    found = project.gate("new", "main", run__metrics=("faithfulness", "token_f1"))
    assert project.calls == 0
    checked = {check.metric for check in found.verdict.checks if check.kind is CheckKind.DROP}
    assert checked == {"faithfulness", "token_f1"}


def is_unguarded(found: GatedRun) -> bool:
    assert found.run.manifest.state == "finished"
    assert found.run.manifest.counts.scored == N
    kinds = [check.kind for check in found.verdict.checks]
    return CheckKind.DROP not in kinds and found.verdict.warnings[0].startswith("Unguarded: the drops of faithfulness")


def test_a_budget_that_is_used_up_half_way_costs_the_run_nothing(project: Project) -> None:
    answer(project, wrong=N)
    found = project.gate("new", "main", judge=NEW, judge__max_cost_usd=0.035)
    assert is_unguarded(found)
    assert found.run.manifest.cost.calls == project.calls
    assert 2 * N < project.calls < 4 * N
    assert "budget of $0.04 is used up" in found.verdict.warnings[0]


def test_a_run_whose_gate_is_stopped_before_the_verdict_is_no_baseline(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ragstone.pipeline.gate.rejudge", stopped)
    with pytest.raises(KeyboardInterrupt):
        project.gate("new", "main", judge=NEW)
    manifest = project.opened("new").manifest
    assert (manifest.state, manifest.standing.eligible) == ("finished", False)
    assert "stopped before its verdict" in manifest.standing.reason
