"""The interface of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeGuard

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, StatementList
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

Blames = Literal["retrieval", "generation", "both"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric's description.

    `version` changes with the formula; runs with different versions of a metric are not compared on it.
    `blames` is the half of the system that a drop points to. `family` is a name that selects several metrics
    (``context_precision``). `source` names paper, section and equation. `lower_is_better`: 0 is the best score.
    `relative`: the score compares the run with its baseline, so it has no change of its own, and may have no samples.
    `answerless`: it can be scored from the contexts of a system that only retrieves. `divides`: what is missing from
    the best score can be divided into retrieval and generation by asking again with the reference contexts.
    """

    name: str
    version: str
    title: str
    blames: Blames
    source: str
    family: str | None = None
    lower_is_better: bool = False
    relative: bool = False
    answerless: bool = False
    divides: bool = False


class Metric(Protocol):
    @property
    def info(self) -> MetricInfo: ...

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        """The judgements this metric reads for `sample`; empty if it needs none or does not apply."""
        ...

    def excuse(self, sample: Sample) -> NotApplicable | None:
        """Why the metric does not apply to `sample`, whatever the answer; None if it does."""
        ...

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        """The score of one successful response. Pure; never raises."""
        ...


class ComparesAnswers(Protocol):
    """A metric of all answers to one sample together, for a system that is asked several times."""

    def compare(self, sample: Sample, responses: Sequence[Response], judgements: Sequence[Judgements]) -> Score:
        """The score of two or more successful responses, each with one judging round. Pure; never raises."""
        ...


def compares_answers(metric: object) -> TypeGuard[ComparesAnswers]:
    """Whether `metric` is one of all answers to a sample."""
    return hasattr(metric, "compare")


def missing(judgement: JudgementFailure | None, what: str) -> Failed | NotApplicable:
    """The score if a judgement that the metric needs is missing."""
    if judgement is not None and judgement.not_applicable:
        return NotApplicable(judgement.reason)
    return Failed("judge", judgement.reason if judgement is not None else f"no {what} were given")


def answering(sample: Sample, judgements: Judgements) -> StatementList | Score:
    """The statements of an answer to an answerable sample; otherwise the score for abstaining or failing to."""
    found = judgements.statements
    if found is None or isinstance(found, JudgementFailure):
        return missing(found, "statements")
    if not sample.answerable:
        if found.abstains:
            return Scored(1.0, note="abstains, as it should")
        return Scored(0.0, note="answers a question that can't be answered")
    if found.abstains:
        return Scored(0.0, note="abstains on a question that can be answered")
    return found


def graded(probability: float | None, held: int, total: int, what: str) -> Scored | Failed:
    """The judge's grade of the whole if it gives one, with the share as the note; else the share, `held` ÷ `total`.

    Failed for a grade outside [0, 1], including NaN.
    """
    if probability is None:
        return Scored(held / total)
    if not 0.0 <= probability <= 1.0:
        return Failed("judge", f"a probability is in [0, 1], got {probability!r}")
    return Scored(probability, note=f"{held} of {total} {what}")
