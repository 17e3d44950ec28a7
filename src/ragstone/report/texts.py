"""The texts of one sample, before and after, as the HTML page shows them: cut to
bounds, redacted, made visible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ragstone import formatting
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.judge.judgements import (
    ContextUse,
    Statement,
    StatementList,
    Support,
    SupportTable,
    context_id,
)
from ragstone.metrics.evidence import locate, passages
from ragstone.metrics.registry import metric_title
from ragstone.metrics.retrieval_change import evidence_of
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.printable import clean
from ragstone.report.escape import MAX_ANSWER, clip
from ragstone.report.timeline import MAX_STEP_CHARACTERS, MAX_STEPS, step_text
from ragstone.system.response import Context

ANSWER_CHARS = MAX_ANSWER
CONTEXT_CHARS = 5_000
TEXT_CHARS = 2_000
CONTEXTS = 30
"""Contexts shown of one answer; those of lower rank are counted."""
STATEMENTS = 100
"""Statements shown of one answer or reference, and quotes of the judge that are looked
for in contexts."""
ANSWERS = 5
MESSAGES = 20
"""Messages of a conversation shown before a question."""
EVIDENCE = 20
"""Evidence texts that are looked for in contexts."""

Redact = Callable[[str], str]
Json = dict[str, Any]


class Texts:
    """Turns foreign text into text of the page: without secrets first, then visible,
    then cut."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact

    def short(self, text: str, limit: int = TEXT_CHARS) -> str:
        return clip(clean(self._redact(text)), limit)

    def long(self, text: str, limit: int) -> str | Json:
        shown = clean(self._redact(text))
        if len(shown) <= limit:
            return shown
        return {"text": shown[:limit], "cut": len(shown) - limit}


def sample_texts(now: SampleRecord, then: SampleRecord | None, redact: Redact) -> Json:
    """Everything that the page shows of a sample when it is opened, as JSON. `then` is
    its record in the baseline.

    Answers are compared in the order in which they were given. Lists and texts are
    bounded, and say what was cut.
    """
    texts = Texts(redact)
    before = (*(then.answers if then is not None else ()), *[None] * ANSWERS)
    sample = now.sample
    messages = list(_messages(now, then, texts))
    return _filled(
        question=texts.long(sample.question, ANSWER_CHARS),
        history=messages[-MESSAGES:],
        moreHistory=max(0, len(messages) - MESSAGES),
        references=[
            texts.long(text, ANSWER_CHARS) for text in sample.references[:ANSWERS]
        ],
        moreReferences=max(0, len(sample.references) - ANSWERS),
        unanswerable=not sample.answerable,
        scores=list(
            _scores(now.scores, then.scores if then is not None else {}, texts)
        ),
        pairs=[
            _pair(now, answer, then, answer_before, texts)
            for answer, answer_before in zip(
                now.answers[:ANSWERS], before, strict=False
            )
        ],
        moreAnswers=max(0, len(now.answers) - ANSWERS),
        compared=then is not None,
    )


def _messages(
    now: SampleRecord, then: SampleRecord | None, texts: Texts
) -> Iterator[list[str | Json]]:
    """Role and text of each message before the first answer, and its text in the
    baseline where that differs."""
    response = now.answers[0].response
    before = (
        () if then is None else then.answers[0].response.messages_before(then.sample)
    )
    for place, message in enumerate(response.messages_before(now.sample)):
        entry = [message.role, texts.long(message.text, TEXT_CHARS)]
        old = before[place] if place < len(before) else message
        if old != message:
            entry.append(texts.long(old.text, TEXT_CHARS))
        yield entry
    if response.so_far is not None and response.so_far.remark is not None:
        yield ["note", response.so_far.remark]


def _filled(**values: Any) -> Json:
    """Without what is empty, which is most of a sample."""
    return {
        name: value
        for name, value in values.items()
        if value not in (None, [], 0, False, "")
    }


def _scores(
    now: Mapping[str, Score], then: Mapping[str, Score], texts: Texts
) -> Iterator[list[str]]:
    """Title, score before and now (``0.85``, ``n/a`` or ``failed``), and remark of each
    metric."""
    for name, score in now.items():
        remark = score.note if isinstance(score, Scored) else score.reason
        before = _score_text(then[name]) if name in then else ""
        yield [
            texts.short(metric_title(name), 100),
            before,
            _score_text(score),
            texts.short(remark or "", 500),
        ]


def _score_text(score: Score) -> str:
    if isinstance(score, Scored):
        return formatting.score(score.value)
    if isinstance(score, NotApplicable):
        return "n/a"
    return "failed"


def _pair(
    now: SampleRecord,
    answer: Answer,
    then: SampleRecord | None,
    before: Answer | None,
    texts: Texts,
) -> Json:
    same = before is not None and before.response.answer == answer.response.answer
    return _filled(
        now=_answer(answer, texts),
        then=None if before is None else _answer(before, texts, same=same),
        same=same,
        contexts=_contexts(now, answer, then, before, texts),
        more=max(0, len(answer.response.contexts) - CONTEXTS),
        moreBefore=max(0, len(before.response.contexts) - CONTEXTS)
        if before is not None
        else 0,
    )


def _answer(answer: Answer, texts: Texts, *, same: bool = False) -> Json:
    judged = answer.judged
    failure = answer.response.failure
    statements = judged.statements
    use = judged.context_use
    shown = _filled(
        text=None if same else texts.long(answer.response.answer, ANSWER_CHARS),
        failure=None
        if failure is None
        else texts.short(f"{failure.kind}: {failure.message}"),
        understood=texts.short(judged.standalone_question or ""),
        steps=[
            step_text(step, lambda text: texts.short(text, MAX_STEP_CHARACTERS))
            for step in answer.response.steps[:MAX_STEPS]
        ],
        moreSteps=max(0, len(answer.response.steps) - MAX_STEPS),
    )
    if isinstance(statements, StatementList):
        shown |= _filled(
            abstains=statements.abstains,
            statements=_statements(
                statements.statements, _supports(answer), answer, texts
            ),
            moreStatements=max(0, len(statements.statements) - STATEMENTS),
        )
    if isinstance(use, ContextUse):
        shown |= _filled(
            wanted=_statements(
                use.reference_statements, use.attributions, answer, texts
            ),
            moreWanted=max(0, len(use.reference_statements) - STATEMENTS),
        )
    return shown


def _supports(answer: Answer) -> Sequence[Support]:
    """The support verdicts; none if they were not given."""
    support = answer.judged.support
    if isinstance(support, SupportTable):
        return support.supports
    return ()


def _useful(answer: Answer) -> Mapping[str, bool]:
    """Whether each context is useful, by its id in judgements; empty if that was not
    judged."""
    use = answer.judged.context_use
    if isinstance(use, ContextUse):
        return {context.context_id: context.useful for context in use.contexts}
    return {}


def _statements(
    statements: Sequence[Statement],
    supports: Sequence[Support],
    answer: Answer,
    texts: Texts,
) -> list[Json]:
    """Each statement with its verdict, the contexts that support and contradict it, and
    the quote of the judge, or that there is none.
    """
    by_statement = {support.statement_id: support for support in supports}
    shown = []
    for statement in statements[:STATEMENTS]:
        entry: Json = {"text": texts.short(statement.text)}
        support = by_statement.get(statement.id)
        if support is not None:
            entry |= _filled(
                verdict=str(support.verdict),
                by=_sources(support.supported_by, answer, texts),
                against=_sources(support.contradicted_by, answer, texts),
                quote=texts.short(support.quote or ""),
                unquoted=support.unquoted,
            )
        shown.append(entry)
    return shown


def _sources(names: Sequence[str], answer: Answer, texts: Texts) -> list[str]:
    """The contexts with these names in judgements. Those of earlier turns come after
    those of the answer."""
    earlier = {
        context_id(rank)
        for rank in range(len(answer.response.contexts), len(answer.response.evidence))
    }
    shown = [
        "of an earlier turn" if name in earlier else texts.short(name, 20)
        for name in names[:CONTEXTS]
    ]
    return list(dict.fromkeys(shown))


def _contexts(
    now: SampleRecord,
    answer: Answer,
    then: SampleRecord | None,
    before: Answer | None,
    texts: Texts,
) -> list[Json]:
    """The contexts of both answers: those of the new one by rank, then those that were
    lost.

    A context is the same one if its text is, or else its id; then `was` is what it was.
    Each has its ranks, from 1.
    """
    new = answer.response.contexts[:CONTEXTS]
    old = before.response.contexts[:CONTEXTS] if before is not None else ()
    source = before if before is not None and before.response.contexts else answer
    evidence = evidence_of(
        (then or now).sample, source.response.contexts[:CONTEXTS], source.judged
    )[:EVIDENCE]
    quotes = [
        clean(support.quote)
        for support in _supports(answer)[:STATEMENTS]
        if support.quote
    ]
    marked = _Marked(
        tuple(text[: 4 * CONTEXT_CHARS] for text in evidence), quotes, texts
    )
    useful = _useful(answer)
    old_ranks = _partners(new, old)
    shown: list[Json] = []
    for rank, context in enumerate(new):
        entry = {**marked.shown(context), "now": rank + 1}
        if context_id(rank) in useful:
            entry["useful"] = useful[context_id(rank)]
        if rank in old_ranks:
            old_rank = old_ranks[rank]
            entry["then"] = old_rank + 1
            if old[old_rank].text != context.text:
                entry["was"] = marked.shown(old[old_rank])
        shown.append(entry)
    for rank, context in enumerate(old):
        if rank not in old_ranks.values():
            shown.append({**marked.shown(context), "then": rank + 1})
    return shown


def _partners(new: Sequence[Context], old: Sequence[Context]) -> dict[int, int]:
    """The place in `old` of each context of `new` that was there, by its text or else
    by its id."""
    partners: dict[int, int] = {}
    for name in ("text", "id"):
        for place, context in enumerate(new):
            value = getattr(context, name)
            if place in partners or value is None:
                continue
            for old_place, old_context in enumerate(old):
                if (
                    getattr(old_context, name) == value
                    and old_place not in partners.values()
                ):
                    partners[place] = old_place
                    break
    return partners


class _Marked:
    """Contexts as pieces of text, some of them marked: evidence ("e"), or a quote of
    the judge ("q")."""

    def __init__(
        self, evidence: tuple[str, ...], quotes: Sequence[str], texts: Texts
    ) -> None:
        self._evidence = evidence
        self._quotes = quotes
        self._texts = texts

    def shown(self, context: Context) -> Json:
        """A context with its pieces, and whether it has a whole evidence text, or part
        of one."""
        head = context.text[: 4 * CONTEXT_CHARS]
        places = locate(self._evidence, (head,)) if self._evidence else ()
        carried = [
            text
            for text, place in zip(self._evidence, places, strict=False)
            if place.carriers
        ]
        evidence = None
        if carried:
            is_whole = head in carried or any(place.retrieved for place in places)
            evidence = "whole" if is_whole else "part"
        body = self._texts.long(context.text, CONTEXT_CHARS)
        omitted = 0
        if not isinstance(body, str):
            omitted = body["cut"]
            body = body["text"]
        return _filled(
            id=self._texts.short(context.id or "", 200),
            evidence=evidence,
            pieces=list(self._pieces(body, carried)) or [["", ""]],
            cut=omitted,
        )

    def _pieces(self, text: str, evidence: Sequence[str]) -> Iterator[list[str]]:
        at = 0
        for start, end, kind in sorted(self._spans(text, evidence)):
            if end <= at:
                continue
            if start > at:
                yield ["", text[at:start]]
            yield [kind, text[max(start, at) : end]]
            at = end
        if at < len(text):
            yield ["", text[at:]]

    def _spans(self, text: str, evidence: Sequence[str]) -> list[tuple[int, int, str]]:
        """What is marked in `text`: start, end and mark."""
        spans: list[tuple[int, int, str]] = []
        for passage in evidence:
            spans += [(start, end, "e") for start, end in passages(passage, text)]
        if sum(end - start for start, end, _ in spans) >= 0.9 * len(text):
            spans = []  # the whole context is the evidence, and is named so
        for quote in self._quotes:
            start = text.find(quote)
            if start >= 0:
                spans.append((start, start + len(quote), "q"))
        return spans
