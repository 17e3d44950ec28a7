"""What became of one sample between the baseline and this run. The causes of a worse
answer are found from nothing else."""

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
from ragstone.metrics.evidence_ranks import distinct, locate
from ragstone.metrics.retrieval_change import (
    EvidenceChange,
    evidence_of,
    retrieval_change,
)
from ragstone.system.response import Context

SUPPORTED_FROM = 0.5
"""A share or probability from here on counts as supported, useful or stated."""

_LOW_RANK = 2
"""Without a baseline, evidence ranks low if at least this many contexts come before all
of it."""

_MIN_WORDS = 5
"""The language of a shorter text is not guessed."""

_SENTENCE_END = re.compile(r"[.!?…。！？][\W_]*$")


class JudgedAnswer(Struct, frozen=True):
    """The first answer to a sample, as far as it was judged."""

    is_empty: bool = False
    abstains: bool = False
    statement_count: int = 0
    unsupported_count: int = 0
    """The number of its statements that the contexts don't support, contradicted ones
    included."""
    contradicted_count: int = 0
    reference_statement_count: int = 0
    stated_count: int = 0
    """The number of statements of the reference that it states."""
    ignored_count: int = 0
    """The number of statements of the reference that the contexts support and it
    lacks."""
    is_unlike_reference: bool = False
    """Whether nothing in it matches the reference."""
    is_on_another_question: bool = False
    """Whether the questions that it answers are unlike the question of the sample."""
    ignores_useful_contexts: bool = False
    """Whether none of its statements draws on a useful context, although there is
    one."""
    is_in_foreign_language: bool = False
    """Whether it is in another language than the question."""

    @property
    def stated_share(self) -> float:
        """The share of the statements of the reference that it states; 1 if it was not
        compared with a reference."""
        if not self.reference_statement_count:
            return 1.0
        return self.stated_count / self.reference_statement_count

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing."""
        return self.is_empty or self.abstains

    @property
    def is_baseless(self) -> bool:
        """Whether nothing that it says has support."""
        return (
            self.statement_count > 0 and self.unsupported_count == self.statement_count
        )

    def is_worse_than(self, baseline: JudgedAnswer) -> bool:
        """Whether it states less of the reference, or more that has no support."""
        if self.is_silent and not baseline.is_silent:
            return True
        return (
            self.stated_count < baseline.stated_count
            or self.unsupported_count > baseline.unsupported_count
        )


class SampleChange(Struct, frozen=True):
    """What became of one sample between the baseline and this run; without a baseline,
    what is wrong with it."""

    is_compared: bool = False
    """Whether the baseline has an answer to it."""
    is_answerable: bool = True
    has_failed: bool = False
    """Whether the system failed on it."""
    has_lost_evidence: bool = False
    """Whether the contexts lack the evidence that those of the baseline had.

    Also if its text is gone and the answer is worse, though a judge finds support.
    """
    evidence_ranks_lower: bool = False
    """Whether the evidence ranks lower than in the baseline; without a baseline,
    whether it ranks low."""
    is_low_evidence_unused: bool = False
    """Whether the evidence ranks lower, and no statement of the answer draws on it
    there."""
    has_outdated_ids: bool = False
    """Whether fewer relevant ids are returned only because the evidence comes in other
    chunks, or under other ids."""
    is_answer_unchanged: bool = False
    is_answer_truncated: bool = False
    """Whether the answer stops in the middle of what the baseline's says."""
    lacks_contexts: bool = False
    """Whether no contexts were returned. With a baseline it is False: that may have none
    either."""
    answer: JudgedAnswer = field(default_factory=JudgedAnswer)
    baseline_answer: JudgedAnswer = field(default_factory=JudgedAnswer)


def sample_change(
    current: SampleRecord, baseline: SampleRecord | None = None
) -> SampleChange:
    """Compare the first answers to a sample in this run and in the baseline. Pure."""
    is_answerable = current.sample.answerable
    if any(response.failure is not None for response in current.responses):
        return SampleChange(
            is_compared=baseline is not None,
            is_answerable=is_answerable,
            has_failed=True,
        )
    if baseline is None or baseline.response.failure is not None:
        return _without_baseline(current)
    answer = _judged_answer(current)
    baseline_answer = _judged_answer(baseline)
    text = current.response.answer
    baseline_text = baseline.response.answer
    is_unchanged = text == baseline_text
    is_worse = answer.is_worse_than(baseline_answer) and not is_unchanged
    ids_returned = _relevant_ids_returned(current)
    has_fewer_ids = ids_returned < _relevant_ids_returned(baseline)
    if current.response.lacks_texts or baseline.response.lacks_texts:
        evidence = _Evidence(is_lost=has_fewer_ids and not ids_returned)
    else:
        evidence = _compare_evidence(current, baseline, is_answer_worse=is_worse)
    is_lost = evidence.is_lost and is_answerable
    return SampleChange(
        is_compared=True,
        is_answerable=is_answerable,
        has_lost_evidence=is_lost,
        evidence_ranks_lower=evidence.low_rank is not None,
        is_low_evidence_unused=_is_unused(evidence.low_rank, current),
        has_outdated_ids=evidence.is_rechunked and has_fewer_ids and not is_lost,
        is_answer_unchanged=is_unchanged,
        is_answer_truncated=_is_truncated(text, baseline_text),
        answer=answer,
        baseline_answer=baseline_answer,
    )


def _without_baseline(record: SampleRecord) -> SampleChange:
    """What is wrong with a sample that the system answered, without a baseline."""
    contexts = record.response.contexts
    is_answerable = record.sample.answerable
    low_rank = _first_useful(record)
    if low_rank is not None and low_rank < _LOW_RANK:
        low_rank = None
    return SampleChange(
        is_answerable=is_answerable,
        has_lost_evidence=bool(contexts) and is_answerable and _lacks_evidence(record),
        evidence_ranks_lower=low_rank is not None,
        is_low_evidence_unused=_is_unused(low_rank, record),
        lacks_contexts=not contexts,
        answer=_judged_answer(record),
    )


class _Evidence(Struct, frozen=True):
    """What became of the evidence among the contexts since the baseline."""

    is_lost: bool
    low_rank: int | None = None
    """The rank, from 0, of the evidence if it is lower than in the baseline."""
    is_rechunked: bool = False
    """Whether the evidence comes in other chunks, but no lower."""


def _compare_evidence(
    current: SampleRecord, baseline: SampleRecord, *, is_answer_worse: bool
) -> _Evidence:
    """Compare the texts of the contexts in both runs."""
    contexts = current.response.contexts
    baseline_contexts = baseline.response.contexts
    judged_before = baseline.answers[0].judged
    texts = evidence_of(baseline.sample, baseline_contexts, judged_before)
    change = retrieval_change(texts, baseline_contexts, contexts)
    baseline_texts = {context.text for context in baseline_contexts}
    same_texts = baseline_texts.intersection(texts)
    ranks = _ranks(contexts, same_texts)
    # In a corpus of similar texts, other contexts can have all the words of the
    # evidence: then the judge decides.
    is_supported = _reference_supported(current)
    was_supported = _reference_supported(baseline) is not False
    is_lost = is_supported is False and was_supported and not ranks
    if change is EvidenceChange.GONE:
        # Other contexts may say the same, which the judge and the answer show.
        is_lost = is_supported is not True or is_answer_worse
    low_rank = None
    if ranks:
        # The very texts are returned: the judge may take similar texts for them.
        baseline_ranks = _ranks(baseline_contexts, same_texts)
        if ranks[0] > baseline_ranks[0]:
            low_rank = ranks[0]
    elif change is EvidenceChange.LOWER:
        low_rank = _first_useful(current)
    is_rechunked = change is EvidenceChange.RECHUNKED and low_rank is None
    return _Evidence(is_lost, low_rank, is_rechunked)


def _ranks(contexts: Sequence[Context], texts: Collection[str]) -> list[int]:
    """The ranks, from 0, of the contexts whose text is one of `texts`."""
    return [rank for rank, context in enumerate(contexts) if context.text in texts]


def _is_unused(low_rank: int | None, record: SampleRecord) -> bool:
    """Whether no statement of the answer is supported by the context at `low_rank`;
    False if no evidence ranks low."""
    if low_rank is None:
        return False
    low_id = context_id(low_rank)
    supports = _supports(record)
    return all(low_id not in support.supported_by for support in supports)


def _lacks_evidence(record: SampleRecord) -> bool:
    """Whether the contexts lack the evidence: by its text or its ids, or, without these
    or where the judge disagrees, by the judge."""
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
    """The number of relevant ids of the sample that are ids of its contexts."""
    grades = record.sample.relevant_ids
    returned = {context.id for context in record.response.contexts}
    graded = grades.keys() & returned
    return sum(grades[document] > 0 for document in graded)


def _context_use(record: SampleRecord) -> ContextUse:
    """The judgement of which contexts are useful; empty if there is none."""
    return result_or(record.answers[0].judged.context_use, NO_USE)


def _supports(record: SampleRecord) -> tuple[Support, ...]:
    """The support of each statement of the answer; empty if it was not judged."""
    return result_or(record.answers[0].judged.support, NO_SUPPORT).supports


def _reference_supported(record: SampleRecord) -> bool | None:
    """Whether the judge finds support for the reference in the contexts; None if that
    was not judged."""
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
    """The rank, from 0, of the first useful context; None if there is none."""
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
    return whole.startswith(text) and not _SENTENCE_END.search(text)


def _judged_answer(record: SampleRecord) -> JudgedAnswer:
    """The first answer of `record`, as far as it was judged."""
    answer_record = record.answers[0]
    judgements = answer_record.judged
    answer = record.response.answer
    statements = result_or(judgements.statements, NO_STATEMENTS)
    supports = _supports(record)
    unsupported = unsupported_statements(answer_record, record.sample)
    verdicts = [statement.verdict for statement in unsupported]
    # Without contexts there was nothing to judge by, and nothing has support.
    if not supports and not record.response.contexts:
        verdicts = [Verdict.UNSUPPORTED] * len(statements.statements)
    missing = missing_statements(answer_record, record.sample)
    match = result_or(judgements.reference_match, NO_MATCH)
    reference_count = len(match.reference_supports)
    matches_nothing = len(missing) == reference_count and not _supported(
        match.answer_supports
    )
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
        is_empty=is_empty,
        abstains=statements.abstains,
        statement_count=len(supports) or len(verdicts),
        unsupported_count=len(verdicts),
        contradicted_count=verdicts.count(Verdict.CONTRADICTED),
        reference_statement_count=reference_count,
        stated_count=reference_count - len(missing),
        ignored_count=len(ignored),
        is_unlike_reference=reference_count > 0 and matches_nothing,
        is_on_another_question=is_on_another_question,
        ignores_useful_contexts=ignores_useful,
        is_in_foreign_language=is_foreign,
    )


@lru_cache(maxsize=16)
def _language(text: str) -> str | None:
    """The code of the language of `text`; None if it is too short to guess."""
    if len(text.split()) < _MIN_WORDS:
        return None
    return guess_language(normalise(text)).code
