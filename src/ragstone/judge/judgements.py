"""Typed results of judge calls. Everything here can be written to a record and read
back without loss.

Contexts are addressed by rank: ``c1`` is the first context of the response, whatever id
the retriever gave it. Statements of the answer are ``s1``…, statements of the reference
``r1``….
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from pydantic import with_config

_Result = TypeVar("_Result")


class JudgementKind(StrEnum):
    """The judgements that a metric can request."""

    STATEMENTS = "statements"
    SUPPORT = "support"
    CONTEXT_USE = "context_use"
    REVERSE_QUESTIONS = "reverse_questions"
    REFERENCE_MATCH = "reference_match"
    CONTEXT_RELEVANCE = "context_relevance"
    PREVIOUS_MATCH = "previous_match"
    PREFERENCE = "preference"
    CUSTOM = "custom"
    ANSWER_SIMILARITY = "answer_similarity"
    ENTITIES = "entities"
    CITATIONS = "citations"


class Verdict(StrEnum):
    """Whether a text supports a statement. Only SUPPORTED counts as supported."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class Statement:
    """One self-contained claim."""

    id: str
    text: str


Statements = Sequence[Statement]


@dataclass(frozen=True, slots=True)
class Support:
    """The verdict on one statement, with the ids of what supports it (contexts, or
    statements of the other side).

    `probability` is the judge's probability in [0, 1] that the statement is supported,
    if it has one. `quote` is the passage that the verdict rests on, if the judge names
    one: a verbatim quote from one of the contexts. `unquoted`: the judge named words
    that are in no context, also when asked again. `contradicted_by` are the contexts
    that contradict what others support.
    """

    statement_id: str
    verdict: Verdict
    supported_by: tuple[str, ...] = ()
    probability: float | None = None
    quote: str | None = None
    contradicted_by: tuple[str, ...] = ()
    unquoted: bool = False

    @property
    def chance(self) -> float:
        """The probability that the statement is supported: 0 or 1 by the verdict of a
        judge that gives none."""
        return (
            float(self.verdict is Verdict.SUPPORTED)
            if self.probability is None
            else self.probability
        )


def supporting_contexts(supports: Iterable[Support]) -> frozenset[str]:
    """The ids of the contexts that support a statement."""
    supporting = [
        support.supported_by
        for support in supports
        if support.verdict is Verdict.SUPPORTED
    ]
    return frozenset().union(*supporting)


@dataclass(frozen=True, slots=True)
class StatementList:
    """The statements of an answer, and whether the answer abstains (says that it can't
    answer)."""

    statements: tuple[Statement, ...]
    abstains: bool


@dataclass(frozen=True, slots=True)
class SupportTable:
    """One verdict for each statement of the answer, in the order of the statements.

    `all_supported` is the judge's probability in [0, 1] that every statement is
    supported; None for a judge that gives only verdicts.
    """

    supports: tuple[Support, ...]
    all_supported: float | None = None


@dataclass(frozen=True, slots=True)
class ContextUsefulness:
    """Whether one context helps to reach the reference (or, without one, the
    answer)."""

    context_id: str
    useful: bool
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class ContextUse:
    """Usefulness of every context by rank, and which contexts support each statement of
    the reference.

    Without a reference, `against_reference` is False, usefulness is judged against the
    answer, and `reference_statements` and `attributions` are empty.
    """

    contexts: tuple[ContextUsefulness, ...]
    against_reference: bool
    reference_statements: tuple[Statement, ...] = ()
    attributions: tuple[Support, ...] = ()


@dataclass(frozen=True, slots=True)
class ReverseQuestions:
    """Questions that the answer alone would answer, and the cosine of each with the
    real question, in [-1, 1]."""

    questions: tuple[str, ...]
    similarities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReferenceMatch:
    """The answer compared with the reference, statement by statement.

    `answer_supports`: is each statement of the answer backed by the reference?
    `reference_supports`: is each statement of the reference made by the answer?
    `answer_share` and `reference_share` are the same as shares of content in [0, 1], if
    the judge has finer values than verdicts.
    """

    reference_statements: tuple[Statement, ...]
    answer_supports: tuple[Support, ...]
    reference_supports: tuple[Support, ...]
    answer_share: float | None = None
    reference_share: float | None = None


@dataclass(frozen=True, slots=True)
class SentenceRelevance:
    """How many of a context's sentences are needed to answer the question.

    `probability` is the judge's probability in [0, 1] that the context answers the
    question, if it has one, and `share` the share of the sentences that it expects to
    be needed if so.
    """

    context_id: str
    relevant: int
    total: int
    probability: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class ContextGrades:
    """For each context, its extracted sentences out of all its sentences."""

    contexts: tuple[SentenceRelevance, ...]

    @property
    def probability(self) -> float | None:
        """The share of all sentences that is expected to be needed; None for a judge
        that only counts sentences."""
        expected = 0.0
        for context in self.contexts:
            if context.probability is None or context.share is None:
                return None
            expected += context.probability * context.share * context.total
        return expected / max(1, sum(context.total for context in self.contexts))


@dataclass(frozen=True, slots=True)
class AnswerSimilarity:
    """The cosine of the answer's embedding with that of each reference, in [-1, 1]."""

    cosines: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EntityList:
    """The distinct entities that a reference names, each as it is written there."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CitedStatement:
    """A statement of an answer and the contexts that it cites.

    `cited` are their ids (``c1``…), each once, and `missing` the citations of what was
    never retrieved, as they are written. `supported`: all that is cited is there, and
    supports the statement together. `irrelevant` are those of `cited` that don't
    support it alone, and without which the others do.
    """

    statement: Statement
    cited: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    supported: bool = False
    irrelevant: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CitationTable:
    """The statements of an answer, in order; none if it abstains."""

    statements: tuple[CitedStatement, ...]


class Better(StrEnum):
    """Which of two answers to one question is better."""

    NEW = "new"
    EARLIER = "earlier"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class AnswerPreference:
    """Which answer is better, asked in both orders: with the new one shown first, and
    with the earlier one."""

    new_first: Better
    earlier_first: Better


@dataclass(frozen=True, slots=True)
class Grade:
    """What a rubric or a function of the user's says of one answer: a value in [0, 1],
    and why in a few words.

    `value` is None if it does not apply.
    """

    value: float | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class JudgementFailure:
    """The judge could not give this judgement; `reason` says why in a few words (no
    secrets, one line).

    `not_applicable`: there is nothing to judge (too little text), so the score is not
    applicable, not failed.
    """

    reason: str
    not_applicable: bool = False


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Judgements:
    """All results of one judging round for one response. None: not requested.

    `previous_match` compares the answer with the previous one to the same question,
    which stands for the reference. `preference` compares it with the baseline's.
    `custom` are the grades of custom metrics, by name. `standalone_question` is the
    question that was judged, if it was written out from a conversation.
    """

    statements: StatementList | JudgementFailure | None = None
    support: SupportTable | JudgementFailure | None = None
    context_use: ContextUse | JudgementFailure | None = None
    reverse_questions: ReverseQuestions | JudgementFailure | None = None
    reference_match: ReferenceMatch | JudgementFailure | None = None
    context_relevance: ContextGrades | JudgementFailure | None = None
    previous_match: ReferenceMatch | JudgementFailure | None = None
    preference: AnswerPreference | JudgementFailure | None = None
    answer_similarity: AnswerSimilarity | JudgementFailure | None = None
    entities: EntityList | JudgementFailure | None = None
    citations: CitationTable | JudgementFailure | None = None
    custom: Mapping[str, Grade | JudgementFailure] = field(default_factory=dict)
    standalone_question: str | None = None


def result_or(judgement: _Result | JudgementFailure | None, empty: _Result) -> _Result:
    """The result of a judgement; `empty` if it failed or was not requested."""
    if judgement is None or isinstance(judgement, JudgementFailure):
        return empty
    return judgement


NO_STATEMENTS = StatementList((), abstains=False)
NO_SUPPORT = SupportTable(())
NO_USE = ContextUse((), against_reference=False)
NO_MATCH = ReferenceMatch((), (), ())
NO_QUESTIONS = ReverseQuestions((), ())
"""Stand for the results of judgements that there are not."""


def context_id(rank: int) -> str:
    """The id of the context at `rank` (from 0)."""
    return f"c{rank + 1}"
