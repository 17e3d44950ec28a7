"""A small world to evaluate in: samples, a system that answers from them, a judge that follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.evaluation.record import Answer, SampleRecord, record_line
from ragstone.evaluation.writer import RunWriter
from ragstone.golden.sample import GoldenSet, Origin, Sample
from ragstone.judge.judgements import Judgements, Statement, StatementList, Support, SupportTable, Verdict
from ragstone.judge.protocol import JudgeIdentity, Ledger
from ragstone.judge.scripted import ScriptedJudge
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Context, Response


def samples(n: int) -> GoldenSet:
    origins = (Origin("golden.jsonl", line) for line in range(1, n + 1))
    return GoldenSet(tuple(Sample(f"q{i}", f"Question {i}?", f"Answer {i}.", origin=o) for i, o in enumerate(origins)))


def judgement(supported: bool = True) -> Judgements:
    verdict = Verdict.SUPPORTED if supported else Verdict.UNSUPPORTED
    return Judgements(
        statements=StatementList((Statement("s1", "It is so."),), abstains=False),
        support=SupportTable((Support("s1", verdict, ("c1",) if supported else ()),)),
    )


def judge(golden: GoldenSet) -> ScriptedJudge:
    return ScriptedJudge({sample.id: judgement(i % 3 != 0) for i, sample in enumerate(golden)}, concurrency=3)


def one_answer(
    sample: Sample,
    response: Response,
    judgements: tuple[Judgements, ...] = (),
    scores: Mapping[str, Score] | None = None,
    ledger: Ledger | None = None,
) -> SampleRecord:
    """The record of a sample that the system was asked once."""
    answer = Answer(response, judgements, scores or {})
    return SampleRecord(sample, (answer,), answer.scores, ledger or Ledger())


class Answering:
    """A system in this process; `behave` may raise, wait, or return a Response of its own."""

    entrypoint = "python:world:answer"
    can_be_asked_again = True

    def __init__(self, behave: Callable[[Sample], Response] | None = None, concurrency: int = 2) -> None:
        self.concurrency = concurrency
        self.asked: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._behave = behave or (lambda s: Response(s.id, "It is so.", (Context("It is so.", "d1", 2.5),), 0.25))

    async def start(self) -> None:
        return None

    async def ask(self, sample: Sample) -> Response:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        self.asked.append(sample.id)
        return self._behave(sample)

    async def close(self) -> None:
        return None


def manifest(golden: GoldenSet, *, judge_version: str = "1", metric: str = "faithfulness") -> Manifest:
    return Manifest(
        ragstone_version="0",
        state="running",
        created_at="2026-01-01T00:00:00+00:00",
        golden=GoldenManifest(files=("golden.jsonl",), content_hash=golden.content_hash(), samples=len(golden)),
        judge=JudgeIdentity(provider="scripted", model="script", version=judge_version),
        system=SystemManifest(entrypoint="python:world:answer"),
        metrics={metric: "1"},
    )


def record(sample: Sample, value: float = 0.5) -> SampleRecord:
    response = Response(sample.id, "It is so.", (Context("It is so."),), latency_s=0.1)
    return one_answer(sample, response, (judgement(),), {"faithfulness": Scored(value)})


def unfinished_run(path: Path, golden: GoldenSet, *, upto: int | None = None) -> RunWriter:
    """A run of `golden` with the records of the first `upto` samples, of all by default."""
    writer = RunWriter.create(path, manifest(golden))
    for sample in golden.samples[:upto]:
        writer.append(record_line(record(sample)))
    return writer


def finished_run(path: Path, golden: GoldenSet) -> RunDirectory:
    return unfinished_run(path, golden).finish((sample.id for sample in golden), wall_s=1.0)
