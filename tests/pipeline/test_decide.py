"""Whoever decides gets the same verdict, with all that is said beside it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone.cli.compare import read_policy
from ragstone.cli.main import main
from ragstone.evaluation.score_files import scores_from_mapping
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.findings import ACCEPT
from ragstone.gate.policy import load_policy, policy_from_mapping
from ragstone.gate.verdict import CheckKind, Status
from ragstone.pipeline import accept as accepting
from ragstone.pipeline.accept import Accepted, MeasuredDrop
from ragstone.pipeline.compare import compare
from ragstone.pipeline.decide import ComparedRun, FailOn, Terms, decide, exit_code_of
from ragstone.pipeline.gate import GatedRun
from tests.gate.verdicts import verdict_of
from tests.pipeline.asked import accept
from tests.pipeline.conftest import write
from tests.pipeline.houses import gated, make_houses, regress, settings
from tests.pipeline.reported import again

COMPARED = {"gate__baseline": "main", "gate__thresholds": "thresholds.toml"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_houses(tmp_path / "repo")
    monkeypatch.chdir(path)
    return path


def accepted(project: Path, out: str | MeasuredDrop, metric: str = "faithfulness", **more: Any) -> Accepted:
    """What `ragstone accept` does for the drop of `metric` in the run `out`, or as it was shown."""
    policy = settings(project, gate__thresholds="thresholds.toml")
    today = datetime.now(UTC).date()
    shown = out if isinstance(out, MeasuredDrop) else project / out
    return accept(policy, shown, metric=metric, reason="cheaper", today=today, **more)


def run_command(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert ended.value.code == 0


def test_the_gate_the_command_and_the_api_decide_alike_and_say_the_same(project: Path) -> None:
    assert gated(project, "main").verdict.status is Status.PASS
    regress(project)

    def all_three() -> GatedRun:
        found = gated(project, "out", **COMPARED)
        again(project / "out", settings(project, run__out="out", **COMPARED), found)
        by_api = ragstone.compare(project / "out", project / "main", project / "thresholds.toml")
        by_command = compare(Path("main"), Path("out"), read_policy(project / "thresholds.toml"))
        assert by_api == by_command.verdict == found.verdict
        assert by_command.document.warnings == found.document.warnings
        assert by_command.document.findings == found.document.findings
        return found

    failed = all_three()
    assert failed.verdict.status is Status.FAIL
    assert failed.verdict.of_kind(ACCEPT)
    accepted(project, "out")
    passed = all_three()
    assert passed.exit_code == 0
    assert any("accepted.toml accepts a drop" in warning for warning in passed.verdict.warnings)


def golden_of(project: Path, count: int) -> None:
    """Leave only the first samples in the golden set."""
    file = project / "golden.jsonl"
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:count]), encoding="utf-8")


def edits(found: GatedRun) -> list[str]:
    return [check.reason for check in found.verdict.checks if check.kind is CheckKind.GOLDEN_SET]


def test_an_edit_of_the_golden_set_ends_with_6_until_it_is_accepted_and_is_then_spent(project: Path) -> None:
    gated(project, "main")
    golden_of(project, 15)
    found = gated(project, "out", **COMPARED)
    assert found.exit_code == 6
    assert "15 of 30 questions" in edits(found)[0]
    assert "50 %, at most 5 % may" in edits(found)[0]
    assert not found.run.manifest.standing.eligible
    command = found.verdict.of_kind(ACCEPT)[0].text
    assert command.startswith("ragstone accept --metric 'golden set' --of 0.5:")
    assert command in (project / "out" / "report.md").read_text(encoding="utf-8")
    run_command(command)

    passed = gated(project, "accepted", **COMPARED)
    assert passed.exit_code == 0
    assert not edits(passed)
    says = "accepts an edit of the golden set (50 % of the samples) ("
    assert any(says in warning for warning in passed.verdict.warnings)
    golden_of(project, 5)

    after = gated(project, "after", **{**COMPARED, "gate__baseline": "accepted"})
    assert after.exit_code == 6, "spent"
    assert any("the accepted edit of the golden set" in one and "is spent" in one for one in after.verdict.warnings)


# -- the steps of a decision, by runs made by hand ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "fail_on", "code"),
    [
        (Status.FAIL, None, 1),
        (Status.FAIL, "fail", 1),
        (Status.FAIL, "never", 0),
        (Status.INCONCLUSIVE, "never", 0),
        (Status.ERROR, "never", 6),
    ],
)
def test_never_lets_all_pass_but_errors(status: Status, fail_on: FailOn | None, code: int) -> None:
    assert exit_code_of(verdict_of(status, inconclusive_blocks=True), fail_on) == code


def compared(values: Mapping[str, float], drafts: Mapping[str, float] | None = None) -> ComparedRun:
    counting, of_drafts = (scores_from_mapping({"faithfulness": side or {}}) for side in (values, drafts))
    return ComparedRun(counting, drafts=of_drafts)


@pytest.mark.parametrize(
    ("drafts", "baseline", "says"),
    [
        (None, {"a": 1.0, "b": 0.2}, None),
        ({"b": 0.2}, None, None),
        ({"b": 0.2}, {"a": 1.0}, None),
        ({"b": 0.2}, {"a": 1.0, "b": 0.2}, "1 sample that counted in the baseline: b."),
        ({"b": 0.2, "c": 0.1}, {"b": 1.0, "c": 1.0}, "2 samples that counted in the baseline: b"),
        ({f"d{n}": 0.1 for n in range(12)}, {f"d{n}": 0.1 for n in range(12)}, "12 samples that counted"),
    ],
)
def test_a_draft_that_counted_in_the_baseline_is_named(
    drafts: Mapping[str, float] | None, baseline: Mapping[str, float] | None, says: str | None
) -> None:
    current = compared({"a": 1.0}, drafts)
    terms = Terms(policy_from_mapping({}), None if baseline is None else compared(baseline), None)
    warnings = [text for text in decide(current, terms).warnings if "counted in the baseline" in text]
    assert (says in warnings[0]) if says is not None else not warnings


def test_a_draft_that_counted_is_known_by_its_content_also_under_another_id() -> None:
    drafts = RunScores("run", {}, {"new": SampleFacts(content_hash="a")})
    before = RunScores("run", {"faithfulness": MetricScores({"old": 1.0})}, {"old": SampleFacts(content_hash="a")})
    terms = Terms(policy_from_mapping({}), ComparedRun(before), None)
    found = decide(ComparedRun(scores_from_mapping({"faithfulness": {"a": 1.0}}), drafts=drafts), terms)
    assert any("1 sample that counted in the baseline: new." in text for text in found.warnings)


@pytest.mark.parametrize(
    ("by_score_file", "today", "in_force"), [(False, True, True), (False, False, False), (True, True, False)]
)
def test_drops_are_accepted_between_run_directories_alone(
    tmp_path: Path, by_score_file: bool, today: bool, in_force: bool
) -> None:
    run = write(tmp_path / "main", {"faithfulness": {"a": 1.0}})
    policy = Path(tmp_path / "thresholds.toml")
    policy.write_text("[metrics.faithfulness]\nmax_drop = 0.1\n", encoding="utf-8")
    shown = MeasuredDrop(0.5, "a" * 16, run.fingerprint)
    day = datetime.now(UTC).date()
    accepting.accept(load_policy(policy), tmp_path, shown, metric="faithfulness", reason="x", today=day)
    baseline = compared({"a": 1.0}) if by_score_file else ComparedRun.of(run)
    terms = Terms(load_policy(policy), baseline, day if today else None)
    assert bool(terms.accepted.entries) is in_force
