"""The interface of a metric, and what most of them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NoReturn, Protocol, TypeGuard, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from ragstone.golden.sample import Label, Sample
from ragstone.judge.judgements import (
    ContextUsefulness,
    JudgementFailure,
    JudgementKind,
    Judgements,
    SentenceRelevance,
    Statement,
    StatementList,
    Support,
    Verdict,
    context_id,
)
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

T = TypeVar("T")
Blames = Literal["retrieval", "generation", "both"]


class MetricInfo(Struct, frozen=True):
    """A metric's description."""

    name: str
    version: str
    """It changes with the formula: runs with different versions of a metric are not
    compared on it."""
    blames: Blames
    """The half of the system that a drop points to."""
    source: str
    """Paper, section and equation."""
    title: str = ""
    """The name in words, unless it is given."""
    family: str | None = None
    """A name that selects several metrics (``context_precision``)."""
    lower_is_better: bool = False
    """0 is the best score."""
    relative: bool = False
    """The score compares the run with its baseline, so it has no change of its own, and
    may have no samples."""
    answerless: bool = False
    """It can be scored from the contexts of a system that only retrieves."""
    divides: bool = False
    """What is missing from the best score can be divided into retrieval and generation
    by asking again with the reference contexts."""

    def __post_init__(self) -> None:
        if not self.title:
            title = self.name.replace("_", " ").capitalize()
            force_setattr(self, "title", title)


class Metric(Protocol):
    @property
    def info(self) -> MetricInfo: ...

    @property
    def labels(self) -> frozenset[Label]:
        """What its score depends on of a sample, besides the question."""

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        """The judgements this metric reads for `sample`; empty if it needs none or does
        not apply."""

    def excuse(self, sample: Sample) -> NotApplicable | None:
        """Why the metric does not apply to `sample`, whatever the answer; None if it
        does."""

    def score(
        self, sample: Sample, response: Response, judgements: Judgements
    ) -> Score:
        """The score of one successful response. Pure; never raises."""


class ComparesAnswers(Protocol):
    """A metric of all answers to one sample together, for a system that is asked
    several times."""

    def compare(
        self,
        sample: Sample,
        responses: Sequence[Response],
        judgements: Sequence[Judgements],
    ) -> Score:
        """The score of two or more successful responses, each with one judging round.
        Pure; never raises."""


def compares_answers(metric: object) -> TypeGuard[ComparesAnswers]:
    """Whether `metric` is one of all answers to a sample."""
    return hasattr(metric, "compare")


class EarlyScore(Exception):  # noqa: N818 - an outcome, not an error
    """Raised where a metric's formula ends before its last line: `score` is the
    result."""

    def __init__(self, score: Score) -> None:
        super().__init__(score)
        self.score = score


_OF_REFERENCE = frozenset(
    {
        JudgementKind.CONTEXT_USE,
        JudgementKind.REFERENCE_MATCH,
        JudgementKind.REVERSE_QUESTIONS,  # of a judge that rates relevancy
        JudgementKind.ANSWER_SIMILARITY,
        JudgementKind.ENTITIES,
    }
)
"""The judgements that read the reference."""


_OF_CONTEXTS = frozenset(
    {
        JudgementKind.SUPPORT,
        JudgementKind.CONTEXT_USE,
        JudgementKind.CONTEXT_RELEVANCE,
        JudgementKind.CITATIONS,
    }
)
"""The judgements that read the texts of the contexts."""


class BaseMetric:
    """A metric that names what it reads and when it applies; `rate` is its formula."""

    info: MetricInfo
    reads: ClassVar[frozenset[JudgementKind]] = frozenset()
    """The judgements of a sample that it applies to."""
    answerable_only: ClassVar[bool] = False
    reference_needed: ClassVar[bool] = False
    """Of answerable samples; whether it applies to unanswerable ones is for
    `answerable_only` to say."""
    texts_needed: ClassVar[bool] = False
    """Those of the contexts; also if it reads a judgement of them."""

    @property
    def labels(self) -> frozenset[Label]:
        if self.reference_needed or self.reads & _OF_REFERENCE:
            return frozenset({"answerable", "reference"})
        if self.reads or self.answerable_only or not self.info.answerless:
            return frozenset({"answerable"})
        return frozenset()

    @property
    def reads_texts(self) -> bool:
        """Whether it can't be measured if the contexts are ids without their texts."""
        return self.texts_needed or bool(self.reads & _OF_CONTEXTS)

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if self.excuse(sample) is None:
            return self.reads
        return frozenset()

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if sample.expects_clarification and (self.reads or not self.info.answerless):
            return NotApplicable("the right answer asks back")
        if self.answerable_only and not sample.answerable:
            return NotApplicable("the sample is unanswerable")
        if self.reference_needed and sample.answerable and not sample.reference:
            return NotApplicable("the sample has no reference")
        return None

    def score(
        self, sample: Sample, response: Response, judgements: Judgements
    ) -> Score:
        excuse = self.excuse(sample)
        if excuse is not None:
            return excuse
        lacking = self.lacking(response)
        if lacking is not None:
            return NotApplicable(lacking)
        try:
            return self.rate(sample, response, judgements)
        except EarlyScore as early:
            return early.score

    def lacking(self, response: Response) -> str | None:
        """Why it can't be measured by the contexts of `response`, if it can't."""
        return response.missing_texts_reason if self.reads_texts else None

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        """The score of one successful response to a sample that the metric applies to.
        Pure; may raise EarlyScore."""
        raise NotImplementedError


class AbstentionMetric(BaseMetric):
    """A metric that scores abstaining: 1 on an unanswerable sample, where answering
    scores 0, and 0 on the others."""

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if sample.answerable:
            return super().needs(sample)
        return frozenset({JudgementKind.STATEMENTS})


# What ends a formula early. Each raises EarlyScore.


def fail(reason: str) -> NoReturn:
    """The judge has failed."""
    raise EarlyScore(Failed("judge", reason))


def require(judgement: T | JudgementFailure | None, what: str) -> T:
    """A judgement that the formula needs."""
    match judgement:
        case None:
            fail(f"no {what} were given")
        case JudgementFailure(reason, not_applicable=True):
            raise EarlyScore(NotApplicable(reason))
        case JudgementFailure(reason):
            fail(reason)
        case _:
            return judgement


def answering(sample: Sample, judgements: Judgements) -> StatementList:
    """The statements of an answer to an answerable sample; abstaining, and failing to,
    have scores of their own."""
    statements = require(judgements.statements, "statements")
    match sample.answerable, statements.abstains:
        case True, False:
            return statements
        case True, True:
            score = Scored(0.0, note="abstains on a question that can be answered")
        case False, True:
            score = Scored(1.0, note="abstains, as it should")
        case _:
            score = Scored(0.0, note="answers a question that can't be answered")
    raise EarlyScore(score)


def claims(
    judgements: Judgements, abstaining: str = "it claims nothing"
) -> StatementList:
    """The statements of an answer that makes some; a metric of them does not apply to
    abstaining."""
    statements = require(judgements.statements, "statements")
    if statements.abstains:
        raise EarlyScore(NotApplicable(f"the answer abstains, so {abstaining}"))
    if not statements.statements:
        fail("no statements were found in an answer that does not abstain")
    return statements


def supported(
    supports: Sequence[Support], statements: Sequence[Statement], mismatch: str
) -> int:
    """How many of `statements` are supported. `mismatch` says what is wrong if the
    verdicts are not theirs."""
    judged_ids = [support.statement_id for support in supports]
    require_one_to_one(judged_ids, [statement.id for statement in statements], mismatch)
    return count_supported(supports)


def count_supported(supports: Sequence[Support]) -> int:
    return sum(support.verdict is Verdict.SUPPORTED for support in supports)


_VISIBLE_DIFFERENCE = 0.05
"""A score that is so far from the share by verdicts would otherwise look like a
contradiction of it."""


def expected_share(
    supports: Sequence[Support],
    statements: Sequence[Statement],
    mismatch: str,
    what: str,
) -> Scored:
    """The expected share of supported statements: the sum of their probabilities ÷
    their number.

    A judge without probabilities gives 0 or 1 for each; for others, the note is the
    share by verdicts. `mismatch` says what is wrong if the verdicts are not those of
    `statements`. A probability outside [0, 1], including NaN, fails.
    """
    count = supported(supports, statements, mismatch)
    total = len(statements)
    for support in supports:
        check_probability(support.chance)
    share = sum(support.chance for support in supports) / total
    if all(support.probability is None for support in supports):
        return Scored(share)
    note = f"{count} of {total} {what}"
    if abs(share - count / total) >= _VISIBLE_DIFFERENCE:
        note += "; the score is their mean probability"
    return Scored(share, note)


def check_probability(value: float) -> None:
    """Fail for a value outside [0, 1], including NaN."""
    if not 0.0 <= value <= 1.0:
        fail(f"a probability is in [0, 1], got {value!r}")


def require_one_to_one(
    judged_ids: Sequence[str], ids: Sequence[str], mismatch: str
) -> None:
    """Check that the ids of verdicts are those of what was to be judged, in order."""
    if list(judged_ids) != list(ids):
        fail(f"{mismatch} one to one")


def require_each_context(
    judged: Sequence[ContextUsefulness | SentenceRelevance],
    response: Response,
    mismatch: str,
) -> None:
    """Check that the verdicts are those on the contexts of an answer, in order."""
    judged_ids = [verdict.context_id for verdict in judged]
    ids = list(map(context_id, range(len(response.contexts))))
    require_one_to_one(judged_ids, ids, mismatch)


def graded(probability: float | None, count: int, total: int, what: str) -> Scored:
    """The judge's grade of the whole if it gives one, with the share as the note; else
    the share, `count` ÷ `total`."""
    if probability is None:
        return Scored(count / total)
    check_probability(probability)
    return Scored(probability, note=f"{count} of {total} {what}")
