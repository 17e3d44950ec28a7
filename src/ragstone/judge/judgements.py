"""The results of judge calls, which are stored in the records of a run.

A context's id is its rank: ``c1`` is the first context of the response, whatever id the
retriever gave it. The ids of an answer's statements are ``s1``, ``s2`` and so on, those
of a reference's statements ``r1``, ``r2`` and so on.
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
    """A self-contained claim of an answer or a reference."""

    id: str
    text: str


Statements = Sequence[Statement]


@dataclass(frozen=True, slots=True)
class Support:
    """The verdict on one statement."""

    statement_id: str
    verdict: Verdict
    supported_by: tuple[str, ...] = ()
    """The ids of the contexts that support the statement; in a comparison with a
    reference, what supports it: ``reference`` or ``answer``."""
    probability: float | None = None
    """The judge's probability in [0, 1] that the statement is supported; None if it
    gives none."""
    quote: str | None = None
    """The words of a context that the verdict rests on; None if the judge quotes
    none."""
    contradicted_by: tuple[str, ...] = ()
    """The ids of the contexts that contradict the statement although others support
    it."""
    unquoted: bool = False
    """Whether the judge's quote was in none of the contexts, even when it was asked
    again."""

    @property
    def chance(self) -> float:
        """The probability that the statement is supported: 0 or 1, by the verdict, if
        the judge gives none."""
        if self.probability is None:
            return float(self.verdict is Verdict.SUPPORTED)
        return self.probability


def supporting_contexts(supports: Iterable[Support]) -> frozenset[str]:
    """The ids of all contexts that support one of the statements."""
    context_ids: set[str] = set()
    for support in supports:
        if support.verdict is Verdict.SUPPORTED:
            context_ids.update(support.supported_by)
    return frozenset(context_ids)


@dataclass(frozen=True, slots=True)
class StatementList:
    """The statements of an answer, and whether the answer abstains (says that it can't
    answer)."""

    statements: tuple[Statement, ...]
    abstains: bool


@dataclass(frozen=True, slots=True)
class SupportTable:
    """The verdicts on the statements of an answer."""

    supports: tuple[Support, ...]
    """One for each statement, in the order of the statements."""
    all_supported: float | None = None
    """The judge's probability in [0, 1] that every statement is supported; None for a
    judge that gives only verdicts."""


@dataclass(frozen=True, slots=True)
class ContextUsefulness:
    """Whether a context is useful to reach the reference, or the answer if there is no
    reference."""

    context_id: str
    useful: bool
    probability: float | None = None
    """The judge's probability in [0, 1] that it is; None if it gives none."""


@dataclass(frozen=True, slots=True)
class ContextUse:
    """The usefulness of each context, and the contexts that support each statement of
    the reference."""

    contexts: tuple[ContextUsefulness, ...]
    """One for each context, by rank."""
    against_reference: bool
    """Whether usefulness is judged against the reference; False if there is none, and
    the answer takes its place."""
    reference_statements: tuple[Statement, ...] = ()
    """The statements of the reference; empty without one."""
    attributions: tuple[Support, ...] = ()
    """The support of each statement of the reference by the contexts."""


@dataclass(frozen=True, slots=True)
class ReverseQuestions:
    """Questions that the judge wrote for an answer, without seeing the real one."""

    questions: tuple[str, ...]
    similarities: tuple[float, ...]
    """The cosine of each question with the real one, in [-1, 1]."""


@dataclass(frozen=True, slots=True)
class ReferenceMatch:
    """The answer compared with the reference, statement by statement."""

    reference_statements: tuple[Statement, ...]
    answer_supports: tuple[Support, ...]
    """Whether the reference supports each statement of the answer."""
    reference_supports: tuple[Support, ...]
    """Whether the answer supports each statement of the reference."""
    answer_share: float | None = None
    """The share of the answer's content that the reference supports, in [0, 1]; None
    for a judge that gives only verdicts."""
    reference_share: float | None = None
    """The share of the reference's content that the answer supports, in [0, 1]; None
    for a judge that gives only verdicts."""


@dataclass(frozen=True, slots=True)
class SentenceRelevance:
    """How many of a context's sentences are needed to answer the question."""

    context_id: str
    relevant: int
    """The number of sentences that are needed."""
    total: int
    """The number of all sentences."""
    probability: float | None = None
    """The judge's probability in [0, 1] that the context answers the question; None if
    it gives none."""
    share: float | None = None
    """The share of the sentences that are needed if the context answers the question,
    as the judge expects; None if it only counts sentences."""


@dataclass(frozen=True, slots=True)
class ContextGrades:
    """How many sentences of each context are needed, by rank."""

    contexts: tuple[SentenceRelevance, ...]

    @property
    def probability(self) -> float | None:
        """The share of all sentences that is expected to be needed; None for a judge
        that only counts sentences."""
        expected_sentences = 0.0
        for context in self.contexts:
            if context.probability is None or context.share is None:
                return None
            expected_sentences += context.probability * context.share * context.total
        all_sentences = sum(context.total for context in self.contexts)
        return expected_sentences / max(1, all_sentences)


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
    """A statement of an answer and the contexts that it cites."""

    statement: Statement
    cited: tuple[str, ...] = ()
    """The ids of the cited contexts, each once."""
    missing: tuple[str, ...] = ()
    """The citations of contexts that were not retrieved, as they are written."""
    supported: bool = False
    """Whether all cited contexts exist and together support the statement."""
    irrelevant: tuple[str, ...] = ()
    """The cited contexts that don't support the statement alone, and without which the
    others support it."""


@dataclass(frozen=True, slots=True)
class CitationTable:
    """The statements of an answer with what they cite, in order; none if it
    abstains."""

    statements: tuple[CitedStatement, ...]


class Better(StrEnum):
    """Which of two answers to one question is better."""

    NEW = "new"
    EARLIER = "earlier"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class AnswerPreference:
    """Which answer is better, asked in both orders."""

    new_first: Better
    """The better one if the judge reads the new answer first."""
    earlier_first: Better
    """The better one if the judge reads the earlier answer first."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of an answer by the user's own rubric or function."""

    value: float | None
    """The grade in [0, 1]; None if it is not applicable."""
    note: str | None = None
    """The reason in a few words."""


@dataclass(frozen=True, slots=True)
class JudgementFailure:
    """Takes the place of a judgement that the judge could not give."""

    reason: str
    """The reason in a few words: one line, without secrets."""
    not_applicable: bool = False
    """Whether there is nothing to judge (such as too little text), so that the score is
    not applicable instead of failed."""


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Judgements:
    """All judgements of one response. One that was not requested, or can't apply, is
    None."""

    statements: StatementList | JudgementFailure | None = None
    support: SupportTable | JudgementFailure | None = None
    context_use: ContextUse | JudgementFailure | None = None
    reverse_questions: ReverseQuestions | JudgementFailure | None = None
    reference_match: ReferenceMatch | JudgementFailure | None = None
    context_relevance: ContextGrades | JudgementFailure | None = None
    previous_match: ReferenceMatch | JudgementFailure | None = None
    """The answer compared with the previous one to the same question, which takes the
    place of the reference."""
    preference: AnswerPreference | JudgementFailure | None = None
    """The answer compared with the baseline's."""
    answer_similarity: AnswerSimilarity | JudgementFailure | None = None
    entities: EntityList | JudgementFailure | None = None
    citations: CitationTable | JudgementFailure | None = None
    custom: Mapping[str, Grade | JudgementFailure] = field(default_factory=dict)
    """The grades of custom metrics, by their names."""
    standalone_question: str | None = None
    """The question that was judged, if it was written out from a conversation."""


def result_or(
    judgement: _Result | JudgementFailure | None, default: _Result
) -> _Result:
    """The result of a judgement; `default` if it failed or was not requested."""
    if judgement is None or isinstance(judgement, JudgementFailure):
        return default
    return judgement


# Defaults for `result_or`.
NO_STATEMENTS = StatementList((), abstains=False)
NO_SUPPORT = SupportTable(())
NO_USE = ContextUse((), against_reference=False)
NO_MATCH = ReferenceMatch((), (), ())
NO_QUESTIONS = ReverseQuestions((), ())


def context_id(rank: int) -> str:
    """The id of the context at `rank` (from 0)."""
    return f"c{rank + 1}"
