"""Judges and scores the answers to one sample, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.formatting import counted, figure
from ragstone.golden.sample import Sample
from ragstone.judge.collect import Measure, collect_judgements
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.judge.protocol import Call, Judge, Ledger
from ragstone.metrics.metric import ComparesAnswers, Metric, compares_answers
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response


def needed_judgements(
    metrics: Sequence[Metric], sample: Sample
) -> frozenset[JudgementKind]:
    """All judgements that `metrics` need for `sample`, requested once for all of
    them."""
    return frozenset().union(*(metric.needs(sample) for metric in metrics))


def needed_measures(
    metrics: Sequence[Metric], sample: Sample, custom: Mapping[str, Measure]
) -> dict[str, Measure]:
    """Those of `custom`, by metric, that are among `metrics` and apply to `sample`."""
    names = {metric.info.name for metric in metrics if metric.excuse(sample) is None}
    return {name: measure for name, measure in custom.items() if name in names}


def score_response(
    metrics: Sequence[Metric],
    sample: Sample,
    response: Response,
    rounds: Sequence[Judgements],
) -> tuple[dict[str, Score], dict[str, tuple[float, ...]]]:
    """Scores by metric, and each round's own values where there were several rounds.

    A failed response fails every metric that applies to the sample. With several
    rounds, the score is the mean of the rounds that scored if they are more than half;
    else the first state that is not a score. Pure: the same judgements give the same
    scores.
    """
    reason = failure_of([response])
    if reason is not None:
        return {
            metric.info.name: metric.excuse(sample) or Failed("system", reason)
            for metric in metrics
        }, {}
    scores: dict[str, Score] = {}
    repeats: dict[str, tuple[float, ...]] = {}
    for metric in metrics:
        round_scores = [
            metric.score(sample, response, judgements)
            for judgements in rounds or (Judgements(),)
        ]
        scores[metric.info.name] = combine_rounds(round_scores)
        if len(round_scores) > 1:
            repeats[metric.info.name] = tuple(
                score.value for score in round_scores if isinstance(score, Scored)
            )
    return scores, repeats


def combine_rounds(round_scores: Sequence[Score]) -> Score:
    if len(round_scores) == 1:
        return round_scores[0]
    scored = [score for score in round_scores if isinstance(score, Scored)]
    if 2 * len(scored) > len(round_scores):
        mean = sum(score.value for score in scored) / len(scored)
        return Scored(min(1.0, max(0.0, mean)), note=scored[0].note)
    return next(score for score in round_scores if not isinstance(score, Scored))


def scored_answer(
    metrics: Sequence[Metric],
    sample: Sample,
    response: Response,
    rounds: Sequence[Judgements],
) -> Answer:
    """One answer of a sample, with its scores; those of metrics that compare answers
    are the sample's alone."""
    alone = [metric for metric in metrics if not compares_answers(metric)]
    scores, repeats = score_response(alone, sample, response, rounds)
    return Answer(response, tuple(rounds), scores, repeats)


def sample_scores(
    metrics: Sequence[Metric], sample: Sample, answers: Sequence[Answer]
) -> dict[str, Score]:
    return {
        metric.info.name: _compared(metric, sample, answers)
        if compares_answers(metric)
        else combine_answers([answer.scores[metric.info.name] for answer in answers])
        for metric in metrics
    }


def _compared(
    metric: ComparesAnswers, sample: Sample, answers: Sequence[Answer]
) -> Score:
    responses = [answer.response for answer in answers]
    failure = failure_of(responses)
    if failure is not None:
        return Failed("system", failure)
    rounds = zip(
        *(answer.judgements or (Judgements(),) for answer in answers), strict=False
    )
    return combine_rounds(
        [metric.compare(sample, responses, judged) for judged in rounds]
    )


def failure_of(responses: Sequence[Response]) -> str | None:
    """The first failure of the answers to a sample in one line, and how many failed;
    None if none did."""
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
    """One score from the scores of several answers of the system to one question.

    The mean of the answers, unless the system failed on one of them, or the judge on
    half of them: then the sample has failed. The mean of the others would be that of a
    different sample: answers that time out are seldom like the rest. An answer that the
    judge failed on is left out, or every question that is asked again would fail four
    times as often; so are answers to which the metric does not apply, as such samples
    are. The note says so.
    """
    if len(answer_scores) == 1:
        return answer_scores[0]
    failed = [score for score in answer_scores if isinstance(score, Failed)]
    if failed and (
        2 * len(failed) >= len(answer_scores)
        or any(score.by != "judge" for score in failed)
    ):
        return Failed(
            failed[0].by,
            f"{len(failed)} of {len(answer_scores)} answers: {failed[0].reason}",
        )
    scored = [score for score in answer_scores if isinstance(score, Scored)]
    if not scored:
        return next(
            score for score in answer_scores if isinstance(score, NotApplicable)
        )
    mean = sum(score.value for score in scored) / len(scored)
    listed = ", ".join(figure(score.value) for score in scored)
    not_applicable = len(answer_scores) - len(scored) - len(failed)
    note = f"{counted(len(scored), 'answer')}: {listed}"
    if not_applicable:
        note += f"; does not apply to {not_applicable}"
    if failed:
        note += f"; the judge failed on {len(failed)}"
    return Scored(min(1.0, max(0.0, mean)), note=note)


def sample_state(scores: Mapping[str, Score], responses: Sequence[Response]) -> str:
    """``system_failed``, ``partly_failed`` or ``scored``, as the manifest counts
    samples.

    A sample that was asked several times is ``system_failed`` if one of its responses
    failed.
    """
    if any(response.failure is not None for response in responses):
        return "system_failed"
    if any(isinstance(score, Failed) for score in scores.values()):
        return "partly_failed"
    return "scored"


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
    """The record of `sample`: each of its `responses` judged `repeats` times. `custom`
    are measures of custom metrics.

    What judging costs is added to `ledger`. Raises JudgeError when the judge can't
    continue.
    """
    needs = needed_judgements(metrics, sample)
    wanted = needed_measures(metrics, sample, custom)
    answers: list[Answer] = []
    previous: Response | None = None
    # One after the other, so that the judgements of an answer that comes twice are in
    # the cache.
    for response in responses:
        rounds: list[Judgements] = []
        is_judged = (needs or wanted) and response.failure is None
        for repeat in range(repeats if is_judged else 0):
            call = Call(sample.id, repeat, ledger)
            judgements = await collect_judgements(
                judge, sample, response, needs, call, previous=previous, custom=wanted
            )
            rounds.append(judgements)
        answers.append(scored_answer(metrics, sample, response, rounds))
        previous = response
    return SampleRecord(
        sample, tuple(answers), sample_scores(metrics, sample, answers), ledger
    )
