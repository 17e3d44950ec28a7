"""Whoever decides gets the same verdict, with all that is said beside it."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ragstone
from ragstone.cli.main import main
from ragstone.errors import ConfigError
from ragstone.gate.verdict import CheckKind, Status
from ragstone.pipeline.accept import Accepted, Shown
from ragstone.pipeline.compare import compare, read_compare_policy
from ragstone.pipeline.gate import GateOutcome
from tests.evaluation.opened import opened_for_reading
from tests.pipeline.asked import accept
from tests.pipeline.houses import POLICY, gated, make_houses, regress, settings
from tests.pipeline.reported import again

COMPARED = {"gate__baseline": "main", "gate__thresholds": "thresholds.toml"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_houses(tmp_path / "repo")
    monkeypatch.chdir(path)
    return path


def accepted(project: Path, out: str | Shown, metric: str = "faithfulness", **more: Any) -> Accepted:
    """What `ragstone accept` does for the drop of `metric` in the run `out`, or as it was shown."""
    policy = settings(project, gate__thresholds="thresholds.toml")
    today = datetime.now(UTC).date()
    shown = out if isinstance(out, Shown) else project / out
    return accept(policy, shown, metric=metric, reason="cheaper", today=today, **more)


def run_command(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert ended.value.code == 0


def test_the_gate_the_command_and_the_api_decide_alike_and_say_the_same(project: Path) -> None:
    assert gated(project, "main").verdict.status is Status.PASS
    regress(project)

    def all_three() -> GateOutcome:
        found = gated(project, "out", **COMPARED)
        again(project / "out", settings(project, run__out="out", **COMPARED), found)
        by_api = ragstone.compare(project / "out", project / "main", project / "thresholds.toml")
        by_command = compare(Path("main"), Path("out"), read_compare_policy(project / "thresholds.toml"))
        assert by_api == by_command.verdict == found.verdict
        assert by_command.document.warnings == found.document.warnings
        assert by_command.document.findings == found.document.findings
        return found

    failed = all_three()
    assert failed.verdict.status is Status.FAIL
    assert failed.verdict.accept
    accepted(project, "out")
    passed = all_three()
    assert passed.exit_code == 0
    assert any("is accepted" in warning for warning in passed.verdict.warnings)


def test_accepting_a_drop_below_a_floor_says_that_the_run_fails_still(project: Path) -> None:
    (project / "thresholds.toml").write_text(POLICY + "min = 0.9\n", encoding="utf-8")
    gated(project, "main")
    regress(project)
    failed = gated(project, "out", **COMPARED)
    assert failed.verdict.accept == ()
    assert "faithfulness is below its floor" in (accepted(project, "out").still_failing or "")
    (note,) = [note for note in failed.verdict.notes if "Accepting the drop of faithfulness" in note]
    assert "below its floor" in note
    assert note in (project / "out" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("action", "left"), [("warn", False), ("block", True)])
def test_a_floor_of_another_metric_is_said_and_one_that_only_warns_is_not(
    project: Path, action: str, left: bool
) -> None:
    both = ("faithfulness", "answer_correctness")
    gated(project, "main", run__metrics=both)
    regress(project)
    floor = f'[metrics.answer_correctness]\nmin = 1.0\naction = "{action}"\n'
    (project / "thresholds.toml").write_text(f"{POLICY}\n{floor}", encoding="utf-8")
    gated(project, "out", **COMPARED, run__metrics=both)
    assert ("answer_correctness is below its floor" in (accepted(project, "out").still_failing or "")) is left


@pytest.mark.heavy
def test_the_drop_of_a_metric_of_the_project_is_accepted_as_the_report_says(project: Path) -> None:
    with (project / "ragstone.toml").open("a", encoding="utf-8") as config:
        config.write('[metrics.tone]\npython = "houses:tone"\n')
    with (project / "houses.py").open("a", encoding="utf-8") as code:
        code.write('\n\ndef tone(answer):\n    return 0.0 if "Bananas" in answer else 1.0\n')
    (project / "thresholds.toml").unlink()
    gated(project, "main", run__metrics=None)
    regress(project)
    failed = gated(project, "out", gate__baseline="main", run__metrics=None)
    [command] = [one for one in failed.verdict.accept if " tone " in one]
    run_command(command)
    (project / "accepted.toml").unlink()
    (project / "ragstone.toml").unlink()
    today = datetime.now(UTC).date()
    accept(settings(project), project / "out", metric="tone", reason="cheaper", today=today)
    with pytest.raises(ConfigError, match="unknown metric 'tonne'") as caught:
        accept(settings(project), project / "out", metric="tonne", reason="cheaper", today=today)
    assert "Did you mean 'tone'?" in str(caught.value)


def test_a_gate_decides_on_one_reading_and_reads_both_runs_once_more_for_the_page(project: Path) -> None:
    gated(project, "main", system__concurrency=1)
    with opened_for_reading("golden.jsonl") as once:
        ragstone.load_golden_set(project / "golden.jsonl")
    with opened_for_reading("samples.jsonl", "golden.jsonl", "thresholds.toml") as opened:
        found = gated(project, "out", gate__baseline="main", system__concurrency=1)
    assert found.verdict.status is Status.PASS
    names = [f"{Path(path).parent.name}/{Path(path).name}" for path in opened]
    assert names.count("main/samples.jsonl") == 2
    assert names.count("out/samples.jsonl") == 2
    assert names.count("repo/thresholds.toml") == 1
    assert names.count("repo/golden.jsonl") == len(once)


def test_samples_that_are_given_ids_stay_paired_with_the_baseline(project: Path) -> None:
    golden = project / "golden.jsonl"
    named = golden.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in named.splitlines()]
    golden.write_text("".join(json.dumps(row | {"id": None}) + "\n" for row in rows), encoding="utf-8")
    gated(project, "main")
    golden.write_text(named, encoding="utf-8")
    regress(project)
    found = gated(project, "out", gate__baseline="main")
    assert found.verdict.status is Status.FAIL
    assert found.verdict.comparability is not None
    assert found.verdict.comparability.paired == 30
    renamed = [match[1] for note in found.verdict.notes if (match := re.search(r"(\d+) samples with a new id", note))]
    assert renamed == ["30"]
    assert not any("the golden set changed" in note for note in found.verdict.comparability.notes)
    worst = found.document.samples.worst[0]
    assert worst.id.startswith("house-")
    assert worst.baseline_answer is not None
    assert worst.baseline_answer.startswith("House number")


def golden_of(project: Path, count: int) -> None:
    """Leave only the first samples in the golden set."""
    file = project / "golden.jsonl"
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:count]), encoding="utf-8")


def edits(found: GateOutcome) -> list[str]:
    return [check.reason for check in found.verdict.checks if check.kind is CheckKind.GOLDEN_SET]


def test_an_edit_of_the_golden_set_ends_with_6_until_it_is_accepted_and_is_then_spent(project: Path) -> None:
    gated(project, "main")
    golden_of(project, 15)
    found = gated(project, "out", **COMPARED)
    assert found.exit_code == 6
    assert "15 of 30 questions" in edits(found)[0]
    assert "50 %, at most 5 % may" in edits(found)[0]
    assert found.run is not None
    assert not found.run.manifest.standing.eligible
    [command] = found.verdict.accept
    assert command.startswith("ragstone accept --metric 'golden set' --drop 0.5 --of-run ")
    assert command in (project / "out" / "report.md").read_text(encoding="utf-8")
    run_command(command)

    passed = gated(project, "accepted", **COMPARED)
    assert passed.exit_code == 0
    assert not edits(passed)
    assert any("(50 % of the samples) is accepted" in warning for warning in passed.verdict.warnings)
    golden_of(project, 14)
    more = gated(project, "more", **COMPARED)
    assert more.exit_code == 6
    assert "accepts another edit" in edits(more)[0]
    golden_of(project, 5)

    after = gated(project, "after", **{**COMPARED, "gate__baseline": "accepted"})
    assert after.exit_code == 6, "spent"
    assert any("the accepted edit of the golden set" in one and "is spent" in one for one in after.verdict.warnings)


def test_an_edit_is_accepted_with_the_directory_of_its_run(project: Path) -> None:
    gated(project, "main")
    golden_of(project, 29)
    gated(project, "out", **COMPARED)
    with pytest.raises(ConfigError, match="nothing to accept"):
        accepted(project, "out", "golden set")
    golden_of(project, 12)
    gated(project, "out", **COMPARED)
    with pytest.raises(ConfigError, match="is needed for the metric 'golden set'"):
        accepted(project, Shown(0.6, "a" * 16, "b" * 16), "golden set")
    assert accepted(project, "out", "golden set").entry.drop == 0.6
    with pytest.raises(ConfigError, match="has no slice"):
        accepted(project, "out", "golden set", slice_="de")


def test_samples_that_the_gate_itself_leaves_out_do_not_count_as_lost(project: Path) -> None:
    gated(project, "main")
    limited = gated(project, "limited", gate__baseline="main", golden__limit=10)
    assert limited.exit_code == 0, limited.verdict.reason
    assert ragstone.compare(project / "limited", project / "main", {"metrics": {"faithfulness": {"max_drop": 0.1}}})
    assert not edits(limited)


def test_samples_put_before_the_others_do_not_push_those_out_of_a_limit(project: Path) -> None:
    golden = project / "golden.jsonl"
    rows = golden.read_text(encoding="utf-8").splitlines(keepends=True)
    gated(project, "main", golden__limit=10)
    golden.write_text("".join(rows[10:18] + rows[:10]), encoding="utf-8")
    found = gated(project, "out", gate__baseline="main", golden__limit=10)
    assert found.exit_code == 6
    assert edits(found)[0].startswith("8 of 10 questions of the baseline")
