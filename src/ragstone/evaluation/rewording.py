"""Whether an answer that a judge of words scores lower may only be worded otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.evaluation.record import Answer
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    ReferenceMatch,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.wording import (
    may_be_restated,
    may_be_reworded,
    stands_in_one_sentence,
)


@dataclass(frozen=True, slots=True)
class Rewording:
    """What the words of an answer show, whatever a judge that compares words makes of
    it."""

    grounded: bool = False
    """The contexts support each statement, or have its numbers, its names and most of
    its words."""
    states_reference: bool = False
    """It has each statement of the reference, or its numbers, its names and most of its
    words."""


def rewording_of(answer: Answer, sample: Sample) -> Rewording:
    """What `answer` shows by its first judging round. Pure."""
    judged = answer.judged
    is_judged = isinstance(judged.support, SupportTable) and bool(
        judged.support.supports
    )
    if not is_judged or unsupported_statements(answer, sample):
        return Rewording()
    has_reference = isinstance(judged.reference_match, ReferenceMatch)
    return Rewording(
        grounded=True,
        states_reference=has_reference and not missing_statements(answer, sample),
    )


def unsupported_statements(answer: Answer, sample: Sample) -> list[Support]:
    """The verdicts on the statements of `answer` that its contexts don't support; none
    if that was not judged.

    Of a judge that compares words, those that may only be worded otherwise are left
    out.
    """
    judged = answer.judged
    if not isinstance(judged.statements, StatementList) or not isinstance(
        judged.support, SupportTable
    ):
        return []
    unsupported = [
        support
        for support in judged.support.supports
        if support.verdict is not Verdict.SUPPORTED
    ]
    texts = [context.text for context in answer.response.contexts]
    if not unsupported or not texts or not _compares_words(judged.support):
        return unsupported
    statements = {
        statement.id: statement.text for statement in judged.statements.statements
    }
    return [
        support
        for support in unsupported
        if not may_be_reworded(
            statements.get(support.statement_id, ""),
            texts,
            sample.question,
        )
    ]


def missing_statements(answer: Answer, sample: Sample) -> frozenset[str]:
    """The ids of the reference's statements that `answer` doesn't make; none if that
    was not judged.

    Of a judge that compares words, those that it may word otherwise are left out.
    """
    judged = answer.judged
    match = judged.reference_match
    if not isinstance(match, ReferenceMatch):
        return frozenset()
    missing = {
        support.statement_id
        for support in match.reference_supports
        if support.verdict is not Verdict.SUPPORTED
    }
    if (
        not missing
        or not isinstance(judged.support, SupportTable)
        or not _compares_words(judged.support)
    ):
        return frozenset(missing)
    return frozenset(
        statement.id
        for statement in match.reference_statements
        if statement.id in missing
        if not may_be_restated(statement.text, answer.response.answer, sample.question)
    )


def lacking_statements(answer: Answer) -> list[str]:
    """The statements of the reference that the contexts of `answer` lack; none if that
    was not judged.

    Of a judge that compares words, those whose words stand in one sentence of the
    contexts are left out.
    """
    judged = answer.judged
    if not isinstance(judged.context_use, ContextUse):
        return []
    texts = {
        statement.id: statement.text
        for statement in judged.context_use.reference_statements
    }
    lacking = [
        texts.get(support.statement_id, support.statement_id)
        for support in judged.context_use.attributions
        if support.verdict is not Verdict.SUPPORTED
    ]
    if not isinstance(judged.support, SupportTable) or not _compares_words(
        judged.support
    ):
        return lacking
    contexts = [context.text for context in answer.response.contexts]
    return [text for text in lacking if not stands_in_one_sentence(text, contexts)]


def _compares_words(table: SupportTable) -> bool:
    """Whether the judge was the offline one, which gives probabilities."""
    return any(support.probability is not None for support in table.supports)
