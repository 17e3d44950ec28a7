"""Stored answers are scored again: the real command, run directories on disk, and a judge on a loopback server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ragstone.cli.rescore import command
from ragstone.errors import ConfigError, GoldenSetError, JudgeError, RunDirectoryError
from ragstone.evaluation.directory import ASIDE, RunDirectory
from ragstone.evaluation.rescore import Rescored
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.stored import StoredAnswers
from ragstone.evaluation.writer import write_manifest
from ragstone.metrics.score import Scored
from ragstone.settings.load import load_settings
from ragstone.system.response import Context
from tests.judge.conftest import FakeLlm, Loop
from tests.pipeline.asked import evaluate_run, rescore

N = 6
KEY = {"OPENAI_API_KEY": "sk-0123456789"}
RESUME: dict[str, Any] = {"run.resume": True}


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm(served="gpt-4o-mini-2024-07-18"))
    loop.close()


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


class Project:
    """A project with a stored run `one` of `N` samples; the system it came from is gone."""

    def __init__(self, root: Path, fake: FakeLlm) -> None:
        self.root = root
        self.fake = fake
        golden = [{"id": f"q{n}", "question": f"What is {n}?", "reference": f"It is {n}."} for n in range(N)]
        write(root / "golden.jsonl", *golden)
        self.write_outputs()
        self.run("one", ("faithfulness",))
        (root / "outputs.jsonl").unlink()

    def write_outputs(self) -> None:
        answers = ({"id": f"q{n}", "answer": f"It is {n}.", "contexts": [f"{n} is a number."]} for n in range(N))
        write(self.root / "outputs.jsonl", *answers)

    def settings(self, out: str, metrics: Sequence[str] | None = None, **more: Any) -> Any:
        judge = more.pop("judge", "openai:gpt-4o-mini")
        return load_settings(
            directory=self.root,
            environ=KEY,
            overrides={
                "golden.paths": ("golden.jsonl",),
                "system.entrypoint": "file:outputs.jsonl",
                "judge.name": judge,
                "judge.base_url": None if judge == "offline" else f"{self.fake.url}/v1",
                "judge.planted": 0,  # calls are counted
                "run.metrics": metrics,
                "run.out": out,
                **more,
            },
        )

    def run(self, out: str, metrics: Sequence[str] | None = None, **more: Any) -> RunDirectory:
        return asyncio.run(evaluate_run(self.settings(out, metrics, **more), RunContext(environ=KEY)))

    def rescore(self, source: str, out: str, metrics: Sequence[str] | None = None, **more: Any) -> Rescored:
        given = {name: more.pop(name) for name in ("missing", "golden_paths", "dry_run") if name in more}
        settings = self.settings(out, metrics, **more)
        return asyncio.run(rescore([self.root / source], settings, RunContext(environ=KEY), **given))

    @property
    def calls(self) -> int:
        return len(self.fake.seen)


@pytest.fixture
def project(tmp_path: Path, fake: FakeLlm) -> Project:
    return Project(tmp_path, fake)


def records(run: RunDirectory) -> dict[str, Any]:
    return {record.sample.id: record for record in run.records()}


@pytest.mark.parametrize("source", ["one", "one/samples.jsonl"])
def test_a_run_is_scored_by_another_judge_without_its_system(project: Project, source: str) -> None:
    found = project.rescore(source, "two", judge="offline")
    assert found.run is not None
    then, now = RunDirectory.open(project.root / "one"), found.run
    assert now.manifest.judge.provider == "offline"
    assert now.manifest.system == then.manifest.system
    assert now.manifest.metrics == then.manifest.metrics
    assert now.manifest.golden == then.manifest.golden
    before, after = records(then), records(now)
    assert [one.response for one in before.values()] == [one.response for one in after.values()]
    assert all(isinstance(one.scores["faithfulness"], Scored) for one in after.values())


def test_only_judgements_that_are_missing_are_asked_for(project: Project) -> None:
    calls = project.calls
    same = project.rescore("one", "two").run
    assert same is not None
    assert project.calls == calls
    assert records(same).keys() == records(RunDirectory.open(project.root / "one")).keys()
    more = project.rescore("one", "three", ("faithfulness", "context_recall"))
    assert more.run is not None
    assert project.calls == calls + N  # one call for each sample's contexts; the statements are known


def test_a_run_is_not_overwritten_by_its_own_scores(project: Project) -> None:
    before = (project.root / "one" / "samples.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="would be overwritten") as caught:
        project.rescore("one", "one")
    assert "--missing" in str(caught.value)
    assert (project.root / "one" / "samples.jsonl").read_bytes() == before


def test_a_metric_is_added_to_the_run_itself(project: Project) -> None:
    calls = project.calls
    found = project.rescore("one", "one", ("token_f1",), missing=True)
    assert found.run is not None
    assert project.calls == calls
    assert set(found.run.manifest.metrics) == {"faithfulness", "token_f1"}
    assert all(set(one.scores) == {"faithfulness", "token_f1"} for one in records(found.run).values())
    assert not (found.run.path / ASIDE).exists()


def test_resume_adds_metrics_without_asking_the_system_again(project: Project) -> None:
    calls = project.calls
    run = project.run("one", ("token_f1",), **RESUME)  # outputs.jsonl is gone
    assert set(run.manifest.metrics) == {"faithfulness", "token_f1"}
    assert [one.scores["token_f1"] for one in run.records()] == [Scored(1.0)] * N
    assert project.calls == calls


def test_resume_without_metrics_keeps_those_of_the_run_and_its_judge(project: Project) -> None:
    project.write_outputs()
    assert set(project.run("one", **RESUME).manifest.metrics) == {"faithfulness"}
    with pytest.raises(RunDirectoryError, match="judge differ"):
        project.run("one", judge="offline", **RESUME)


def test_adding_a_metric_can_be_stopped_and_resumed_with_nothing_lost(project: Project) -> None:
    with pytest.raises(JudgeError, match="budget"):
        project.run("one", ("context_recall",), **RESUME, **{"judge.max_cost_usd": 1e-9})
    assert (project.root / "one" / ASIDE).is_file()
    run = project.run("one", ("context_recall",), **RESUME)
    assert run.manifest.state == "finished"
    found = records(run)
    assert list(found) == [f"q{n}" for n in range(N)]
    assert all(one.response.failure is None for one in found.values())
    assert all(set(one.scores) == {"faithfulness", "context_recall"} for one in found.values())
    assert not (project.root / "one" / ASIDE).exists()


def interactions(project: Project, n: int) -> Path:
    return write(
        project.root / "log.jsonl",
        *(
            {
                "question": f"What is {k % 3}?",
                "answer": f"It is {k}.",
                "contexts": [f"{k} is a number."],
                "runId": k,
                "model": "m-1",
                "at": f"2026-11-2{k}T03:00:00Z",
            }
            for k in range(n)
        ),
    )


def test_recorded_interactions_need_no_golden_set_and_keep_their_other_fields(project: Project) -> None:
    interactions(project, 4)  # two of them ask the same question
    run = project.rescore("log.jsonl", "production", judge="offline").run
    assert run is not None
    found = list(run.records())
    assert [one.response.answer for one in found] == [f"It is {k}." for k in range(4)]
    assert found[1].response.contexts == (Context("1 is a number."),)
    assert found[3].response.extra == {"runId": 3, "model": "m-1", "at": "2026-11-23T03:00:00Z"}
    assert all(one.sample.reference is None for one in found)
    assert {"faithfulness", "answer_relevancy"} <= run.manifest.metrics.keys()
    assert "context_recall" not in run.manifest.metrics
    assert run.manifest.system.commit is None
    again = project.rescore("production", "again", judge="offline").run
    assert again is not None
    assert [one.response.extra for one in again.records()] == [one.response.extra for one in found]


def test_a_nightly_backfill_costs_only_what_is_new(project: Project) -> None:
    interactions(project, 3)
    metrics = ("faithfulness",)
    project.rescore("log.jsonl", "production", metrics, missing=True)
    calls = project.calls
    interactions(project, 4)
    (project.root / "production" / "judgements.sqlite").unlink()  # not needed for what is scored
    found = project.rescore("log.jsonl", "production", metrics, missing=True)
    assert (found.answers, found.kept) == (4, 3)
    assert project.calls == calls + 2  # the statements of one answer, and their support
    write(project.root / "log.jsonl", {"question": "What is 9?", "answer": "It is 9.", "contexts": ["9 is a number."]})
    found = project.rescore("log.jsonl", "production", metrics, missing=True)
    assert found.run is not None
    assert (found.answers, found.kept, len(records(found.run))) == (5, 4, 5)


def test_another_judge_has_scored_nothing_yet(project: Project) -> None:
    interactions(project, 3)
    project.rescore("log.jsonl", "production", ("faithfulness",))
    found = project.rescore("log.jsonl", "production", judge="offline", missing=True)
    assert found.run is not None
    assert found.kept == 0
    assert found.run.manifest.judge.provider == "offline"
    assert set(found.run.manifest.metrics) == {"faithfulness"}


def test_a_failed_judgement_is_not_scored(project: Project) -> None:
    interactions(project, 3)
    fill = project.fake.fill
    project.fake.fill = lambda schema, prompt: {} if "It is 1." in prompt else fill(schema, prompt)
    first = project.rescore("log.jsonl", "production", ("faithfulness",)).run
    assert first is not None
    assert first.manifest.counts.partly_failed == 1
    project.fake.fill = fill
    found = project.rescore("log.jsonl", "production", ("faithfulness",), missing=True)
    assert found.run is not None
    assert (found.kept, found.run.manifest.counts.scored) == (2, 3)


def test_a_golden_set_gives_interactions_their_references(project: Project) -> None:
    interactions(project, 4)
    found = project.rescore("log.jsonl", "production", judge="offline", golden_paths=("golden.jsonl",))
    assert found.run is not None
    assert found.joined == 4
    samples = [one.sample for one in found.run.records()]
    assert [sample.reference for sample in samples] == ["It is 0.", "It is 1.", "It is 2.", "It is 0."]
    assert [sample.group for sample in samples] == ["q0", None, None, "q0"]  # two answers to one question
    assert "context_recall" in found.run.manifest.metrics


def test_an_answer_is_never_read_as_the_reference(project: Project) -> None:
    write(project.root / "log.jsonl", {"question": "What is 1?", "answer": "It is 1."})
    run = project.rescore("log.jsonl", "production", judge="offline").run
    assert run is not None
    (record,) = run.records()
    assert (record.sample.reference, record.response.answer) == (None, "It is 1.")


def test_the_budget_stops_and_the_next_run_continues(project: Project) -> None:
    tiny: dict[str, Any] = {"judge.max_cost_usd": 1e-9}
    (project.root / "one" / "judgements.sqlite").unlink()
    with pytest.raises(JudgeError, match="budget"):
        project.rescore("one", "two", **tiny)
    found = project.rescore("one", "two", **RESUME)
    assert found.run is not None
    assert found.run.manifest.counts.scored == N


def test_a_dry_run_asks_nothing_and_writes_nothing(project: Project) -> None:
    calls = project.calls
    found = project.rescore("one", "two", dry_run=True)
    assert found.run is None
    assert found.estimate.calls == 2 * N
    assert found.estimate.usd is not None
    assert project.calls == calls
    assert not (project.root / "two").exists()


def test_answers_of_a_run_that_failed_can_not_become_a_baseline(project: Project) -> None:
    one = RunDirectory.open(project.root / "one")
    write_manifest(one.path, one.manifest.model_copy(update={"verdict": "fail"}))
    run = project.rescore("one", "two", judge="offline").run
    assert run is not None
    assert not run.manifest.standing.eligible
    assert "its verdict was fail" in run.manifest.standing.reason
    assert not RunDirectory.open(run.path).manifest.standing.eligible


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        (
            [{"id": "a", "question": "q", "answer": "x"}, {"id": "a", "question": "q", "answer": "y"}],
            ConfigError,
            "'a'",
        ),
        ([{"answer": "x"}], GoldenSetError, "no column for the question"),
        ([], GoldenSetError, "contains no interactions"),
    ],
)
def test_a_bad_file_is_refused(project: Project, rows: list[dict[str, Any]], error: type[Exception], says: str) -> None:
    write(project.root / "log.jsonl", *rows)
    with pytest.raises(error, match=says):
        project.rescore("log.jsonl", "production", judge="offline")
    assert not (project.root / "production").exists()


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)


def test_more_stored_answers_than_a_golden_set_can_have_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.evaluation.stored.MAX_SAMPLES", 2)
    names = ("a.jsonl", "b.jsonl")
    for name in names:
        rows = [{"question": f"{name} {number}?", "answer": "Yes."} for number in range(2)]
        write(tmp_path / name, *rows)
    stored = StoredAnswers()
    stored.read(tmp_path / names[0])
    with pytest.raises(ConfigError, match="there are more than 2 stored answers to score") as caught:
        stored.read(tmp_path / names[1])
    assert caught.value.where == f"{tmp_path / names[1]}:1"
    asyncio.run(stored.close())


def test_the_command_says_what_it_did(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    done = invoke("one", "--judge", "offline", "--golden", "golden.jsonl")
    assert f"{N} of {N} answers match a sample of the golden set." in done.stdout
    assert (
        f"{N} answers scored, 0 with a failed score, 0 without an answer. Written to ragstone-rescored" in done.stdout
    )
    done = invoke("one", "--judge", "offline", "--out", "ragstone-rescored", "--missing", "--dry-run")
    assert done.stdout == f"0 of {N} stored answers to score: no paid judge call.\n"


def test_nothing_is_found_where_there_is_nothing(project: Project) -> None:
    with pytest.raises(ConfigError, match="can't be read") as caught:
        project.rescore("absent.jsonl", "two")
    assert "Expected a run directory" in str(caught.value)
