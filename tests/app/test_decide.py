"""Whoever decides gets the same verdict, with all that is said beside it."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import ragstone
from ragstone.app.compare import compare, read_compare_policy
from ragstone.app.gate import GateOutcome
from ragstone.config import Settings, load_settings
from ragstone.gate.verdict import Status
from ragstone.rounds.context import RunContext
from tests.app.reported import gated as gated_and_reported
from tests.commands.project import make_project
from tests.project.asked import accept, gate
from tests.run.opened import opened_for_reading

WORSE = '"answer": fact if int(question.rstrip("?").split()[-1]) % 3 else "Bananas were invented in 1834."'

POLICY = '[gate]\ndecision = "point"\n[metrics.faithfulness]\nmax_drop = 0.02\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make_project(tmp_path / "repo", n=30, policy=POLICY)
    monkeypatch.chdir(path)
    return path


def settings(project: Path, **overrides: object) -> Settings:
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return load_settings(directory=project, environ={}, overrides={"run.metrics": ("faithfulness",), **given})


def gated(project: Path, **overrides: object) -> GateOutcome:
    now = datetime.now(UTC)
    return gated_and_reported(settings(project, **overrides), RunContext(environ={"PATH": "/usr/bin"}, now=lambda: now))


def regress(project: Path) -> None:
    file = project / "houses.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"answer": fact', WORSE), encoding="utf-8")


def test_the_gate_the_command_and_the_api_decide_alike_and_say_the_same(project: Path) -> None:
    assert gated(project, run__out="main").verdict.status is Status.PASS
    regress(project)

    def all_three() -> GateOutcome:
        found = gated(project, run__out="out", gate__baseline="main", gate__thresholds="thresholds.toml")
        by_api = ragstone.compare(project / "out", project / "main", project / "thresholds.toml")
        by_command = compare(Path("main"), Path("out"), read_compare_policy(project / "thresholds.toml"))
        assert by_api == by_command.verdict == found.verdict
        assert by_command.view.warnings == found.view.warnings
        assert by_command.view.accept == found.view.accept
        return found

    failed = all_three()
    assert failed.verdict.status is Status.FAIL
    assert failed.verdict.accept
    accept(
        settings(project, gate__thresholds="thresholds.toml"),
        project / "out",
        metric="faithfulness",
        reason="cheaper",
        today=datetime.now(UTC).date(),
    )
    accepted = all_three()
    assert accepted.verdict.status is Status.PASS
    assert any("is accepted" in warning for warning in accepted.verdict.warnings)


def test_a_gate_decides_on_one_reading_and_reads_both_runs_once_more_for_the_page(project: Path) -> None:
    gated(project, run__out="main", system__concurrency=1)
    with opened_for_reading("golden.jsonl") as once:
        ragstone.load_golden_set(project / "golden.jsonl")
    with opened_for_reading("samples.jsonl", "golden.jsonl", "thresholds.toml") as opened:
        given = settings(project, run__out="out", gate__baseline="main", system__concurrency=1)
        found = asyncio.run(gate(given, RunContext(environ={"PATH": "/usr/bin"})))
    assert found.verdict.status is Status.PASS
    names = [f"{Path(path).parent.name}/{Path(path).name}" for path in opened]
    assert names.count("main/samples.jsonl") == 2
    assert names.count("out/samples.jsonl") == 2
    assert names.count("repo/thresholds.toml") == 1
    assert names.count("repo/golden.jsonl") == len(once)


@pytest.mark.parametrize("then", ["main", "stopped early"])
def test_samples_that_are_given_ids_stay_paired_with_the_baseline(project: Path, then: str) -> None:
    golden = project / "golden.jsonl"
    named = golden.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in named.splitlines()]
    golden.write_text("".join(json.dumps(row | {"id": None}) + "\n" for row in rows), encoding="utf-8")
    gated(project, run__out="main")
    golden.write_text(named, encoding="utf-8")
    regress(project)
    found = gated(project, run__out="out", gate__baseline="main", run__stop_early=then == "stopped early")
    assert found.verdict.status is Status.FAIL
    assert found.verdict.comparability is not None
    assert found.verdict.comparability.paired >= 20
    # How many samples an early stop leaves out depends on how many had been asked by then.
    renamed = [match[1] for note in found.verdict.notes if (match := re.search(r"(\d+) samples have new ids", note))]
    assert 20 <= int(renamed[0]) <= 30
    assert then == "stopped early" or renamed == ["30"]
    assert not any("the golden set changed" in note for note in found.verdict.comparability.notes)
    worst = found.view.worst[0]
    assert worst.id.startswith("house-")
    assert worst.baseline_answer is not None
    assert worst.baseline_answer.startswith("House number")
