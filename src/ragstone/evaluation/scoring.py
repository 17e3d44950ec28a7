"""Judges and scores the answers to one sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.formatting import counted, figure
from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure, collect_judgements
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.metrics.metric import Metric, compares_answers
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


def needed_judgements(
    metrics: Sequence[Metric], sample: Sample
) -> frozenset[JudgementKind]:
    """The kinds of judgements that any of `metrics` needs for `sample`."""
    needs = [metric.needs(sample) for metric in metrics]
    return frozenset[JudgementKind]().union(*needs)


def _mean(scored: Sequence[Scored]) -> float:
    mean = sum(score.value for score in scored) / len(scored)
    return min(1.0, max(0.0, mean))


def _only_scored(scores: Iterable[Score]) -> list[Scored]:
    return [score for score in scores if isinstance(score, Scored)]


def combine_rounds(round_scores: Sequence[Score]) -> Score:
    """The mean of the judging rounds with a score, if they are more than half; else the
    first result that is no score."""
    scored = _only_scored(round_scores)
    if 2 * len(scored) > len(round_scores):
        return Scored(_mean(scored), note=scored[0].note)
    return next(score for score in round_scores if not isinstance(score, Scored))


def score_record(metrics: Sequence[Metric], record: SampleRecord) -> SampleRecord:
    """`record` with the scores of its answers and of the sample, computed from its
    judgements: the same judgements always give the same scores.

    A failed response fails every metric that applies to the sample.
    """
    sample = record.sample
    answers = [_scored_answer(metrics, sample, answer) for answer in record.answers]
    scores = sample_scores(metrics, sample, answers)
    return replace(record, answers=tuple(answers), scores=scores)


def _scored_answer(metrics: Sequence[Metric], sample: Sample, answer: Answer) -> Answer:
    response = answer.response
    failure = failure_of([response])
    scores: dict[str, Score] = {}
    for metric in metrics:
        name = metric.info.name
        if compares_answers(metric):
            continue
        if failure is not None:
            scores[name] = metric.why_not_applicable(sample) or Failed(
                "system", failure
            )
            continue
        scores[name] = combine_rounds(
            [metric.score(sample, response, judgements) for judgements in answer.rounds]
        )
    return Answer(response, answer.judgements, scores)


def sample_scores(
    metrics: Sequence[Metric], sample: Sample, answers: Sequence[Answer]
) -> dict[str, Score]:
    """The scores of `sample`, from the scores of its answers; metrics that compare
    answers are scored here."""
    responses = [answer.response for answer in answers]
    failure = failure_of(responses)
    scores: dict[str, Score] = {}
    for metric in metrics:
        name = metric.info.name
        if not compares_answers(metric):
            scores[name] = combine_answers([answer.scores[name] for answer in answers])
        elif failure is not None:
            scores[name] = Failed("system", failure)
        else:
            rounds = zip(*(answer.rounds for answer in answers), strict=False)
            scores[name] = combine_rounds(
                [metric.compare(sample, responses, judgements) for judgements in rounds]
            )
    return scores


def failure_of(responses: Sequence[Response]) -> str | None:
    """The first failure among the responses to a sample, in one line with the number of
    failures; None if none failed."""
    failures = [
        response.failure for response in responses if response.failure is not None
    ]
    if not failures:
        return None
    reason = f"{failures[0].kind}: {failures[0].message}"
    if len(responses) == 1:
        return reason
    return f"{len(failures)} of {len(responses)} answers: {reason}"


def combine_answers(answer_scores: Sequence[Score]) -> Score:
    """Combine the scores of several answers to one question: their mean, or a failure.

    If the system failed on one of them, the sample has failed, because answers that
    time out are seldom like the others, and a mean without them would be biased. It has
    also failed if the judge failed on half of them. Fewer answers that the judge failed
    on are left out: otherwise questions with several answers would fail more often.
    Answers that the metric does not apply to are left out, too. The note of the score
    says what was left out.
    """
    if len(answer_scores) == 1:
        return answer_scores[0]
    failed = [score for score in answer_scores if isinstance(score, Failed)]
    has_half_failed = 2 * len(failed) >= len(answer_scores)
    has_system_failed = any(score.by != "judge" for score in failed)
    if has_half_failed or has_system_failed:
        first = failed[0]
        reason = f"{len(failed)} of {len(answer_scores)} answers: {first.reason}"
        return Failed(first.by, reason)
    scored = _only_scored(answer_scores)
    if not scored:
        return next(
            score for score in answer_scores if isinstance(score, NotApplicable)
        )
    values = ", ".join(figure(score.value) for score in scored)
    not_applicable = len(answer_scores) - len(scored) - len(failed)
    note = f"{counted(len(scored), 'answer')}: {values}"
    if not_applicable:
        note += f"; does not apply to {not_applicable}"
    if failed:
        note += f"; the judge failed on {len(failed)}"
    return Scored(_mean(scored), note=note)


async def judge_sample(
    judge: Judge,
    metrics: Sequence[Metric],
    sample: Sample,
    responses: Iterable[Response],
    *,
    repeats: int = 1,
    custom: Mapping[str, Measure] = MappingProxyType({}),
) -> SampleRecord:
    """Judge each of `responses` to `sample` `repeats` times, and score them. `custom`
    are the measures of custom metrics.

    Raises JudgeError if the judge can't continue.
    """
    ledger = Ledger()
    needs = needed_judgements(metrics, sample)
    names = {
        metric.info.name
        for metric in metrics
        if metric.why_not_applicable(sample) is None
    }
    measures = {name: measure for name, measure in custom.items() if name in names}
    answers: list[Answer] = []
    previous: Response | None = None
    # In turn, so that the judgements of an answer that is repeated are in the cache.
    for response in responses:
        rounds: list[Judgements] = []
        is_judged = (needs or measures) and response.failure is None
        for repeat in range(repeats if is_judged else 0):
            call = Call(sample.id, repeat, ledger)
            judgements = await collect_judgements(
                judge, sample, response, needs, call, previous=previous, custom=measures
            )
            rounds.append(judgements)
        answers.append(Answer(response, tuple(rounds)))
        previous = response
    return score_record(metrics, SampleRecord(sample, tuple(answers), ledger=ledger))
