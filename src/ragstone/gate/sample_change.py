"""What became of one sample between the baseline and this run: all that the diagnosis
is made from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct, field

from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.rewording import missing_statements, unsupported_statements
from ragstone.judge.judgements import (
    NO_MATCH,
    NO_QUESTIONS,
    NO_STATEMENTS,
    NO_SUPPORT,
    NO_USE,
    ContextUse,
    Support,
    SupportTable,
    Verdict,
    context_id,
    result_or,
)
from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import guess_language
from ragstone.metrics.evidence import distinct, locate
from ragstone.metrics.retrieval_change import (
    EvidenceChange,
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

_END = re.compile(r"[.!?…。！？][\W_]*$")


class JudgedAnswer(Struct, frozen=True):
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
    def stated_share(self) -> float:
        """The share of the reference that it states; 1 if it was not compared with
        one."""
        if not self.reference_statements:
            return 1.0
        return self.stated / self.reference_statements

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


class SampleChange(Struct, frozen=True):
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
    """No contexts were returned, and there is no baseline that may have none either."""
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
    response = current.response
    if baseline is None or baseline.response.failure is not None:
        low_rank = _first_useful(current)
        if low_rank is not None and low_rank < _LOW_RANK:
            low_rank = None
        lost = bool(response.contexts) and answerable and _lacks_evidence(current)
        return SampleChange(
            answerable=answerable,
            evidence_lost=lost,
            evidence_ranks_lower=low_rank is not None,
            low_evidence_unused=_is_unused(low_rank, current),
            without_contexts=not response.contexts,
            answer=_judged_answer(current),
        )
    before = baseline.response
    answer = _judged_answer(current)
    baseline_answer = _judged_answer(baseline)
    answer_unchanged = before.answer == response.answer
    ids_returned = _relevant_ids_returned(current)
    fewer_ids = ids_returned < _relevant_ids_returned(baseline)
    low_rank = None
    rechunked = False
    if response.lacks_texts or before.lacks_texts:
        lost = fewer_ids and not ids_returned
    else:
        supported = _reference_supported(current)
        contexts = response.contexts
        baseline_contexts = before.contexts
        judged_before = baseline.answers[0].judged
        texts = evidence_of(baseline.sample, baseline_contexts, judged_before)
        change = retrieval_change(texts, baseline_contexts, contexts)
        baseline_texts = {context.text for context in baseline_contexts}
        same_texts = baseline_texts.intersection(texts)
        ranks = _ranks(contexts, same_texts)
        # In a corpus of similar texts, others can have all the words of the evidence:
        # then the judge decides.
        was_supported = _reference_supported(baseline) is not False
        lost = supported is False and was_supported and not ranks
        if change is EvidenceChange.GONE:
            # Other contexts may say the same.
            is_worse = answer.is_worse_than(baseline_answer) and not answer_unchanged
            lost = supported is not True or is_worse
        if ranks:
            # The same passage: the judge of texts may take others like it for it.
            rank = ranks[0]
            baseline_rank = _ranks(baseline_contexts, same_texts)[0]
            if rank > baseline_rank:
                low_rank = rank
        elif change is EvidenceChange.LOWER:
            low_rank = _first_useful(current)
        rechunked = change is EvidenceChange.RECHUNKED and low_rank is None
    lost = lost and answerable
    return SampleChange(
        compared=True,
        answerable=answerable,
        evidence_lost=lost,
        evidence_ranks_lower=low_rank is not None,
        low_evidence_unused=_is_unused(low_rank, current),
        ids_outdated=rechunked and fewer_ids and not lost,
        answer_unchanged=answer_unchanged,
        answer_truncated=_is_truncated(response.answer, before.answer),
        answer=answer,
        baseline_answer=baseline_answer,
    )


def _ranks(contexts: Sequence[Context], texts: Collection[str]) -> list[int]:
    """The ranks, from 0, of the contexts that are one of these texts."""
    return [rank for rank, context in enumerate(contexts) if context.text in texts]


def _is_unused(low_rank: int | None, record: SampleRecord) -> bool:
    """Whether evidence ranks low, at `low_rank`, and no statement of the answer is
    supported by the context there."""
    if low_rank is None:
        return False
    name = context_id(low_rank)
    supports = _supports(record)
    return all(name not in support.supported_by for support in supports)


def _lacks_evidence(record: SampleRecord) -> bool:
    """Whether the contexts lack the evidence, by its text or ids, or else by the
    judge."""
    contexts = record.response.contexts
    sample = record.sample
    has_relevant_ids = any(sample.relevant_ids.values())
    misses_ids = has_relevant_ids and not _relevant_ids_returned(record)
    if record.response.lacks_texts:
        return misses_ids
    supported = _reference_supported(record)
    texts = distinct(sample.reference_contexts)
    if texts:
        context_texts = tuple(context.text for context in contexts)
        passages = locate(texts, context_texts)
        is_missing = not all(passage.is_retrieved for passage in passages)
        return is_missing and supported is not True
    if misses_ids and any(context.id for context in contexts):
        return supported is not True
    return supported is False


def _relevant_ids_returned(record: SampleRecord) -> int:
    """How many of the sample's relevant ids are among its contexts."""
    grades = record.sample.relevant_ids
    returned = {context.id for context in record.response.contexts}
    graded = grades.keys() & returned
    return sum(grades[document] > 0 for document in graded)


def _context_use(record: SampleRecord) -> ContextUse:
    """Which contexts are useful; empty if that was not judged."""
    return result_or(record.answers[0].judged.context_use, NO_USE)


def _supports(record: SampleRecord) -> tuple[Support, ...]:
    """What supports the statements of the answer; empty if that was not judged."""
    return result_or(record.answers[0].judged.support, NO_SUPPORT).supports


def _reference_supported(record: SampleRecord) -> bool | None:
    """Whether the contexts support the reference, by the judge; None if that was not
    judged."""
    use = _context_use(record)
    attributions = use.attributions
    if not use.against_reference or not attributions:
        return None
    supported = _supported(attributions)
    enough = SUPPORTED_FROM * len(attributions)
    return len(supported) >= enough


def _supported(supports: Iterable[Support]) -> set[str]:
    """The ids of the statements that have support."""
    return {
        support.statement_id
        for support in supports
        if support.verdict is Verdict.SUPPORTED
    }


def _first_useful(record: SampleRecord) -> int | None:
    """The rank, from 0, of the first useful context."""
    use = _context_use(record)
    for rank, context in enumerate(use.contexts):
        if context.useful:
            return rank
    return None


def _is_truncated(answer: str, baseline_answer: str) -> bool:
    """Whether `answer` stops in the middle of what `baseline_answer` says."""
    text = answer.strip()
    text = text.removesuffix("...").removesuffix("…")
    text = text.rstrip()
    whole = baseline_answer.strip()
    if not text or len(text) >= len(whole):
        return False
    return whole.startswith(text) and not _END.search(text)


def _judged_answer(record: SampleRecord) -> JudgedAnswer:
    answer_record = record.answers[0]
    judgements = answer_record.judged
    answer = record.response.answer
    statements = result_or(judgements.statements, NO_STATEMENTS)
    supports = _supports(record)
    unsupported = unsupported_statements(answer_record, record.sample)
    verdicts = [statement.verdict for statement in unsupported]
    if not supports and not record.response.contexts:
        verdicts = [Verdict.UNSUPPORTED] * len(statements.statements)
    missing = missing_statements(answer_record, record.sample)
    match = result_or(judgements.reference_match, NO_MATCH)
    wanted = len(match.reference_supports)
    supported_answer = _supported(match.answer_supports)
    states_nothing = len(missing) == wanted and not supported_answer
    use = _context_use(record)
    useful = {context.context_id for context in use.contexts if context.useful}
    ignores_useful = False
    if useful and isinstance(judgements.support, SupportTable):
        ignores_useful = all(
            useful.isdisjoint(support.supported_by) for support in supports
        )
    similarities = result_or(judgements.reverse_questions, NO_QUESTIONS).similarities
    language = _language(answer)
    question = record.sample.question
    is_foreign = language is not None and language != _language(question)
    is_empty = not any(character.isalnum() for character in answer)
    ignored = missing & _supported(use.attributions)
    min_similarity = SUPPORTED_FROM * len(similarities)
    is_on_another_question = sum(similarities) < min_similarity
    return JudgedAnswer(
        empty=is_empty,
        abstains=statements.abstains,
        statements=len(supports) or len(verdicts),
        unsupported=len(verdicts),
        contradicted=verdicts.count(Verdict.CONTRADICTED),
        reference_statements=wanted,
        stated=wanted - len(missing),
        ignored=len(ignored),
        unlike_reference=wanted > 0 and states_nothing,
        on_another_question=is_on_another_question,
        ignores_useful_contexts=ignores_useful,
        in_foreign_language=is_foreign,
    )


@lru_cache(maxsize=16)
def _language(text: str) -> str | None:
    if len(text.split()) < _MIN_WORDS:
        return None
    return guess_language(normalise(text)).code
