"""The interface of a metric, its base class, and the steps that most formulas share."""

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
    """The description of a metric."""

    name: str
    version: str
    """It changes with the formula: runs with different versions of a metric are not
    compared on it."""
    blames: Blames
    """The half of the system that is to blame if the score drops."""
    source: str
    """Where the formula comes from: paper, section and equation."""
    title: str = ""
    """The name in words; by default, `name` with spaces."""
    family: str | None = None
    """A name that selects several metrics: ``context_precision``."""
    lower_is_better: bool = False
    """Whether 0 is the best score."""
    is_relative: bool = False
    """Whether the score already compares the run with its baseline. Then the score has
    no drop of its own, and no sample may have a score."""
    needs_no_answer: bool = False
    """Whether a system that only retrieves can be scored, by its contexts."""
    is_in_oracle_round: bool = False
    """Whether a loss can be divided between retrieval and generation in the oracle
    round, which asks again with the reference contexts."""

    def __post_init__(self) -> None:
        if not self.title:
            title = self.name.replace("_", " ").capitalize()
            force_setattr(self, "title", title)


class Metric(Protocol):
    """What the rest of Ragstone knows of a metric."""

    @property
    def info(self) -> MetricInfo: ...

    @property
    def labels(self) -> frozenset[Label]:
        """The labels of a sample that the score depends on, besides the question."""

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        """The judgements that the metric reads for `sample`; empty if it reads none or
        does not apply."""

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        """Why the metric does not apply to `sample`, whatever the answer; None if it
        applies."""

    def score(
        self, sample: Sample, response: Response, judgements: Judgements
    ) -> Score:
        """The score of one successful response. Pure; never raises."""


class ComparesAnswers(Protocol):
    """A metric that compares all answers to a sample, for a system that is asked
    several times."""

    def compare(
        self,
        sample: Sample,
        responses: Sequence[Response],
        judgements: Sequence[Judgements],
    ) -> Score:
        """The score of two or more successful responses, each with its judgements.
        Pure; never raises."""


def compares_answers(metric: object) -> TypeGuard[ComparesAnswers]:
    """Whether `metric` compares all answers to a sample."""
    return hasattr(metric, "compare")


class EarlyScore(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a step of a formula to end it with `score`."""

    def __init__(self, score: Score) -> None:
        super().__init__(score)
        self.score = score


_READ_REFERENCE = frozenset(
    {
        JudgementKind.CONTEXT_USE,
        JudgementKind.REFERENCE_MATCH,
        JudgementKind.REVERSE_QUESTIONS,  # if the judge rates relevancy instead
        JudgementKind.ANSWER_SIMILARITY,
        JudgementKind.ENTITIES,
    }
)
"""The judgements that read the reference."""


_READ_CONTEXTS = frozenset(
    {
        JudgementKind.SUPPORT,
        JudgementKind.CONTEXT_USE,
        JudgementKind.CONTEXT_RELEVANCE,
        JudgementKind.CITATIONS,
    }
)
"""The judgements that read the texts of the contexts."""


class BaseMetric:
    """The base class of metrics: a metric declares what it reads and when it applies;
    `rate` is its formula."""

    info: MetricInfo
    reads: ClassVar[frozenset[JudgementKind]] = frozenset()
    """The judgements that the formula reads."""
    is_for_answerable_only: ClassVar[bool] = False
    """Whether the metric does not apply to unanswerable samples."""
    needs_reference: ClassVar[bool] = False
    """Whether the metric does not apply to answerable samples without a reference."""
    needs_texts: ClassVar[bool] = False
    """Whether the formula itself reads the texts of the contexts; those that a
    judgement reads need not be declared."""

    @property
    def labels(self) -> frozenset[Label]:
        if self.needs_reference or self.reads & _READ_REFERENCE:
            return frozenset({"answerable", "reference"})
        if self.reads or self.is_for_answerable_only or not self.info.needs_no_answer:
            return frozenset({"answerable"})
        return frozenset()

    @property
    def reads_texts(self) -> bool:
        """Whether the score depends on the texts of the contexts, so that ids alone
        won't do."""
        return self.needs_texts or bool(self.reads & _READ_CONTEXTS)

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if self.why_not_applicable(sample) is None:
            return self.reads
        return frozenset()

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        # An answer that asks back claims nothing that these metrics could score.
        is_of_answers = self.reads or not self.info.needs_no_answer
        if sample.expects_clarification and is_of_answers:
            return NotApplicable("the right answer asks back")
        if self.is_for_answerable_only and not sample.answerable:
            return NotApplicable("the sample is unanswerable")
        if self.needs_reference and sample.answerable and not sample.reference:
            return NotApplicable("the sample has no reference")
        return None

    def score(
        self, sample: Sample, response: Response, judgements: Judgements
    ) -> Score:
        not_applicable = self.why_not_applicable(sample)
        if not_applicable is not None:
            return not_applicable
        reason = self.why_not_measurable(response)
        if reason is not None:
            return NotApplicable(reason)
        try:
            return self.rate(sample, response, judgements)
        except EarlyScore as early:
            return early.score

    def why_not_measurable(self, response: Response) -> str | None:
        """Why the contexts of `response` don't suffice for a score; None if they
        do."""
        return response.missing_texts_reason if self.reads_texts else None

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        """The formula: the score of one successful response to a sample that the metric
        applies to. Pure; may raise EarlyScore."""
        raise NotImplementedError


class AbstentionMetric(BaseMetric):
    """A metric that also scores abstaining: 0 on an answerable sample; on an
    unanswerable one 1, where answering scores 0."""

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:
        if sample.answerable:
            return super().needs(sample)
        return frozenset({JudgementKind.STATEMENTS})


# Steps of formulas. Each raises EarlyScore where it ends the formula.


def fail(reason: str) -> NoReturn:
    """End the formula because the judge failed."""
    raise EarlyScore(Failed("judge", reason))


def require(judgement: T | JudgementFailure | None, what: str) -> T:
    """The judgement that the formula needs. Ends the formula if there is none; `what`
    names it in the reason."""
    match judgement:
        case None:
            fail(f"the judge returned no {what}")
        case JudgementFailure(reason, not_applicable=True):
            raise EarlyScore(NotApplicable(reason))
        case JudgementFailure(reason):
            fail(reason)
        case _:
            return judgement


def require_answering(sample: Sample, judgements: Judgements) -> StatementList:
    """The statements of an answer to an answerable sample. Ends the formula with 0 or 1
    if the answer abstains or the sample is unanswerable."""
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


def require_claims(
    judgements: Judgements, consequence: str = "it claims nothing"
) -> tuple[Statement, ...]:
    """The statements of an answer, at least one. Ends the formula as not applicable if
    the answer abstains; `consequence` completes the reason."""
    statements = require(judgements.statements, "statements")
    if statements.abstains:
        raise EarlyScore(NotApplicable(f"the answer abstains, so {consequence}"))
    if not statements.statements:
        fail("no statements were found in an answer that does not abstain")
    return statements.statements


def require_each_statement(
    supports: Sequence[Support], statements: Sequence[Statement], mismatch: str
) -> None:
    """End the formula with `mismatch` as the reason if `supports` are not the verdicts
    on `statements`, in order."""
    judged_ids = [support.statement_id for support in supports]
    ids = [statement.id for statement in statements]
    _require_one_to_one(judged_ids, ids, mismatch)


def require_each_context(
    verdicts: Sequence[ContextUsefulness | SentenceRelevance],
    response: Response,
    mismatch: str,
) -> None:
    """End the formula with `mismatch` as the reason if the verdicts are not those on
    the contexts of the answer, in order."""
    judged_ids = [verdict.context_id for verdict in verdicts]
    ids = list(map(context_id, range(len(response.contexts))))
    _require_one_to_one(judged_ids, ids, mismatch)


def _require_one_to_one(
    judged_ids: Sequence[str], ids: Sequence[str], mismatch: str
) -> None:
    if list(judged_ids) != list(ids):
        fail(f"{mismatch} one to one")


def require_probability(value: float) -> None:
    """End the formula for a value outside [0, 1], including NaN."""
    if not 0.0 <= value <= 1.0:
        fail(f"a probability is in [0, 1], got {value!r}")


def count_supported(supports: Sequence[Support]) -> int:
    """The number of verdicts that support their statement."""
    return sum(support.verdict is Verdict.SUPPORTED for support in supports)


_VISIBLE_DIFFERENCE = 0.05
"""A score that differs so much from the share of verdicts in its note needs an
explanation."""


def expected_share(
    supports: Sequence[Support],
    statements: Sequence[Statement],
    mismatch: str,
    what: str,
) -> Scored:
    """The expected share of supported statements: the sum of their probabilities ÷
    their number.

    A judge without probabilities gives 0 or 1 for each statement. For other judges, the
    note has the share of verdicts; `what` says what is counted. `mismatch` is the
    reason if the verdicts are not those on `statements`. A probability outside [0, 1],
    including NaN, fails.
    """
    require_each_statement(supports, statements, mismatch)
    total = len(statements)
    for support in supports:
        require_probability(support.chance)
    share = sum(support.chance for support in supports) / total
    if all(support.probability is None for support in supports):
        return Scored(share)
    count = count_supported(supports)
    note = f"{count} of {total} {what}"
    if abs(share - count / total) >= _VISIBLE_DIFFERENCE:
        note += "; the score is their mean probability"
    return Scored(share, note)


def grade_or_share(
    probability: float | None, *, count: int, total: int, what: str
) -> Scored:
    """The judge's `probability` for the whole answer, with the share as the note; the
    share `count` ÷ `total` if the judge gives none. `what` says what is counted."""
    if probability is None:
        return Scored(count / total)
    require_probability(probability)
    return Scored(probability, note=f"{count} of {total} {what}")
