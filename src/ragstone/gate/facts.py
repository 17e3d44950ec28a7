"""What is known of one sample, now and in the baseline: all that the diagnosis is made from."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

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
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.normal import normalise
from ragstone.metrics.evidence import distinct, locate
from ragstone.metrics.retrieval_change import EvidenceChange, RetrievalChange, evidence_of, retrieval_change
from ragstone.system.response import Context

SUPPORTED_FROM = 0.5
"""A share or probability from here on counts as supported, useful or said."""

_LOW_RANK = 2
"""Without a baseline, evidence ranks low if more contexts than this come before all of it."""

_MIN_WORDS = 5
"""The language of a shorter answer is not guessed."""

Ranks = Sequence[int]

_NO_USE = ContextUse((), against_reference=False)
_NO_MATCH = ReferenceMatch((), (), ())

_END = re.compile(r"[.!?…。！？][\W_]*$")


@dataclass(frozen=True, slots=True)
class Said:
    """The first answer to a sample, as far as it was judged. `wanted` statements of the reference, `given` of them."""

    empty: bool = False
    abstains: bool = False
    statements: int = 0
    unsupported: int = 0
    contradicted: int = 0
    wanted: int = 0
    given: int = 0
    ignored: int = 0
    """Statements of the reference that the contexts hold and it lacks."""
    elsewhere: bool = False
    """Nothing in it matches the reference."""
    beside: bool = False
    """It is about another question."""
    passes_over: bool = False
    """No statement of it draws on a useful context, although there is one."""
    language: str | None = None
    """Its language, if that is not the question's."""

    @property
    def silent(self) -> bool:
        """Whether it says nothing."""
        return self.empty or self.abstains

    @property
    def baseless(self) -> bool:
        """Whether nothing that it says has support."""
        return 0 < self.statements == self.unsupported

    def is_worse(self, than: Said) -> bool:
        """Whether it says less of the reference, or more that has no support."""
        is_silenced = self.silent and not than.silent
        return is_silenced or self.given < than.given or self.unsupported > than.unsupported


@dataclass(frozen=True, slots=True)
class Facts:
    """A sample now, and what of it is new since the baseline, if there is one (`compared`).

    `held`: the contexts hold the evidence, `by` whose word. `lost`: they don't, and did so in the baseline; or its text
    is gone, and the answer is worse for it, though a judge finds something like it. `lower`: it ranks lower (without a
    baseline: low), and the answer is `unused` if it doesn't draw on it there. `change` and `left` are those of its
    text, `old_ids`: fewer of its relevant ids are returned. `same`: so is the answer. `cut`: it is the beginning of the
    baseline's. `bare`: no contexts were returned, nor in the baseline.
    """

    compared: bool = False
    answerable: bool = True
    failed: bool = False
    held: bool | None = None
    by: Literal["reference_contexts", "relevant_ids", "judge"] = "judge"
    lost: bool = False
    lower: bool = False
    unused: bool = False
    change: EvidenceChange | None = None
    left: float = 1.0
    old_ids: bool = False
    same: bool = False
    cut: bool = False
    bare: bool = False
    said: Said = Said()
    before: Said = Said()


def facts_of(now: SampleRecord, before: SampleRecord | None = None) -> Facts:
    """The facts of the first answers of `now` and `before`. Pure."""
    judged = _judged(now)
    sample = now.sample
    changed = None
    if any(response.failure is not None for response in now.responses):
        return Facts(before is not None, sample.answerable, failed=True)
    if before is not None and before.response.failure is not None:
        before = None
    said = _said(now)
    past = Said() if before is None else _said(before)
    same = before is not None and before.response.answer == now.response.answer
    bare = not now.response.contexts and (before is None or not before.response.contexts)
    held = _held(now)
    low = None
    if before is None:
        first = _first_useful(judged)
        lost = held is False and not bare
        low = first if first is not None and first >= _LOW_RANK else None
    elif now.response.without_texts or before.response.without_texts:
        lost = held is False and _named(before) > 0
    else:
        old = before.response.contexts
        new = now.response.contexts
        then = _judged(before)
        evidence = evidence_of(before.sample, old, then)
        changed = retrieval_change(evidence, old, new)
        places = _places(evidence, old, new)
        low = _low(now, changed, places)
        gone = changed is not None and changed.change is EvidenceChange.GONE and not same and said.is_worse(past)
        lost = gone or _lost(judged, then, changed, places)
    lost = lost and sample.answerable
    by = "reference_contexts" if sample.reference_contexts else "relevant_ids" if sample.relevant_ids else "judge"
    return Facts(
        compared=before is not None,
        answerable=sample.answerable,
        held=held and not lost,
        by=by,  # type: ignore[arg-type]
        lost=lost,
        lower=low is not None,
        unused=low is not None and not _draws_on(low, judged),
        change=None if changed is None else changed.change,
        left=1.0 if changed is None else changed.left,
        old_ids=before is not None and _named(now) < _named(before),
        same=same,
        cut=before is not None and _is_cut(now.response.answer, before.response.answer),
        bare=bare,
        said=said,
        before=past,
    )


def _judged(record: SampleRecord) -> Judgements:
    if record.judgements:
        return record.judgements[0]
    return Judgements()


def _use(judged: Judgements) -> ContextUse:
    """Which contexts are useful; empty if that was not judged."""
    if isinstance(judged.context_use, ContextUse):
        return judged.context_use
    return _NO_USE


def _held(now: SampleRecord) -> bool | None:
    """Whether the contexts hold the evidence: by its text or ids, or else by the judge; None if nobody says."""
    contexts = now.response.contexts
    holds = _holds(_judged(now))
    has_relevant_ids = any(now.sample.relevant_ids.values())
    if now.response.without_texts:
        if not has_relevant_ids:
            return None
        return _named(now) > 0
    if texts := distinct(now.sample.reference_contexts):
        passages = locate(texts, tuple(context.text for context in contexts))
        return all(passage.held for passage in passages) or holds is True
    if has_relevant_ids and any(context.id for context in contexts):
        if _named(now):
            return holds is not False
        return holds is True
    return False if holds is None and not contexts else holds


def _lost(now: Judgements, then: Judgements, changed: RetrievalChange | None, places: tuple[Ranks, Ranks]) -> bool:
    """Whether the contexts lack the evidence that those of the baseline held; `places` as of `_places`."""
    holds = _holds(now)
    if changed is not None and changed.change is EvidenceChange.GONE:
        return holds is not True  # other contexts may say the same
    # In a corpus of similar texts, others can have all the words of the evidence: then the judge decides.
    return holds is False and _holds(then) is not False and not places[1]


def _low(now: SampleRecord, changed: RetrievalChange | None, places: tuple[Ranks, Ranks]) -> int | None:
    """The rank, from 0, of the first context with the evidence, if it is lower than in the baseline."""
    then, today = places
    if then and today:  # the same passage: the judge of texts may take others like it for it
        if today[0] > then[0]:
            return today[0]
        return None
    if changed is not None and changed.change is EvidenceChange.LOWER:
        return _first_useful(_judged(now))
    return None


def _places(evidence: Collection[str], before: Sequence[Context], now: Sequence[Context]) -> tuple[Ranks, Ranks]:
    """The ranks, from 0, of contexts that are a text of the evidence: in the baseline, and where those are now."""
    then = [rank for rank, context in enumerate(before) if context.text in evidence]
    texts = {before[rank].text for rank in then}
    return then, [rank for rank, context in enumerate(now) if context.text in texts]


def _draws_on(rank: int, judged: Judgements) -> bool:
    """Whether a statement of the answer is supported by the context at `rank`."""
    if not isinstance(judged.support, SupportTable):
        return False
    return any(context_id(rank) in one.supported_by for one in judged.support.supports)


def _holds(judged: Judgements) -> bool | None:
    """Whether the contexts hold the reference, by the judge; None if that was not judged."""
    use = _use(judged)
    held = sum(support.verdict is Verdict.SUPPORTED for support in use.attributions)
    is_judged = use.against_reference and use.attributions
    if not is_judged:
        return None
    return held >= SUPPORTED_FROM * len(use.attributions)


def _first_useful(judged: Judgements) -> int | None:
    """The rank, from 0, of the first useful context."""
    return next((rank for rank, context in enumerate(_use(judged).contexts) if context.useful), None)


def _named(record: SampleRecord) -> int:
    """How many of the sample's relevant ids are among its contexts."""
    relevant = {name for name, grade in record.sample.relevant_ids.items() if grade > 0}
    return len(relevant & {context.id for context in record.response.contexts})


def _is_cut(answer: str, before: str) -> bool:
    """Whether `answer` stops in the middle of what `before` says."""
    text = answer.strip().removesuffix("...").removesuffix("…").rstrip()
    return bool(text) and len(text) < len(before.strip()) and before.strip().startswith(text) and not _END.search(text)


def _said(record: SampleRecord) -> Said:
    judged = _judged(record)
    answer = record.response.answer
    made = judged.statements if isinstance(judged.statements, StatementList) else None
    statements, unsupported = _statements(record)
    match = judged.reference_match if isinstance(judged.reference_match, ReferenceMatch) else _NO_MATCH
    wanted = len(match.reference_supports)
    missing = missing_statements(record.answers[0], record.sample)
    backed = any(support.verdict is Verdict.SUPPORTED for support in match.answer_supports)
    spoken = _language(answer)
    return Said(
        empty=not any(character.isalnum() for character in answer),
        abstains=made is not None and made.abstains,
        statements=statements,
        unsupported=len(unsupported),
        contradicted=unsupported.count(Verdict.CONTRADICTED),
        wanted=wanted,
        given=wanted - len(missing),
        ignored=len(missing & _in_contexts(judged)),
        elsewhere=0 < wanted == len(missing) and not backed,
        beside=_is_beside(judged),
        passes_over=_passes_over(judged),
        language=spoken if spoken not in (None, _language(record.sample.question)) else None,
    )


def _statements(record: SampleRecord) -> tuple[int, list[Verdict]]:
    """How many statements the answer makes, and the verdicts on those that its contexts don't support."""
    judged = _judged(record)
    if isinstance(judged.support, SupportTable) and judged.support.supports:
        unsupported = unsupported_statements(record.answers[0], record.sample)
        return len(judged.support.supports), [support.verdict for support in unsupported]
    if isinstance(judged.statements, StatementList) and not record.response.contexts:
        count = len(judged.statements.statements)
        return count, [Verdict.UNSUPPORTED] * count
    return 0, []


def _in_contexts(judged: Judgements) -> Set[str]:
    """The ids of the reference's statements that the contexts hold, by the judge."""
    supports = _use(judged).attributions
    return {support.statement_id for support in supports if support.verdict is Verdict.SUPPORTED}


@lru_cache(maxsize=16)
def _language(text: str) -> str | None:
    if len(text.split()) >= _MIN_WORDS:
        return guess_language(normalise(text)).code
    return None


def _is_beside(judged: Judgements) -> bool:
    """Whether the answer is about another question, as far as that was judged."""
    reverse = judged.reverse_questions
    similarities = reverse.similarities if isinstance(reverse, ReverseQuestions) else ()
    return sum(similarities) < SUPPORTED_FROM * len(similarities)


def _passes_over(judged: Judgements) -> bool:
    useful = {context.context_id for context in _use(judged).contexts if context.useful}
    if not useful or not isinstance(judged.support, SupportTable):
        return False
    return all(useful.isdisjoint(support.supported_by) for support in judged.support.supports)
