"""Stored answers are scored again: the real command, run directories on disk, and a judge on a loopback server."""

# ruff: noqa: F811 - a fixture is imported and then named as an argument
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ragstone.cli.rescore import command
from ragstone.errors import ConfigError, GoldenSetError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.writer import write_manifest
from ragstone.metrics.score import Scored
from ragstone.system.response import Context
from tests.judge.conftest import FakeLlm
from tests.pipeline.conftest import fake  # noqa: F401 - a fixture
from tests.pipeline.project import Project

N = 6


def interactions(project: Project, n: int) -> None:
    """Write `log.jsonl`, in which the fourth interaction asks what the first one does."""
    rows = [
        {"question": f"What is {k % 3}?", "answer": f"It is {k}.", "contexts": [f"{k} is a number."], "runId": k}
        for k in range(n)
    ]
    project.write("log.jsonl", rows)


@pytest.fixture
def project(tmp_path: Path, fake: FakeLlm) -> Project:
    """A project with a stored run `one` of `N` samples; the system it came from is gone."""
    project = Project(tmp_path, fake)
    project.defaults = {"judge__planted": 0}  # calls are counted
    project.write_golden(N)
    rows = [{"id": f"q{n}", "answer": f"It is {n}.", "contexts": [f"{n} is a number."]} for n in range(N)]
    project.write("outputs.jsonl", rows)
    project.run("one", run__metrics=("faithfulness",))
    (project.root / "outputs.jsonl").unlink()
    project.fake.seen.clear()
    return project


def records(run: RunDirectory) -> dict[str, Any]:
    return {record.sample.id: record for record in run.records()}


def test_a_run_is_scored_by_another_judge_without_its_system(project: Project) -> None:
    then, now = project.opened("one"), project.rescore("one", "two", judge="offline")
    assert now.manifest.judge.provider == "offline"
    assert now.manifest.system == then.manifest.system
    assert now.manifest.metrics == then.manifest.metrics
    assert now.manifest.golden == then.manifest.golden
    before, after = records(then), records(now)
    assert [one.response for one in before.values()] == [one.response for one in after.values()]
    assert all(isinstance(one.scores["faithfulness"], Scored) for one in after.values())


def test_only_judgements_that_are_missing_are_asked_for(project: Project) -> None:
    same = project.rescore("one", "two")
    assert project.calls == 0
    assert records(same).keys() == records(project.opened("one")).keys()
    project.rescore("one", "three", run__metrics=("faithfulness", "context_recall"))
    assert project.calls == N  # one call for each sample's contexts; the statements are known


def test_a_run_is_not_overwritten_by_its_own_scores(project: Project) -> None:
    before = (project.root / "one" / "samples.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="would be overwritten"):
        project.rescore("one", "one")
    assert (project.root / "one" / "samples.jsonl").read_bytes() == before


def test_recorded_interactions_need_no_golden_set_and_keep_their_other_fields(project: Project) -> None:
    interactions(project, 4)  # two of them ask the same question
    run = project.rescore("log.jsonl", "production", judge="offline")
    found = list(run.records())
    assert [one.response.answer for one in found] == [f"It is {k}." for k in range(4)]
    assert found[1].response.contexts == (Context("1 is a number."),)
    assert found[3].response.extra == {"runId": 3}
    assert all(one.sample.reference is None for one in found)
    assert {"faithfulness", "answer_relevancy"} <= run.manifest.metrics.keys()
    assert "context_recall" not in run.manifest.metrics
    assert run.manifest.system.commit is None
    again = project.rescore("production", "again", judge="offline")
    assert [one.response.extra for one in again.records()] == [one.response.extra for one in found]


def test_a_golden_set_gives_interactions_their_references(project: Project) -> None:
    interactions(project, 4)
    run = project.rescore("log.jsonl", "production", judge="offline", golden_paths=("golden.jsonl",))
    assert "4 of 4 answers match a sample of the golden set." in project.said
    samples = [one.sample for one in run.records()]
    assert [sample.reference for sample in samples] == ["It is 0.", "It is 1.", "It is 2.", "It is 0."]
    assert [sample.group for sample in samples] == ["q0", None, None, "q0"]  # two answers to one question
    assert "context_recall" in run.manifest.metrics


def test_answers_of_a_run_that_failed_can_not_become_a_baseline(project: Project) -> None:
    one = project.opened("one")
    write_manifest(one.path, one.manifest.model_copy(update={"verdict": "fail"}))
    run = project.rescore("one", "two", judge="offline")
    assert not run.manifest.standing.eligible
    assert "its verdict was fail" in run.manifest.standing.reason
    assert not RunDirectory.open(run.path).manifest.standing.eligible


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        ([{"id": "a", "question": "q", "answer": text} for text in "xy"], ConfigError, "'a'"),
        ([{"answer": "x"}], GoldenSetError, "no column for the question"),
        ([], GoldenSetError, "contains no interactions"),
        (None, ConfigError, "can't be read"),
    ],
)
def test_a_bad_file_is_refused(
    project: Project, rows: list[dict[str, Any]] | None, error: type[Exception], says: str
) -> None:
    if rows is not None:
        project.write("log.jsonl", rows)
    with pytest.raises(error, match=says):
        project.rescore("log.jsonl", "production", judge="offline")
    assert not (project.root / "production").exists()


def test_more_stored_answers_than_a_golden_set_can_have_are_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.evaluation.interactions.MAX_SAMPLES", 2)
    interactions(project, 3)
    with pytest.raises(ConfigError, match="more than 2 stored answers") as caught:
        project.rescore("log.jsonl", "production", judge="offline")
    assert caught.value.where == f"{project.root / 'log.jsonl'}:3"
    assert not (project.root / "production").exists()


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)


def test_the_command_says_what_it_did(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    done = invoke("one", "--judge", "offline", "--golden", "golden.jsonl")
    assert f"{N} of {N} answers match" in done.stderr
    for fact in (f"{N} samples scored", "0 with a failed score", "0 without an answer", "ragstone-rescored"):
        assert fact in done.stdout
