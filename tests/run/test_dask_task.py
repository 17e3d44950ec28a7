"""What is sent to a Dask cluster, and when: without one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ragstone.config.settings import JudgeSettings, Settings, SystemSettings
from ragstone.errors import ConfigError
from ragstone.judge.factory import Recipe
from ragstone.judge.protocol import Judge
from ragstone.rounds.project_metrics import ProjectMetrics
from ragstone.rounds.round import JudgePool, Round, workers_of
from ragstone.rounds.sources import JudgeSource, SystemSource
from ragstone.run.dask_task import differences, encode_task
from ragstone.run.dask_workers import DaskWorkers, refuse_without_dask
from ragstone.run.worker_process import Task
from tests.run.builders import Answering, samples
from tests.run.builders import judge as scripted
from tests.run.test_workers import METRICS, offline, recipe


def test_no_secret_and_no_relative_path_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    judge = offline(samples(1))
    settings = JudgeSettings(name="local:models/nli", embeddings="local:models/minilm")
    mine = Recipe(settings, recipe(judge).rarity, Path()).elsewhere()
    assert mine.settings.name == f"local:{tmp_path}/models/nli"
    assert mine.settings.embeddings == f"local:{tmp_path}/models/minilm"
    assert mine.within == tmp_path
    assert mine.with_threads(3).settings.local.threads == 3
    monkeypatch.setenv("RAGSTONE_JUDGE_API_KEY", "sk-mine")
    assert b"sk-mine" not in encode_task(Task(recipe(judge), METRICS, 1), judge.identity, ("ragstone",))


def test_versions_that_differ_are_listed() -> None:
    ours = {"Python": "3.13", "ragstone": "1.0", "numpy": "2.1"}
    assert differences(ours, ours) == ""
    theirs = {"Python": "3.12", "numpy": None, "ragstone": "1.0"}
    assert differences(theirs, ours) == "Python 3.12 (here 3.13), numpy is missing (here 2.1)"
    assert differences({**theirs, "ragstone": None}, ours) == "ragstone is missing"


def of_a_cluster(judge: Judge, name: str) -> Round:
    """A round that `judge` judges, built from `name`, on a cluster that is not there."""
    project = ProjectMetrics(SystemSource(SystemSettings()))
    pool = JudgePool(JudgeSource(JudgeSettings(name=name)), workers=2, dask="tcp://127.0.0.1:1")
    return Round(samples(1), Answering(), judge, METRICS, project, Path(), pool=pool)


def test_a_judge_that_waits_for_the_network_stays_here_and_the_user_is_told() -> None:
    said: list[str] = []
    judge = scripted(samples(1))
    assert workers_of(of_a_cluster(judge, "openai:gpt-x"), 10_000, said.append) is None
    (line,) = said
    assert line.startswith("--dask is not used, and answers are judged in this process: ")


def test_a_cluster_takes_the_place_of_worker_processes() -> None:
    asked = of_a_cluster(offline(samples(1)), "offline")
    said: list[str] = []
    assert isinstance(workers_of(asked, 1, said.append), DaskWorkers)
    assert workers_of(asked, 0, said.append) is None
    assert said == []


@pytest.mark.parametrize("wrong", ["scheduler:8786", "tcp://scheduler", "http://scheduler:8786", "tcp://a:b@c:8786"])
def test_other_addresses_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="must be the address of a scheduler"):
        Settings.model_validate({"run": {"dask": wrong}})


def test_an_empty_address_is_none() -> None:
    assert Settings.model_validate({"run": {"dask": " "}}).run.dask is None


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r'pip install "ragstone\[dask\]"'):
        refuse_without_dask()
