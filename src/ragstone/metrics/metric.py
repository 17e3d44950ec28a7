"""What every metric declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementFailure, JudgementKind, Judgements, StatementList
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

Blames = Literal["retrieval", "generation", "both"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A metric's description.

    `version` changes with the formula; runs with different versions of a metric are not compared on it.
    `blames` says which half of the system a drop points at. `family` is the name a user asks for when one
    name stands for several metrics (``context_precision``). `source` names paper, section and equation.
    """

    name: str
    version: str
    title: str
    blames: Blames
    source: str
    family: str | None = None


class Metric(Protocol):
    @property
    def info(self) -> MetricInfo: ...

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        """The judgements this metric reads for `sample`; empty when it needs none or does not apply."""
        ...

    def excuse(self, sample: Sample) -> NotApplicable | None:
        """Why the metric does not apply to `sample` whatever is answered; None where it does."""
        ...

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        """The score of one response that is not a failure. Pure; never raises."""
        ...


def missing(judgement: JudgementFailure | None, what: str) -> Failed | NotApplicable:
    """The score where a judgement that the metric needs is not there."""
    if judgement is not None and judgement.not_applicable:
        return NotApplicable(judgement.reason)
    return Failed("judge", judgement.reason if judgement is not None else f"no {what} were given")


def answering(sample: Sample, judgements: Judgements) -> StatementList | Score:
    """The statements of an answer that had to be given, and was; else the score for abstaining, or for not doing so."""
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
    """The judge's grade of the whole where it gives one, with the share as the note; else the share, `held` ÷ `total`.

    Failed for a grade outside [0, 1], NaN included.
    """
    if probability is None:
        return Scored(held / total)
    if not 0.0 <= probability <= 1.0:
        return Failed("judge", f"a probability is in [0, 1], got {probability!r}")
    return Scored(probability, note=f"{held} of {total} {what}")
