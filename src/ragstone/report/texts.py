"""The texts of one sample, before and after, as the HTML page shows them: cut to bounds, redacted, made visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ragstone import formatting
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.judge.judgements import (
    ContextUse,
    Judgements,
    Statement,
    StatementList,
    Support,
    SupportTable,
    context_id,
)
from ragstone.metrics.evidence import locate, passages
from ragstone.metrics.registry import metric_title
from ragstone.metrics.retrieval_change import evidence_of
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.printable import clean
from ragstone.report.escape import MAX_ANSWER
from ragstone.system.response import Context

ANSWER_CHARS = MAX_ANSWER
CONTEXT_CHARS = 5_000
TEXT_CHARS = 2_000
CONTEXTS = 30
"""Contexts shown of one answer; those of lower rank are counted."""
STATEMENTS = 100
ANSWERS = 5
EVIDENCE = 20
"""Evidence texts that are looked for in contexts."""

Redact = Callable[[str], str]
Json = dict[str, Any]


class Texts:
    """Turns foreign text into text of the page: without secrets first, then visible, then cut."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact

    def short(self, text: str, limit: int = TEXT_CHARS) -> str:
        shown = self._shown(text, limit)
        return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"

    def long(self, text: str, limit: int) -> str | Json:
        shown = self._shown(text, limit)
        return shown if len(shown) <= limit else {"text": shown[:limit], "cut": len(text) - limit}

    def _shown(self, text: str, limit: int) -> str:
        return clean(self._redact(text)[: limit + 1])


def sample_texts(now: SampleRecord, then: SampleRecord | None, redact: Redact) -> Json:
    """Everything that the page shows of a sample when it is opened, as JSON. `then` is its record in the baseline.

    Answers are compared in the order in which they were given. Lists and texts are bounded, and say what was cut.
    """
    texts = Texts(redact)
    before = then.answers if then is not None else ()
    pairs = [
        _pair(now, answer, then, before[place] if place < len(before) else None, texts)
        for place, answer in enumerate(now.answers[:ANSWERS])
    ]
    sample = now.sample
    return _filled(
        question=texts.long(sample.question, ANSWER_CHARS),
        history=[[turn.role, texts.long(turn.text, TEXT_CHARS)] for turn in sample.history[-ANSWERS:]],
        moreHistory=max(0, len(sample.history) - ANSWERS),
        references=[texts.long(one, ANSWER_CHARS) for one in sample.references[:ANSWERS]],
        moreReferences=max(0, len(sample.references) - ANSWERS),
        unanswerable=not sample.answerable,
        scores=list(_scores(now.scores, then.scores if then is not None else {}, texts)),
        pairs=pairs,
        moreAnswers=max(0, len(now.answers) - ANSWERS),
        compared=then is not None,
    )


def _filled(**values: Any) -> Json:
    """Without what is empty, which is most of a sample."""
    return {name: value for name, value in values.items() if value not in (None, [], 0, False, "")}


def _scores(now: Mapping[str, Score], then: Mapping[str, Score], texts: Texts) -> Iterator[list[str]]:
    for name, score in now.items():
        before = then.get(name)
        yield [
            texts.short(metric_title(name), 100),
            _score_text(before) if before is not None else "",
            _score_text(score),
            texts.short(_remark(score) or "", 500),
        ]


def _score_text(score: Score) -> str:
    """``0.85``, ``n/a`` or ``failed``."""
    if isinstance(score, Scored):
        return formatting.score(score.value)
    return "n/a" if isinstance(score, NotApplicable) else "failed"


def _remark(score: Score) -> str | None:
    match score:
        case Scored(_, note):
            return note
        case NotApplicable(reason) | Failed(_, reason):
            return reason


def _pair(now: SampleRecord, answer: Answer, then: SampleRecord | None, before: Answer | None, texts: Texts) -> Json:
    same = before is not None and before.response.answer == answer.response.answer
    return _filled(
        now=_answer(answer, texts),
        then=None if before is None else _answer(before, texts, same=same),
        same=same,
        contexts=_contexts(now, answer, then, before, texts),
        more=max(0, len(answer.response.contexts) - CONTEXTS),
        moreBefore=max(0, len(before.response.contexts) - CONTEXTS) if before is not None else 0,
    )


def _answer(answer: Answer, texts: Texts, *, same: bool = False) -> Json:
    judged = answer.judgements[0] if answer.judgements else Judgements()
    failure = answer.response.failure
    made = judged.statements if isinstance(judged.statements, StatementList) else None
    support = judged.support.supports if isinstance(judged.support, SupportTable) else ()
    use = judged.context_use if isinstance(judged.context_use, ContextUse) else None
    return _filled(
        text=None if same else texts.long(answer.response.answer, ANSWER_CHARS),
        failure=None if failure is None else texts.short(f"{failure.kind}: {failure.message}"),
        abstains=made is not None and made.abstains,
        understood=texts.short(judged.standalone_question or ""),
        statements=_statements(made.statements, support, texts) if made is not None else [],
        moreStatements=max(0, len(made.statements) - STATEMENTS) if made is not None else 0,
        wanted=_statements(use.reference_statements, use.attributions, texts) if use is not None else [],
        moreWanted=max(0, len(use.reference_statements) - STATEMENTS) if use is not None else 0,
    )


def _statements(statements: Sequence[Statement], supports: Sequence[Support], texts: Texts) -> list[Json]:
    """Each statement with its verdict, the ranks of the contexts that support it, and the quote of the judge."""
    found = {support.statement_id: support for support in supports}
    shown = []
    for statement in statements[:STATEMENTS]:
        support = found.get(statement.id)
        shown.append(
            _filled(
                text=texts.short(statement.text),
                verdict=str(support.verdict) if support is not None else None,
                by=[texts.short(name, 20) for name in support.supported_by[:CONTEXTS]] if support is not None else [],
                quote=texts.short(support.quote or "") if support is not None else None,
            )
        )
    return shown


def _contexts(
    now: SampleRecord, answer: Answer, then: SampleRecord | None, before: Answer | None, texts: Texts
) -> list[Json]:
    """The contexts of both answers: those of the new one by rank, then those that were lost.

    A context is the same one if its text is, or else its id; then `was` is what it was. Each has its ranks, from 1.
    """
    new = answer.response.contexts[:CONTEXTS]
    old = before.response.contexts[:CONTEXTS] if before is not None else ()
    partner = _partners(new, old)
    judged = answer.judgements[0] if answer.judgements else Judgements()
    use = judged.context_use if isinstance(judged.context_use, ContextUse) else None
    useful = {one.context_id: one.useful for one in use.contexts} if use is not None else {}
    source = before if before is not None and before.response.contexts else answer
    judgements = source.judgements[0] if source.judgements else None
    evidence = evidence_of((then or now).sample, source.response.contexts[:CONTEXTS], judgements)[:EVIDENCE]
    evidence = tuple(text[: 4 * CONTEXT_CHARS] for text in evidence)
    supports = judged.support.supports if isinstance(judged.support, SupportTable) else ()
    quotes = [clean(one.quote) for one in supports[:STATEMENTS] if one.quote]
    marked = _Marked(evidence, quotes, texts)
    shown = marked.shown(new)
    for rank, entry in enumerate(shown):
        entry["now"] = rank + 1
        if context_id(rank) in useful:
            entry["useful"] = useful[context_id(rank)]
        if rank in partner:
            other = partner[rank]
            entry["then"] = other + 1
            if old[other].text != new[rank].text:
                (entry["was"],) = marked.shown([old[other]])
    lost = [rank for rank in range(len(old)) if rank not in set(partner.values())]
    for rank, entry in zip(lost, marked.shown([old[rank] for rank in lost]), strict=True):
        shown.append({**entry, "then": rank + 1})
    return shown


def _partners(new: Sequence[Context], old: Sequence[Context]) -> dict[int, int]:
    """The place in `old` of each context of `new` that was there, by its text or else by its id."""
    found: dict[int, int] = {}
    free = dict.fromkeys(range(len(old)))
    for name in ("text", "id"):
        for place, context in enumerate(new):
            own = getattr(context, name)
            match = next((rank for rank in free if getattr(old[rank], name) == own), None)
            if place not in found and match is not None and (own or name == "text"):
                found[place] = match
                del free[match]
    return found


class _Marked:
    """Contexts as pieces of text, some of them marked: evidence ("e"), or a quote of the judge ("q")."""

    def __init__(self, evidence: tuple[str, ...], quotes: Sequence[str], texts: Texts) -> None:
        self._evidence = evidence
        self._quotes = quotes
        self._texts = texts

    def shown(self, contexts: Sequence[Context]) -> list[Json]:
        cut = tuple(context.text[: 4 * CONTEXT_CHARS] for context in contexts)
        found = locate(self._evidence, cut) if self._evidence and cut else ()
        shown = []
        for place, context in enumerate(contexts):
            text = self._texts.long(context.text, CONTEXT_CHARS)
            body = text if isinstance(text, str) else text["text"]
            carried = tuple(
                one for one, where in zip(self._evidence, found, strict=False) if place + 1 in where.carriers
            )
            shown.append(
                _filled(
                    id=self._texts.short(context.id or "", 200),
                    evidence=_held(carried, cut[place]) if carried else None,
                    pieces=list(self._pieces(body, self._evidence if carried else ())) or [["", ""]],
                    cut=0 if isinstance(text, str) else text["cut"],
                )
            )
        return shown

    def _pieces(self, text: str, evidence: Sequence[str]) -> Iterator[list[str]]:
        # A context that is an evidence text itself would be marked as a whole, which says nothing.
        spans = [(*span, "e") for one in evidence for span in passages(one, text)] if text not in evidence else []
        if sum(end - start for start, end, _ in spans) >= 0.9 * len(text):
            spans = []  # the whole context is the evidence, and is named so
        for quote in self._quotes:
            start = text.find(quote)
            if start >= 0:
                spans.append((start, start + len(quote), "q"))
        at = 0
        for start, end, kind in sorted(spans):
            if start < at:
                start = at
            if start >= end:
                continue
            if at < start:
                yield ["", text[at:start]]
            yield [kind, text[start:end]]
            at = end
        if at < len(text):
            yield ["", text[at:]]


def _held(carried: tuple[str, ...], text: str) -> str:
    """Whether a context that carries these evidence texts has a whole one, or part of one."""
    return "whole" if text in carried or any(one.held for one in locate(carried, (text,))) else "part"
