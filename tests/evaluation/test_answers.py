"""Several answers to each question: asked, judged, combined, stored, read and replayed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError, RunDirectoryError
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.engine import Work, run_samples
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.replay import confirm
from ragstone.evaluation.rescore import Rescored
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.scoring import combine_answers
from ragstone.evaluation.serialise import record_from_line, record_to_line
from ragstone.gate.stability import variance_of, variance_words
from ragstone.golden.sample import Sample
from ragstone.judge.protocol import Call
from ragstone.judge.scripted import ScriptedJudge
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.settings.settings import GoldenSettings, RunSettings, Settings, SystemSettings
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.evaluation.builders import Answering, judge, judgement, samples
from tests.pipeline.asked import evaluate_golden_set, evaluate_run, rescore

METRICS = select_metrics(["faithfulness"])
TIMEOUT = SystemFailure(SystemFailureKind.TIMEOUT, "no answer in 60 s")


class InTurn:
    """A system whose answers to a question are numbered; those in `fails` fail."""

    entrypoint = "python:world:answer"
    concurrency = 3
    can_be_asked_again = True

    def __init__(self, fails: frozenset[int] = frozenset(), answer: Callable[[int], str] = "Answer {}.".format) -> None:
        self.asked: list[str] = []
        self._fails = fails
        self._answer = answer

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        number = self.asked.count(sample.id)
        self.asked.append(sample.id)
        await asyncio.sleep(0.002 * (3 - number))  # the last one answers first
        if number in self._fails:
            return Response(sample.id, failure=TIMEOUT)
        return Response(sample.id, self._answer(number), (Context("It is so."),), latency_s=1.0 + number)

    async def close(self) -> None: ...


def evaluated(
    folder: Path, system: InTurn, judging: ScriptedJudge, *, n: int = 6, metric: str = "faithfulness", **more: Any
) -> RunDirectory:
    run = RunSettings.model_validate({"out": "run", "metrics": (metric,), "answers": 3, **more})
    settings = Settings(root=folder, run=run)
    return asyncio.run(evaluate_golden_set(samples(n), system, judging, settings, RunContext(environ={})))


def test_each_question_is_asked_as_often_as_wanted_and_the_answers_keep_their_order(tmp_path: Path) -> None:
    system = InTurn()
    run = evaluated(tmp_path, system, judge(samples(6)))
    assert sorted(system.asked) == sorted([f"q{i}" for i in range(6)] * 3)
    records = list(run.records())
    assert [[one.answer for one in record.responses] for record in records] == [
        ["Answer 0.", "Answer 1.", "Answer 2."]
    ] * 6
    assert run.manifest.answers == 3
    assert run.manifest.counts.scored == 6
    assert run.scores().system.latencies_s == {f"q{i}": 1.0 for i in range(6)}


def test_a_sample_is_scored_by_the_mean_of_its_answers(tmp_path: Path) -> None:
    rounds = [judgement(True), judgement(False)]
    records: list[SampleRecord] = []
    asyncio.run(
        run_samples(
            Work(
                samples(1), system=InTurn(), judge=ScriptedJudge({"q0": rounds}), metrics=METRICS, answers=2, repeats=2
            ),
            records.append,
        )
    )
    (record,) = records
    assert [answer.scores["faithfulness"] for answer in record.answers] == [Scored(0.5), Scored(0.5)]
    assert [answer.repeat_scores["faithfulness"] for answer in record.answers] == [(1.0, 0.0)] * 2
    assert record.scores["faithfulness"] == Scored(0.5, "2 answers: 0.50, 0.50")


@pytest.mark.parametrize(
    ("each", "found"),
    [
        ([Scored(1.0), Scored(0.5)], Scored(0.75, "2 answers: 1.00, 0.50")),
        ([Scored(1.0), Failed("system", "timeout")], Failed("system", "1 of 2 answers: timeout")),
        ([Failed("judge", "refused"), NotApplicable("empty")], Failed("judge", "1 of 2 answers: refused")),
        (
            [Scored(1.0), Failed("judge", "refused"), Scored(0.5), Scored(0.0)],
            Scored(0.5, "3 answers: 1.00, 0.50, 0.00; the judge failed on 1"),
        ),
        (
            [Scored(1.0), Failed("function", "ValueError"), Scored(0.5)],
            Failed("function", "1 of 3 answers: ValueError"),
        ),
        (
            [Scored(1.0), NotApplicable("cites nothing"), Scored(0.0)],
            Scored(0.5, "2 answers: 1.00, 0.00; does not apply to 1"),
        ),
        ([NotApplicable("cites nothing")] * 2, NotApplicable("cites nothing")),
        ([Scored(0.25, "1 of 4 statements")], Scored(0.25, "1 of 4 statements")),
    ],
)
def test_only_a_few_answers_that_the_judge_failed_on_are_left_out_of_a_mean(each: list[Score], found: Score) -> None:
    assert combine_answers(each) == found


def test_a_sample_with_one_failed_answer_has_failed_and_says_how_many(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(fails=frozenset({1})), judge(samples(6)))
    scores = run.scores()
    assert run.manifest.counts.system_failed == 6
    assert scores.metrics["faithfulness"].values == {}
    assert scores.metrics["faithfulness"].failed["q1"].reason == "1 of 3 answers: timeout: no answer in 60 s"
    assert scores.system.failures["q1"] == "1 of 3 answers: timeout: no answer in 60 s"
    assert scores.system.failed_answers == {f"q{i}": 1 for i in range(6)}


def test_the_gate_sees_the_score_of_each_answer(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(), ScriptedJudge({f"q{i}": judgement(i != 2) for i in range(6)}))
    assert run.scores().metrics["faithfulness"].answers["q2"] == (0.0, 0.0, 0.0)
    once = evaluated(tmp_path / "once", InTurn(), judge(samples(6)), answers=1)
    assert once.scores().metrics["faithfulness"].answers == {}


def test_a_record_of_several_answers_survives_the_file(tmp_path: Path) -> None:
    for record in evaluated(tmp_path, InTurn(fails=frozenset({2})), judge(samples(6))).records():
        assert record_from_line(record_to_line(record), "here") == record


def test_a_sample_that_was_asked_once_is_stored_as_before(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(), judge(samples(2)), n=2, answers=1)
    line = json.loads((run.path / SAMPLES).read_text().splitlines()[1])
    assert line.keys() == {"sample", "response", "judgements", "scores"}


def changed(run: RunDirectory, change: Callable[[Any], None]) -> RunDirectory:
    lines = [json.loads(line) for line in (run.path / SAMPLES).read_text().splitlines()]
    change(lines[1])
    (run.path / SAMPLES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return RunDirectory.open(run.path)


def raise_score(line: Any) -> None:
    line["answers"][1]["scores"]["faithfulness"]["value"] = 0.25


def raise_mean(line: Any) -> None:
    line["scores"]["faithfulness"]["value"] = 0.25


def hide_failure(line: Any) -> None:
    line["scores"]["faithfulness"] = {"state": "scored", "value": 1.0}


def change_round(line: Any) -> None:
    line["answers"][0]["repeat_scores"]["faithfulness"][1] = 0.9


@pytest.mark.parametrize(
    ("change", "fails", "repeats"),
    [(raise_score, (), 1), (raise_mean, (), 1), (hide_failure, (0,), 1), (change_round, (), 2)],
)
def test_what_is_recorded_of_the_answers_must_follow_from_the_judgements(
    tmp_path: Path, change: Callable[[Any], None], fails: tuple[int, ...], repeats: int
) -> None:
    run = evaluated(tmp_path, InTurn(fails=frozenset(fails)), judge(samples(6)), repeats=repeats)
    assert confirm(RunDirectory.open(run.path)).scores() == run.scores()
    with pytest.raises(RunDirectoryError, match="'q1': faithfulness does not follow"):
        confirm(changed(run, change))


def drop_answer(line: Any) -> None:
    line["answers"].pop()


def keep_first_answer(line: Any) -> None:
    del line["answers"][1:]


def test_an_answer_can_not_be_left_out(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(), judge(samples(6)))
    with pytest.raises(RunDirectoryError, match="'q1' has 2 answers, but the manifest says 3"):
        changed(run, drop_answer).scores()
    with pytest.raises(RunDirectoryError, match="either a response, or several answers"):
        changed(run, keep_first_answer).scores()


def test_a_run_is_resumed_only_with_as_many_answers(tmp_path: Path) -> None:
    golden, run = samples(6), RunSettings(out="run", metrics=("faithfulness",), answers=2)
    settings = Settings(root=tmp_path, run=run)

    async def interrupted() -> None:
        whole = asyncio.current_task()
        assert whole is not None
        stop = whole.cancel  # what asyncio does on Ctrl-C

        class Stops(InTurn):
            async def ask(self, sample: Sample) -> Response:
                if len(set(self.asked)) > 3:
                    stop()
                return await super().ask(sample)

        await evaluate_golden_set(golden, Stops(), judge(golden), settings, RunContext(environ={}))

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    finished = [record.sample.id for record in RunDirectory.open(tmp_path / "run").records()]
    assert 0 < len(finished) < 6
    other = settings.model_copy(update={"run": run.model_copy(update={"resume": True, "answers": 3})})
    with pytest.raises(RunDirectoryError, match="answers differ"):
        asyncio.run(evaluate_golden_set(golden, InTurn(), judge(golden), other, RunContext(environ={})))
    same = settings.model_copy(update={"run": run.model_copy(update={"resume": True})})
    system = InTurn()
    done = asyncio.run(evaluate_golden_set(golden, system, judge(golden), same, RunContext(environ={})))
    assert not set(system.asked) & set(finished)
    assert {len(record.answers) for record in done.records()} == {2}


def test_a_file_of_recorded_answers_can_not_be_asked_again(tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text('{"question": "Is it so?"}\n', encoding="utf-8")
    settings = Settings(
        root=tmp_path,
        golden=GoldenSettings(paths=("golden.jsonl",)),
        system=SystemSettings(entrypoint="file:out.jsonl"),
        run=RunSettings(answers=3),
    )
    with pytest.raises(ConfigError, match="--answers can't be combined with recorded answers"):
        asyncio.run(evaluate_run(settings, RunContext(environ={})))


def rescored(folder: Path, *sources: Path, **more: Any) -> Rescored:
    settings = Settings(root=folder, run=RunSettings(out="again", metrics=("token_f1",)))
    return asyncio.run(rescore(sources, settings, RunContext(environ={}), **more))


def test_every_stored_answer_is_scored_again(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(), judge(samples(6)))
    again = rescored(tmp_path, run.path).run
    assert again is not None
    assert [record.responses for record in again.records()] == [record.responses for record in run.records()]
    assert again.manifest.answers == 3
    assert rescored(tmp_path, run.path, missing=True).kept == 6


def test_runs_with_different_numbers_of_answers_are_not_scored_together(tmp_path: Path) -> None:
    first = evaluated(tmp_path / "a", InTurn(), judge(samples(6)), n=4)
    other = evaluated(tmp_path / "b", InTurn(), judge(samples(6)), n=6, answers=1)
    lines = (other.path / SAMPLES).read_text().splitlines(keepends=True)
    (tmp_path / "rest.jsonl").write_text("".join(lines[4:]))
    with pytest.raises(ConfigError, match=r"rest\.jsonl:1: has 1 answer to its question, but .*:1 has 3"):
        rescored(tmp_path, first.path, tmp_path / "rest.jsonl")


def test_metrics_are_added_to_every_stored_answer(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(), judge(samples(6)))
    before = [record.responses for record in run.records()]
    system = InTurn()
    more = evaluated(tmp_path, system, judge(samples(6)), metric="token_f1", resume=True)
    assert system.asked == []
    assert [record.responses for record in more.records()] == before
    assert more.manifest.metrics.keys() == {"faithfulness", "token_f1"}


def test_stability_is_recorded_replayed_and_recomputed(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(), judge(samples(4)), n=4, metric="answer_stability_tokens")
    assert run.scores().metrics["answer_stability_tokens"].values == {f"q{i}": pytest.approx(0.5) for i in range(4)}
    assert confirm(RunDirectory.open(run.path)).scores() == run.scores()

    def raise_stability(line: Any) -> None:
        line["scores"]["answer_stability_tokens"]["value"] = 1.0

    with pytest.raises(RunDirectoryError, match="answer_stability_tokens does not follow"):
        confirm(changed(run, raise_stability))


def test_the_noise_of_asking_again_is_read_from_the_answers(tmp_path: Path) -> None:
    good, bad = judgement(True), judgement(False)

    class Unsteady(ScriptedJudge):
        async def support(self, contexts: Any, statements: Any, *, call: Call) -> Any:
            self.asked = getattr(self, "asked", 0) + 1
            return (good if self.asked % 3 else bad).support

    golden = samples(6)
    run = evaluated(tmp_path, InTurn(), Unsteady({sample.id: good for sample in golden}), answers=2)
    parts = variance_of(run.scores().metrics["faithfulness"])
    assert parts is not None
    assert parts.draws is not None
    assert parts.draws > 0
    assert "system and judge" in variance_words(parts)
    once = evaluated(tmp_path / "once", InTurn(), judge(golden), answers=1)
    assert variance_of(once.scores().metrics["faithfulness"]) is None


def test_no_more_questions_are_in_flight_than_the_system_takes() -> None:
    system = Answering(concurrency=2)
    asyncio.run(
        run_samples(
            Work(samples(10), system=system, judge=judge(samples(10)), metrics=METRICS, answers=3), lambda _: None
        )
    )
    assert system.most_in_flight == 2
    assert len(system.asked) == 30
