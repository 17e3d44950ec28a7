"""Which judges may judge in other processes, in how many, and what these must have in common with this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.evaluation import parallel
from ragstone.evaluation.executors import DaskWorkers, ProcessWorkers
from ragstone.evaluation.parallel import refuse_without_dask, usable_cores, worker_count
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.round import Round, build_workers
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.sources import JudgeSource, SystemSource
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Judge
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import CustomMetric, JudgeSettings, SystemSettings
from tests.evaluation.builders import Answering, samples


def round_of(judge: Judge, **more: Any) -> Round:
    project = ProjectMetrics(SystemSource(SystemSettings()))
    plan = RunPlan(samples(1), JudgeSource(JudgeSettings()), project, Path(), **more)
    return Round(plan, judge, plan.golden, Answering(), select_metrics(["faithfulness"]), Path())


def test_a_judge_that_waits_for_the_network_stays_here_and_the_user_is_told() -> None:
    class Own(OfflineJudge):
        pass

    said: list[str] = []
    assert build_workers(round_of(Own(), dask="tcp://127.0.0.1:1"), 10_000, said.append) is None
    (line,) = said
    assert line.startswith("run.dask is ignored, and answers are judged in this process: ")
    assert isinstance(build_workers(round_of(OfflineJudge(), dask="tcp://127.0.0.1:1"), 1, said.append), DaskWorkers)
    assert isinstance(build_workers(round_of(OfflineJudge(), workers=2), 1, said.append), ProcessWorkers)
    assert build_workers(round_of(OfflineJudge(), workers=2), 0, said.append) is None
    assert len(said) == 1


def test_metrics_of_the_project_are_graded_in_this_process() -> None:
    project = ProjectMetrics(SystemSource(SystemSettings()), {"polite": CustomMetric(rubric="Is it polite?")})
    this = round_of(OfflineJudge(), workers=2)
    this = replace(this, metrics=project.custom_metrics(), plan=replace(this.plan, metrics=project))
    assert build_workers(this, 10_000, lambda _: None) is None


@pytest.mark.parametrize(
    ("cores", "wanted", "answers", "workers"),
    [(8, "auto", 499, 0), (8, "auto", 500, 8), (1, "auto", 100_000, 0), (8, 1, 50, 0), (8, 2, 50, 2), (1, 64, 50, 64)],
)
def test_auto_takes_every_core_but_none_for_a_small_run(
    monkeypatch: pytest.MonkeyPatch, cores: int, wanted: Any, answers: int, workers: int
) -> None:
    monkeypatch.setattr(parallel, "usable_cores", lambda: cores)
    assert worker_count(wanted, answers) == workers


def test_the_cores_of_a_container_are_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(parallel, "_CPU_LIMIT", limit)
    assert usable_cores() == 64
    for text, cores in (("max 100000\n", 64), ("250000 100000\n", 2), ("50000 100000\n", 1)):
        limit.write_text(text)
        assert usable_cores() == cores


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r'pip install "ragstone\[dask\]"'):
        refuse_without_dask()
