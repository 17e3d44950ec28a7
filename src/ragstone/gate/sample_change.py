"""What became of one sample between the baseline and this run: all that the diagnosis
is made from."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.rewording import missing_statements, unsupported_statements
from ragstone.judge.judgements import (
    ContextUse,
    Judgements,
    ReferenceMatch,
    ReverseQuestions,
    StatementList,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import guess_language
from ragstone.metrics.evidence import distinct, locate
from ragstone.metrics.retrieval_change import (
    EvidenceChange,
    RetrievalChange,
    evidence_of,
    retrieval_change,
)
from ragstone.system.response import Context

SUPPORTED_FROM = 0.5
"""A share or probability from here on counts as supported, useful or stated."""

_LOW_RANK = 2
"""Without a baseline, evidence ranks low if more contexts than this come before all of
it."""

_MIN_WORDS = 5
"""The language of a shorter answer is not guessed."""

_NO_USE = ContextUse((), against_reference=False)
_NO_MATCH = ReferenceMatch((), (), ())

_END = re.compile(r"[.!?…。！？][\W_]*$")


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The first answer to a sample, as far as it was judged."""

    empty: bool = False
    abstains: bool = False
    statements: int = 0
    unsupported: int = 0
    """Its statements that the contexts don't support, contradicted ones included."""
    contradicted: int = 0
    reference_statements: int = 0
    stated: int = 0
    """The statements of the reference that it states."""
    ignored: int = 0
    """The statements of the reference that the contexts support and it lacks."""
    unlike_reference: bool = False
    """Nothing in it matches the reference."""
    on_another_question: bool = False
    ignores_useful_contexts: bool = False
    """No statement of it draws on a useful context, although there is one."""
    in_foreign_language: bool = False
    """It is in another language than the question."""

    @property
    def silent(self) -> bool:
        """Whether it says nothing."""
        return self.empty or self.abstains

    @property
    def baseless(self) -> bool:
        """Whether nothing that it says has support."""
        return self.statements > 0 and self.unsupported == self.statements

    def is_worse_than(self, baseline: JudgedAnswer) -> bool:
        """Whether it states less of the reference, or more that has no support."""
        if self.silent and not baseline.silent:
            return True
        return self.stated < baseline.stated or self.unsupported > baseline.unsupported


@dataclass(frozen=True, slots=True)
class SampleChange:
    """What became of one sample between the baseline and this run; without a baseline,
    what is wrong with it."""

    compared: bool = False
    """The baseline has an answer to it."""
    answerable: bool = True
    failed: bool = False
    """The system failed on it."""
    evidence_lost: bool = False
    """The contexts lack the evidence that the baseline's had; or its text is gone, and
    the answer is worse for it, though a judge finds something like it."""
    evidence_ranks_lower: bool = False
    """The evidence ranks lower than in the baseline; without a baseline, it ranks
    low."""
    low_evidence_unused: bool = False
    """The evidence ranks lower, and no statement of the answer draws on it there."""
    ids_outdated: bool = False
    """The evidence is still returned, in other chunks or under other ids, so that fewer
    relevant ids are."""
    answer_unchanged: bool = False
    answer_truncated: bool = False
    """The answer is the beginning of the baseline's."""
    without_contexts: bool = False
    """No contexts were returned, nor in the baseline."""
    answer: JudgedAnswer = field(default_factory=JudgedAnswer)
    baseline_answer: JudgedAnswer = field(default_factory=JudgedAnswer)


def sample_change(
    current: SampleRecord, baseline: SampleRecord | None = None
) -> SampleChange:
    """Compare the first answers to a sample in this run and in the baseline. Pure."""
    answerable = current.sample.answerable
    if any(response.failure is not None for response in current.responses):
        return SampleChange(
            compared=baseline is not None, answerable=answerable, failed=True
        )
    if baseline is None or baseline.response.failure is not None:
        return _uncompared(current)
    response = current.response
    before = baseline.response
    change = SampleChange(
        compared=True,
        answerable=answerable,
        answer_unchanged=before.answer == response.answer,
        answer_truncated=_is_truncated(response.answer, before.answer),
        without_contexts=not response.contexts and not before.contexts,
        answer=_judged_answer(current),
        baseline_answer=_judged_answer(baseline),
    )
    fewer_ids = _relevant_ids_returned(current) < _relevant_ids_returned(baseline)
    if response.without_texts or before.without_texts:
        lost = fewer_ids and not _relevant_ids_returned(current)
        return replace(change, evidence_lost=lost and answerable)
    judgements = _first_judgements(current)
    texts = evidence_of(baseline.sample, before.contexts, _first_judgements(baseline))
    moved = retrieval_change(texts, before.contexts, response.contexts)
    ranks = _evidence_ranks(texts, before.contexts, response.contexts)
    lost = answerable and _is_lost(current, baseline, change, moved, ranks)
    low_rank = _lower_rank(judgements, moved, ranks)
    rechunked = moved is not None and moved.change is EvidenceChange.RECHUNKED
    return replace(
        change,
        evidence_lost=lost,
        evidence_ranks_lower=low_rank is not None,
        low_evidence_unused=_is_unused(low_rank, judgements),
        ids_outdated=rechunked and fewer_ids and not lost and low_rank is None,
    )


def _uncompared(current: SampleRecord) -> SampleChange:
    """A sample to which the baseline has no answer."""
    judgements = _first_judgements(current)
    low_rank = _first_useful(judgements)
    if low_rank is not None and low_rank < _LOW_RANK:
        low_rank = None
    contexts = current.response.contexts
    answerable = current.sample.answerable
    return SampleChange(
        answerable=answerable,
        evidence_lost=bool(contexts) and answerable and _lacks_evidence(current),
        evidence_ranks_lower=low_rank is not None,
        low_evidence_unused=_is_unused(low_rank, judgements),
        without_contexts=not contexts,
        answer=_judged_answer(current),
    )


def _is_unused(low_rank: int | None, judgements: Judgements) -> bool:
    """Whether evidence ranks low, at `low_rank`, and no statement of the answer is
    supported by the context there."""
    if low_rank is None:
        return False
    if not isinstance(judgements.support, SupportTable):
        return True
    low_context = context_id(low_rank)
    return not any(
        low_context in statement.supported_by
        for statement in judgements.support.supports
    )


@dataclass(frozen=True, slots=True)
class _EvidenceRanks:
    """The ranks, from 0, of the baseline's contexts that are a text of the evidence,
    and of the same texts now."""

    baseline: Sequence[int]
    current: Sequence[int]


def _is_lost(
    current: SampleRecord,
    baseline: SampleRecord,
    change: SampleChange,
    moved: RetrievalChange | None,
    ranks: _EvidenceRanks,
) -> bool:
    """Whether the contexts lack the evidence that those of the baseline had."""
    supported = _reference_supported(_first_judgements(current))
    if moved is not None and moved.change is EvidenceChange.GONE:
        # Other contexts may say the same.
        is_worse = change.answer.is_worse_than(change.baseline_answer)
        return supported is not True or (is_worse and not change.answer_unchanged)
    # In a corpus of similar texts, others can have all the words of the evidence: then
    # the judge decides.
    return (
        supported is False
        and _reference_supported(_first_judgements(baseline)) is not False
        and not ranks.current
    )


def _lower_rank(
    judgements: Judgements, moved: RetrievalChange | None, ranks: _EvidenceRanks
) -> int | None:
    """The rank, from 0, of the first context with the evidence, if it is lower than in
    the baseline."""
    if ranks.baseline and ranks.current:
        # The same passage: the judge of texts may take others like it for it.
        first = ranks.current[0]
        if first > ranks.baseline[0]:
            return first
        return None
    if moved is not None and moved.change is EvidenceChange.LOWER:
        return _first_useful(judgements)
    return None


def _evidence_ranks(
    evidence: Collection[str],
    baseline_contexts: Sequence[Context],
    contexts: Sequence[Context],
) -> _EvidenceRanks:
    baseline_ranks = [
        rank
        for rank, context in enumerate(baseline_contexts)
        if context.text in evidence
    ]
    texts = {baseline_contexts[rank].text for rank in baseline_ranks}
    ranks = [rank for rank, context in enumerate(contexts) if context.text in texts]
    return _EvidenceRanks(baseline_ranks, ranks)


def _lacks_evidence(record: SampleRecord) -> bool:
    """Whether the contexts lack the evidence, by its text or ids, or else by the
    judge."""
    contexts = record.response.contexts
    has_relevant_ids = any(record.sample.relevant_ids.values())
    returned = _relevant_ids_returned(record)
    if record.response.without_texts:
        return has_relevant_ids and not returned
    supported = _reference_supported(_first_judgements(record))
    texts = distinct(record.sample.reference_contexts)
    if texts:
        passages = locate(texts, tuple(context.text for context in contexts))
        is_missing = not all(passage.retrieved for passage in passages)
        return is_missing and supported is not True
    if has_relevant_ids and not returned and any(context.id for context in contexts):
        return supported is not True
    return supported is False


def _relevant_ids_returned(record: SampleRecord) -> int:
    """How many of the sample's relevant ids are among its contexts."""
    relevant = {
        relevant_id
        for relevant_id, grade in record.sample.relevant_ids.items()
        if grade > 0
    }
    return len(relevant & {context.id for context in record.response.contexts})


def _first_judgements(record: SampleRecord) -> Judgements:
    if record.judgements:
        return record.judgements[0]
    return Judgements()


def _context_use(judgements: Judgements) -> ContextUse:
    """Which contexts are useful; empty if that was not judged."""
    if isinstance(judgements.context_use, ContextUse):
        return judgements.context_use
    return _NO_USE


def _reference_supported(judgements: Judgements) -> bool | None:
    """Whether the contexts support the reference, by the judge; None if that was not
    judged."""
    use = _context_use(judgements)
    if not use.against_reference or not use.attributions:
        return None
    supported = sum(
        support.verdict is Verdict.SUPPORTED for support in use.attributions
    )
    return supported >= SUPPORTED_FROM * len(use.attributions)


def _statements_in_contexts(judgements: Judgements) -> Set[str]:
    """The ids of the reference's statements that the contexts support, by the judge."""
    attributions = _context_use(judgements).attributions
    return {
        support.statement_id
        for support in attributions
        if support.verdict is Verdict.SUPPORTED
    }


def _first_useful(judgements: Judgements) -> int | None:
    """The rank, from 0, of the first useful context."""
    for rank, context in enumerate(_context_use(judgements).contexts):
        if context.useful:
            return rank
    return None


def _is_truncated(answer: str, baseline_answer: str) -> bool:
    """Whether `answer` stops in the middle of what `baseline_answer` says."""
    text = answer.strip().removesuffix("...").removesuffix("…").rstrip()
    whole = baseline_answer.strip()
    if not text or len(text) >= len(whole):
        return False
    return whole.startswith(text) and not _END.search(text)


def _judged_answer(record: SampleRecord) -> JudgedAnswer:
    judgements = _first_judgements(record)
    answer = record.response.answer
    verdicts = _verdicts(record)
    match = judgements.reference_match
    if not isinstance(match, ReferenceMatch):
        match = _NO_MATCH
    wanted = len(match.reference_supports)
    missing = missing_statements(record.answers[0], record.sample)
    matches_reference = any(
        support.verdict is Verdict.SUPPORTED for support in match.answer_supports
    )
    language = _language(answer)
    statements = judgements.statements
    return JudgedAnswer(
        empty=not any(character.isalnum() for character in answer),
        abstains=isinstance(statements, StatementList) and statements.abstains,
        statements=len(verdicts),
        unsupported=len(verdicts) - verdicts.count(Verdict.SUPPORTED),
        contradicted=verdicts.count(Verdict.CONTRADICTED),
        reference_statements=wanted,
        stated=wanted - len(missing),
        ignored=len(missing & _statements_in_contexts(judgements)),
        unlike_reference=wanted > 0
        and len(missing) == wanted
        and not matches_reference,
        on_another_question=_is_on_another_question(judgements),
        ignores_useful_contexts=_ignores_useful_contexts(judgements),
        in_foreign_language=language is not None
        and language != _language(record.sample.question),
    )


def _verdicts(record: SampleRecord) -> list[Verdict]:
    """The verdicts on the statements of the answer; without contexts, none of them is
    supported."""
    judgements = _first_judgements(record)
    if isinstance(judgements.support, SupportTable) and judgements.support.supports:
        unsupported = [
            statement.verdict
            for statement in unsupported_statements(record.answers[0], record.sample)
        ]
        supported = len(judgements.support.supports) - len(unsupported)
        return [*unsupported, *[Verdict.SUPPORTED] * supported]
    statements = judgements.statements
    if isinstance(statements, StatementList) and not record.response.contexts:
        return [Verdict.UNSUPPORTED] * len(statements.statements)
    return []


@lru_cache(maxsize=16)
def _language(text: str) -> str | None:
    if len(text.split()) < _MIN_WORDS:
        return None
    return guess_language(normalise(text)).code


def _is_on_another_question(judgements: Judgements) -> bool:
    """Whether the answer is about another question, as far as that was judged."""
    reverse = judgements.reverse_questions
    if not isinstance(reverse, ReverseQuestions):
        return False
    return sum(reverse.similarities) < SUPPORTED_FROM * len(reverse.similarities)


def _ignores_useful_contexts(judgements: Judgements) -> bool:
    useful = {
        context.context_id
        for context in _context_use(judgements).contexts
        if context.useful
    }
    if not useful or not isinstance(judgements.support, SupportTable):
        return False
    return all(
        useful.isdisjoint(statement.supported_by)
        for statement in judgements.support.supports
    )
