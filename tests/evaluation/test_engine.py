"""The engine: bounded, complete, and one bad sample never costs another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from ragstone.errors import JudgeError
from ragstone.evaluation.engine import Job, Work, run_samples
from ragstone.evaluation.executors import BATCH_SIZE, Workers
from ragstone.evaluation.record import Answer, RecordLine, SampleRecord, record_from_line
from ragstone.evaluation.scoring import combine_rounds, score_record
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.judgements import Grade, StatementList
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.judge.scripted import ScriptedJudge
from ragstone.metrics.custom import FunctionMetric
from ragstone.metrics.registry import select_metrics
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response, SystemFailure, SystemFailureKind
from tests.evaluation.builders import Answering, judge, judgement, samples

METRICS = select_metrics(["faithfulness"])


def run(golden: GoldenSet, system: Answering, judging: ScriptedJudge, **more: object) -> list[SampleRecord]:
    return evaluated(Work(golden, system=system, judge=judging, metrics=METRICS, **more))  # type: ignore[arg-type]


def evaluated(work: Work) -> list[SampleRecord]:
    lines: list[str] = []
    asyncio.run(run_samples(work, lambda record: lines.append(record.line)))
    return [record_from_line(line, "") for line in lines]


@pytest.mark.parametrize("more", [{}, {"answers_per_sample": 3}], ids=["one answer each", "three"])
def test_no_more_samples_are_in_flight_than_the_system_takes(more: dict[str, int]) -> None:
    system = Answering(concurrency=3)
    run(samples(30), system, judge(samples(30)), **more)
    assert system.most_in_flight == 3


class Slow(Workers):
    """Workers in this process that return nothing until they are `free`."""

    max_batches = 3

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.judged: list[str] = []

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def judge(self, jobs: Sequence[Job]) -> list[RecordLine]:
        await self.free.wait()
        self.judged += [sample.id for sample, _ in jobs]
        return [RecordLine(sample.id, "scored", Ledger(), "") for sample, _ in jobs]

    async def _submit(self, jobs: Sequence[Job]) -> list[RecordLine]:
        raise NotImplementedError


def test_what_is_answered_before_it_can_be_judged_is_bounded() -> None:
    golden = samples(400)
    system = Answering(concurrency=1)
    written: list[str] = []

    async def evaluate() -> int:
        workers = Slow()
        work = Work(golden, system=system, judge=judge(golden), metrics=METRICS)
        running = asyncio.create_task(run_samples(work, lambda one: written.append(one.sample_id), workers))
        before = -1
        while before != len(system.asked):
            before = len(system.asked)
            for _ in range(100):  # all that can go on goes on
                await asyncio.sleep(0)
        assert written == []
        workers.free.set()
        await running
        return before

    assert asyncio.run(evaluate()) <= 2 * 3 * BATCH_SIZE + 1  # with the workers, in the queue, at the system
    assert sorted(written) == sorted(sample.id for sample in golden)


def test_a_judge_that_is_dead_ends_the_run_and_what_was_finished_has_reached_the_sink() -> None:
    class Dying(ScriptedJudge):
        async def statements(self, question: str, answer: str, *, call: Call) -> StatementList:
            if call.sample_id == "q7":
                raise JudgeError("the key was refused")
            return await super().statements(question, answer, call=call)

    golden = samples(50)
    dying = Dying({s.id: judgement() for s in golden}, concurrency=1)
    finished: list[str] = []
    work = Work(golden, system=Answering(concurrency=1), judge=dying, metrics=METRICS)
    with pytest.raises(JudgeError, match="refused"):
        asyncio.run(run_samples(work, lambda record: finished.append(record.sample_id)))
    assert finished == [f"q{i}" for i in range(7)]


def test_a_metric_of_the_project_is_graded_without_any_judgement() -> None:
    async def graded(_judge: Judge, sample: Sample, _response: Response, _call: Call) -> Grade:
        return Grade(int(sample.id[1:]) / 4)

    golden = samples(2)
    work = Work(golden, Answering(), judge(golden), (FunctionMetric("mine", "1"),), custom={"mine": graded})
    assert {record.sample.id: record.scores for record in evaluated(work)} == {
        "q0": {"mine": Scored(0.0)},
        "q1": {"mine": Scored(0.25)},
    }


def test_repeats_are_judged_apart_and_their_mean_is_the_score() -> None:
    golden = samples(1)
    judging = ScriptedJudge({"q0": [judgement(True), judgement(False), judgement(True)]})
    (record,) = run(golden, Answering(), judging, repeats=3)
    assert len(record.answers[0].judgements) == 3
    assert record.scores["faithfulness"] == Scored(2 / 3)


def test_a_mean_over_repeats_needs_more_than_half_of_them() -> None:
    failed = Failed("judge", "refused")
    assert combine_rounds([Scored(1.0), failed]) == failed
    assert combine_rounds([Scored(1.0), failed, Scored(0.0)]) == Scored(0.5)


def test_a_failed_response_fails_only_the_metrics_that_apply_to_its_sample() -> None:
    names = ["context_precision", "context_recall", "faithfulness", "recall@5", "exact_match", "latency_within@1"]
    lost = Response("q", "", failure=SystemFailure(SystemFailureKind.TIMEOUT, "No answer."))
    failed = Failed("system", "timeout: No answer.")

    def scored(sample: Sample) -> Mapping[str, Score]:
        return score_record(select_metrics(names), SampleRecord(sample, (Answer(lost),))).scores

    everywhere = {"faithfulness": failed, "latency_within@1": failed}
    assert scored(Sample("q", "Q?", reference="R.", relevant_ids={"d": 1.0})) == everywhere | {
        "context_precision": failed,
        "context_precision_no_reference": NotApplicable("the sample has a reference"),
        "context_recall": failed,
        "recall@5": failed,
        "exact_match": failed,
    }
    bare = scored(Sample("q", "Q?"))
    assert {name for name, score in bare.items() if score == failed} == {*everywhere, "context_precision_no_reference"}
    unanswerable = scored(Sample("q", "Q?", answerable=False))
    assert {name for name, score in unanswerable.items() if score == failed} == set(everywhere)


@pytest.mark.parametrize(("answered", "asked"), [(None, 20), (0, 40), (19, 40), (20, 20)])
def test_a_system_that_fails_at_the_first_twenty_questions_is_asked_no_more(answered: int | None, asked: int) -> None:
    golden = samples(40)
    right = None if answered is None else golden[answered].id

    def behave(sample: Sample) -> Response:
        failure = SystemFailure(SystemFailureKind.RAISED, "KeyError: 'x'")
        return Response(sample.id, "It is so.") if sample.id == right else Response(sample.id, failure=failure)

    system = Answering(behave, concurrency=1)
    records = run(golden, system, judge(golden))
    assert len(system.asked) == asked
    assert len(records) == len(golden)
    last = records[-1].response.failure
    assert last is not None
    assert ("not asked, since the first 20 questions failed" in last.message) is (asked == 20)
