"""Judges and scores the answers to one sample, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure, collect_judgements
from ragstone.judge.judgements import Judgements
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.metrics.metric import Metric
from ragstone.run.record import Answer, SampleRecord
from ragstone.run.scoring import needed_judgements, needed_measures, sample_scores, scored_answer
from ragstone.system.response import Response


async def judge_sample(
    judge: Judge,
    metrics: Sequence[Metric],
    sample: Sample,
    responses: Iterable[Response],
    *,
    repeats: int,
    custom: Mapping[str, Measure],
    ledger: Ledger,
) -> SampleRecord:
    """The record of `sample`: each of its `responses` judged `repeats` times. `custom` are measures of custom metrics.

    What judging costs is added to `ledger`. Raises JudgeError when the judge can't continue.
    """
    needs = needed_judgements(metrics, sample)
    wanted = needed_measures(metrics, sample, custom)
    answers: list[Answer] = []
    previous: Response | None = None
    # One after the other, so that the judgements of an answer that comes twice are in the cache.
    for response in responses:
        rounds: list[Judgements] = []
        for repeat in range(repeats if (needs or wanted) and response.failure is None else 0):
            call = Call(sample.id, repeat, ledger)
            rounds.append(
                await collect_judgements(judge, sample, response, needs, call, previous=previous, custom=wanted)
            )
        answers.append(scored_answer(metrics, sample, response, rounds))
        previous = response
    return SampleRecord(sample, tuple(answers), sample_scores(metrics, sample, answers), ledger)
