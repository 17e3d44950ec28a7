"""Whether an answer that the offline judge scores lower may just be worded otherwise.

The offline judge compares words, and so may miss that a paraphrase says the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ragstone.evaluation.record import Answer
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    Judgements,
    ReferenceMatch,
    StatementList,
    Support,
    SupportTable,
    Verdict,
)
from ragstone.judge.other_wording import (
    may_be_restated,
    may_be_reworded,
    stands_in_one_sentence,
)


class Rewording(Struct, frozen=True):
    """What the words of an answer show, whatever the verdicts of a judge that compares
    words."""

    grounded: bool = False
    """Whether the contexts support each statement, or have its numbers, names and most
    of its words."""
    states_reference: bool = False
    """Whether the answer has each statement of the reference, or its numbers, names and
    most of its words."""


def rewording_of(answer: Answer, sample: Sample) -> Rewording:
    """What `answer` shows by its first judging round."""
    judgements = answer.judged
    support = judgements.support
    if (
        not isinstance(support, SupportTable)
        or not support.supports
        or unsupported_statements(answer, sample)
    ):
        return Rewording()
    has_reference = isinstance(judgements.reference_match, ReferenceMatch)
    return Rewording(
        grounded=True,
        states_reference=has_reference and not missing_statements(answer, sample),
    )


def unsupported_statements(answer: Answer, sample: Sample) -> list[Support]:
    """The verdicts on the statements of `answer` that its contexts don't support; empty
    if support was not judged.

    If the judge compares words, statements that may just be worded otherwise are left
    out.
    """
    judgements = answer.judged
    if not isinstance(judgements.statements, StatementList) or not isinstance(
        judgements.support, SupportTable
    ):
        return []
    unsupported = _not_supported(judgements.support.supports)
    texts = [context.text for context in answer.response.contexts]
    if not texts or not _compares_words(judgements):
        return unsupported
    statements = {
        statement.id: statement.text for statement in judgements.statements.statements
    }
    return [
        support
        for support in unsupported
        if not may_be_reworded(
            statements.get(support.statement_id, ""), texts, sample.question
        )
    ]


def missing_statements(answer: Answer, sample: Sample) -> frozenset[str]:
    """The ids of the reference's statements that `answer` doesn't make; empty if the
    reference was not compared.

    If the judge compares words, statements that the answer may just word otherwise are
    left out.
    """
    judgements = answer.judged
    match = judgements.reference_match
    if not isinstance(match, ReferenceMatch):
        return frozenset()
    missing = {
        support.statement_id for support in _not_supported(match.reference_supports)
    }
    if not _compares_words(judgements):
        return frozenset(missing)
    return frozenset(
        statement.id
        for statement in match.reference_statements
        if statement.id in missing
        and not may_be_restated(statement.text, answer.response.answer, sample.question)
    )


def lacking_statements(answer: Answer) -> list[str]:
    """The statements of the reference that are not in the contexts of `answer`; empty
    if their use was not judged.

    If the judge compares words, statements whose words are in one sentence of the
    contexts are left out.
    """
    judgements = answer.judged
    if not isinstance(judgements.context_use, ContextUse):
        return []
    texts = {
        statement.id: statement.text
        for statement in judgements.context_use.reference_statements
    }
    lacking = [
        texts.get(support.statement_id, support.statement_id)
        for support in _not_supported(judgements.context_use.attributions)
    ]
    if not _compares_words(judgements):
        return lacking
    contexts = [context.text for context in answer.response.contexts]
    return [text for text in lacking if not stands_in_one_sentence(text, contexts)]


def _not_supported(supports: Iterable[Support]) -> list[Support]:
    return [support for support in supports if support.verdict is not Verdict.SUPPORTED]


def _compares_words(judgements: Judgements) -> bool:
    """Whether the offline judge judged: only its verdicts have probabilities."""
    table = judgements.support
    return isinstance(table, SupportTable) and any(
        support.probability is not None for support in table.supports
    )
