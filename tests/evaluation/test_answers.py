"""Several answers to each question: asked, judged, combined, stored, read and replayed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError, RunDirectoryError
from ragstone.evaluation.directory import SAMPLES, RunDirectory
from ragstone.evaluation.record import record_from_line, record_to_line
from ragstone.evaluation.replay import confirm
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.sources import JudgeSource, SystemSource
from ragstone.evaluation.scoring import combine_answers
from ragstone.golden.sample import Sample
from ragstone.judge.scripted import ScriptedJudge
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.settings.settings import JudgeSettings, RunSettings, Settings, SystemSettings
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.evaluation.builders import Answering, judge, judgement, samples
from tests.pipeline.asked import evaluate_golden_set

METRICS = select_metrics(["faithfulness"])
TIMEOUT = SystemFailure(SystemFailureKind.TIMEOUT, "no answer in 60 s")


class InTurn(Answering):
    """A system whose answers to a question are numbered; those in `fails` fail."""

    def __init__(self, *fails: int) -> None:
        super().__init__(concurrency=3)
        self._fails = fails

    async def ask(self, sample: Sample) -> Response:
        number = self.asked.count(sample.id)
        self.asked.append(sample.id)
        await asyncio.sleep(0.002 * (3 - number))  # the last one answers first
        if number in self._fails:
            return Response(sample.id, failure=TIMEOUT)
        return Response(sample.id, f"Answer {number}.", (Context("It is so."),), latency_s=1.0 + number)


def evaluated(
    folder: Path, system: InTurn, judging: ScriptedJudge, *, n: int = 6, metric: str = "faithfulness", **more: Any
) -> RunDirectory:
    run = RunSettings.model_validate({"out": "run", "metrics": (metric,), "answers": 3, **more})
    settings = Settings(root=folder, run=run)
    return asyncio.run(evaluate_golden_set(samples(n), system, judging, settings, RunContext(environ={})))


def test_each_question_is_asked_as_often_as_wanted_and_the_answers_keep_their_order(tmp_path: Path) -> None:
    system = InTurn()
    run = evaluated(tmp_path, system, ScriptedJudge({f"q{i}": judgement(i != 2) for i in range(6)}))
    assert sorted(system.asked) == sorted([f"q{i}" for i in range(6)] * 3)
    said = [[one.answer for one in record.responses] for record in run.records()]
    assert said == [["Answer 0.", "Answer 1.", "Answer 2."]] * 6
    assert (run.manifest.answers, run.manifest.counts.scored) == (3, 6)
    assert run.scores().system.latencies_s == {f"q{i}": 1.0 for i in range(6)}
    assert run.scores().metrics["faithfulness"].answers["q2"] == (0.0, 0.0, 0.0)
    once = evaluated(tmp_path / "once", InTurn(), judge(samples(6)), answers=1)
    assert once.scores().metrics["faithfulness"].answers == {}
    line = json.loads((once.path / SAMPLES).read_text().splitlines()[1])
    assert line.keys() == {"sample", "answers", "scores"}


REFUSED = Failed("judge", "refused")
THREE = "3 answers: 1.00, 0.50, 0.00; the judge failed on 1"
TWO = "2 answers: 1.00, 0.00; does not apply to 1"


@pytest.mark.parametrize(
    ("each", "found"),
    [
        ([Scored(1.0), Scored(0.5)], Scored(0.75, "2 answers: 1.00, 0.50")),
        ([Scored(1.0), Failed("system", "timeout")], Failed("system", "1 of 2 answers: timeout")),
        ([REFUSED, NotApplicable("empty")], Failed("judge", "1 of 2 answers: refused")),
        ([Scored(1.0), REFUSED, Scored(0.5), Scored(0.0)], Scored(0.5, THREE)),
        ([Scored(1.0), Failed("function", "bug"), Scored(0.5)], Failed("function", "1 of 3 answers: bug")),
        ([Scored(1.0), NotApplicable("cites nothing"), Scored(0.0)], Scored(0.5, TWO)),
        ([NotApplicable("cites nothing")] * 2, NotApplicable("cites nothing")),
        ([Scored(0.25, "1 of 4 statements")], Scored(0.25, "1 of 4 statements")),
    ],
)
def test_only_a_few_answers_that_the_judge_failed_on_are_left_out_of_a_mean(each: list[Score], found: Score) -> None:
    assert combine_answers(each) == found


def test_a_sample_with_one_failed_answer_has_failed_and_says_how_many(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(1), judge(samples(6)))
    scores = run.scores()
    assert run.manifest.counts.system_failed == 6
    assert scores.metrics["faithfulness"].values == {}
    assert scores.metrics["faithfulness"].failed["q1"].reason == "1 of 3 answers: timeout: no answer in 60 s"
    assert scores.system.failures["q1"] == "1 of 3 answers: timeout: no answer in 60 s"
    assert scores.system.failed_answers == {f"q{i}": 1 for i in range(6)}
    for record in run.records():
        assert record_from_line(record_to_line(record), "here") == record


def changed(run: RunDirectory, place: str, value: object) -> RunDirectory:
    """The run, in whose second record the value at a path is another, or is left out if it is None."""
    lines = [json.loads(line) for line in (run.path / SAMPLES).read_text().splitlines()]
    *path, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
    holder = lines[1]
    for part in path:
        holder = holder[part]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    (run.path / SAMPLES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return RunDirectory.open(run.path)


@pytest.mark.parametrize(
    ("place", "value", "fails", "more"),
    [
        ("answers.1.scores.faithfulness.value", 0.25, (), {}),
        ("scores.faithfulness", {"state": "scored", "value": 1.0}, (0,), {}),
        ("scores.answer_stability_tokens.value", 1.0, (), {"metric": "answer_stability_tokens"}),
    ],
)
def test_what_is_recorded_of_the_answers_must_follow_from_the_judgements(
    tmp_path: Path, place: str, value: object, fails: tuple[int, ...], more: dict[str, Any]
) -> None:
    run = evaluated(tmp_path, InTurn(*fails), judge(samples(6)), **more)
    assert confirm(RunDirectory.open(run.path)).scores() == run.scores()
    with pytest.raises(RunDirectoryError, match=r"'q1': \w+ does not follow"):
        confirm(changed(run, place, value))


def test_an_answer_can_not_be_left_out(tmp_path: Path) -> None:
    run = evaluated(tmp_path, InTurn(), judge(samples(6)))
    with pytest.raises(RunDirectoryError, match="'q1' has 2 answers, but the manifest says 3"):
        changed(run, "answers.2", None).scores()
    with pytest.raises(RunDirectoryError, match="'answers' must not be empty"):
        changed(run, "answers", []).scores()


def test_recorded_answers_can_not_be_asked_again() -> None:
    source = SystemSource(SystemSettings(entrypoint="file:out.jsonl"))
    plan = RunPlan(samples(1), JudgeSource(JudgeSettings()), ProjectMetrics(source), Path(), answers_per_sample=3)
    with pytest.raises(ConfigError, match="answers can't be combined with recorded answers"):
        plan.refuse_conflicts()
