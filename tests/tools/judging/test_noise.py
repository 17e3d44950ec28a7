"""Judging the same answers twice."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragstone.config.settings import JudgeSettings, SystemSettings
from ragstone.errors import ConfigError
from ragstone.gate.policy import policy_from_mapping
from ragstone.judge.judgements import (
    JudgementFailure,
    Judgements,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.scripted import ScriptedJudge
from ragstone.rounds.context import RunContext
from ragstone.rounds.project_metrics import ProjectMetrics
from ragstone.rounds.sources import JudgeSource, SystemSource
from ragstone.run.directory import RunDirectory
from ragstone.tools.judging.noise import Noise, command, measure_noise, recorded_noise

WriteRun = Callable[..., RunDirectory]
IDS = [f"q{i}" for i in range(8)]
PROJECT = ProjectMetrics(SystemSource(SystemSettings()))
OFFLINE = JudgeSource(JudgeSettings())


def judgement(supported: int) -> Judgements:
    statements = tuple(Statement(f"s{i}", "It is so.") for i in range(4))
    verdicts = [Verdict.SUPPORTED if i < supported else Verdict.UNSUPPORTED for i in range(4)]
    table = SupportTable(tuple(Support(s.id, v) for s, v in zip(statements, verdicts, strict=True)))
    return Judgements(statements=StatementList(statements, abstains=False), support=table)


def measure(run: RunDirectory, judge: ScriptedJudge, max_drop: float = 0.02, limit: int = 100) -> Noise:
    policy = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": max_drop}}})
    work = measure_noise(run, policy, PROJECT, OFFLINE, RunContext(environ={}), limit=limit, judge=judge)
    return asyncio.run(work)


@pytest.fixture
def run(tmp_path: Path, write_run: WriteRun) -> RunDirectory:
    return write_run(tmp_path / "run", {"faithfulness": dict.fromkeys(IDS, 1.0), "recall@5": dict.fromkeys(IDS, 1.0)})


def test_a_judge_that_repeats_itself_has_no_noise(run: RunDirectory) -> None:
    found = measure(run, ScriptedJudge({i: judgement(3) for i in IDS}))
    (row,) = found.metrics
    assert (row.metric, row.found.sd, row.floor, row.too_fine) == ("faithfulness", 0.0, 0.0, False)
    assert "no score changed when 8 answers were judged again" in found.text()


def test_the_noise_is_the_spread_between_two_judgements_of_one_answer(run: RunDirectory) -> None:
    # Half of the answers change by 0.5: the variance of one reading is 0.5 * 0.5 ** 2 / 2.
    script = {i: [judgement(4 if k % 2 else 2), judgement(2)] for k, i in enumerate(IDS)}
    (row,) = measure(run, ScriptedJudge(script)).metrics
    assert row.found.sd == pytest.approx(math.sqrt(0.0625))
    assert row.found.changed == 0.5
    assert row.floor == pytest.approx(1.645 * 0.25 * math.sqrt(2 / 8), rel=1e-3)
    assert row.too_fine


def test_an_allowed_drop_below_the_noise_is_warned_about(run: RunDirectory) -> None:
    script = ScriptedJudge({i: [judgement(4), judgement(k % 5)] for k, i in enumerate(IDS)})
    assert "warning: max_drop = 0.02" in measure(run, script).text()
    assert "warning" not in measure(run, script, max_drop=0.9).text()


def test_answers_that_could_not_be_judged_twice_are_left_out(run: RunDirectory) -> None:
    failed = Judgements(statements=JudgementFailure("refused"))
    script = {i: [judgement(3), judgement(3)] for i in IDS} | {"q0": [judgement(3), failed]}
    assert measure(run, ScriptedJudge(script)).metrics[0].found.n == 7
    none = measure(run, ScriptedJudge({}))
    assert none.metrics == ()
    assert none.not_measured == {"faithfulness": "no answer was scored twice"}


def test_as_many_answers_as_asked_for_are_drawn(run: RunDirectory) -> None:
    found = measure(run, ScriptedJudge({i: judgement(3) for i in IDS}), limit=3)
    assert found.judged == 3
    assert found.metrics[0].n_run == 8
    with pytest.raises(ConfigError, match="at least 2"):
        measure(run, ScriptedJudge({}), limit=1)


def test_a_second_run_of_the_same_version_tells_the_systems_own_variance(tmp_path: Path, write_run: WriteRun) -> None:
    one, two = (write_run(tmp_path / name, {"faithfulness": dict.fromkeys(IDS, 1.0)}) for name in ("one", "two"))
    policy = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})
    steady = ScriptedJudge({i: judgement(k % 5) for k, i in enumerate(IDS)})
    work = measure_noise(one, policy, PROJECT, OFFLINE, RunContext(environ={}), again=two, judge=steady)
    (row,) = asyncio.run(work).metrics
    assert (row.parts.n_units, row.parts.n_draws, row.parts.n_readings) == (8, 16, 32)
    assert (row.parts.draws, row.parts.readings) == (0.0, 0.0)
    assert row.parts.share(row.parts.units) == 1.0


def test_repeats_on_record_cost_nothing(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", {"faithfulness": dict.fromkeys(IDS, 0.5)}, repeats=[0.25, 0.75])
    found = recorded_noise(run, policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}}))
    (row,) = found.metrics
    assert (found.judged, row.found.n, row.found.changed) == (0, 8, 1.0)
    assert row.found.sd == pytest.approx(0.5 / math.sqrt(2))
    assert row.parts.share(row.parts.readings) == 1.0
    assert found.text().partition("\n")[0].endswith("from recorded repeats:")


def test_a_run_that_was_judged_once_has_no_repeats_on_record(run: RunDirectory) -> None:
    with pytest.raises(ConfigError, match="--repeats 2"):
        recorded_noise(run, policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}}))


def test_a_run_without_judged_metrics_is_refused(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", {"recall@5": dict.fromkeys(IDS, 1.0)})
    with pytest.raises(ConfigError, match="no metric of this run uses a judge"):
        measure(run, ScriptedJudge({}))


def test_the_command_measures_the_offline_judge(run: RunDirectory) -> None:
    done = CliRunner().invoke(command, [str(run.path), "--format", "json"], catch_exceptions=False)
    document = json.loads(done.stdout)
    assert document["metrics"][0]["found"]["sd"] == 0.0
    assert CliRunner().invoke(command, [str(run.path)]).stdout.startswith("offline judge")
