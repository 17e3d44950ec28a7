"""The texts of one sample, before and after, as the HTML page and the terminal show
them: redacted, made visible, cut to bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, TypeVar

from ragstone import formatting
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    ContextUse,
    Statement,
    StatementList,
    Support,
    SupportTable,
    context_id,
)
from ragstone.metrics.evidence import locate
from ragstone.metrics.registry import metric_title
from ragstone.metrics.retrieval_change import evidence_of
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.printable import clean
from ragstone.report.escape import MAX_ANSWER, clip
from ragstone.report.timeline import MAX_STEP_CHARACTERS, MAX_STEPS, step_text
from ragstone.report.traces import last_frames
from ragstone.system.response import Context, Response

ANSWER_CHARS = MAX_ANSWER
CONTEXT_CHARS = 5_000
TEXT_CHARS = 2_000
CONTEXTS = 30
"""Contexts shown of one answer."""
STATEMENTS = 100
"""Statements shown of one answer or reference."""
ANSWERS = 5
MESSAGES = 20
"""Messages of a conversation shown before a question."""
EVIDENCE = 20
"""Evidence texts that are looked for in contexts."""

Redact = Callable[[str], str]
Json = dict[str, Any]
Item = TypeVar("Item")


class Texts:
    """Turns foreign text into text to be shown: without secrets first, then visible,
    then cut."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self.is_cut = False

    def text(self, text: str, limit: int = TEXT_CHARS) -> str:
        shown = clean(self._redact(text))
        self.is_cut = self.is_cut or len(shown) > limit
        return clip(shown, limit)

    def first(self, items: Sequence[Item], limit: int) -> Sequence[Item]:
        self.is_cut = self.is_cut or len(items) > limit
        return items[:limit]


def sample_texts(now: SampleRecord, then: SampleRecord | None, redact: Redact) -> Json:
    """Everything that is shown of a sample in full, as JSON. `then` is its record in
    the baseline.

    Answers are compared in the order in which they were given. ``cut`` says whether a
    text or list is longer than it is shown.
    """
    texts = Texts(redact)
    sample = now.sample
    references = texts.first(sample.references, ANSWERS)
    answers_before: Sequence[Answer | None] = () if then is None else then.answers
    pairs: list[Json] = []
    for answer, before in zip(
        texts.first(now.answers, ANSWERS),
        chain(answers_before, repeat(None)),
        strict=False,
    ):
        evidence_source = (then or now).sample
        pair = {
            "now": _answer(answer, texts),
            "then": None if before is None else _answer(before, texts),
            "contexts": _contexts(evidence_source, answer, before, texts),
        }
        pairs.append(pair)
    return {
        "question": texts.text(sample.question, ANSWER_CHARS),
        "history": _messages(now, texts),
        "historyBefore": _messages(then, texts),
        "references": [texts.text(text, ANSWER_CHARS) for text in references],
        "unanswerable": not sample.answerable,
        "scores": list(_scores(now, then, texts)),
        "pairs": pairs,
        "compared": then is not None,
        "cut": texts.is_cut,
    }


def _messages(record: SampleRecord | None, texts: Texts) -> list[list[str]]:
    """Role and text of the last messages before the first answer."""
    if record is None:
        return []
    response = record.answers[0].response
    newest_first = response.messages_before(record.sample)[::-1]
    messages = [
        [message.role, texts.text(message.text)]
        for message in texts.first(newest_first, MESSAGES)[::-1]
    ]
    if response.so_far is not None and response.so_far.remark is not None:
        messages.append(["note", response.so_far.remark])
    return messages


def _scores(
    now: SampleRecord, then: SampleRecord | None, texts: Texts
) -> Iterator[list[str]]:
    """Title, score before and now (``0.85``, ``n/a`` or ``failed``), and remark of each
    metric."""
    scores_before: Mapping[str, Score] = {} if then is None else then.scores
    for name, score in now.scores.items():
        remark = score.note if isinstance(score, Scored) else score.reason
        yield [
            texts.text(metric_title(name)),
            _score_text(scores_before.get(name)),
            _score_text(score),
            texts.text(remark or ""),
        ]


def _score_text(score: Score | None) -> str:
    if isinstance(score, Scored):
        return formatting.score(score.value)
    if isinstance(score, NotApplicable):
        return "n/a"
    return "" if score is None else "failed"


def _answer(answer: Answer, texts: Texts) -> Json:
    response = answer.response
    failure = response.failure
    statements = answer.judged.statements
    support = answer.judged.support
    use = answer.judged.context_use
    shown: Json = {
        "text": texts.text(response.answer, ANSWER_CHARS),
        "failure": "",
        "trace": [],
        "understood": texts.text(answer.judged.standalone_question or ""),
        "abstains": False,
        "statements": [],
        "wanted": [],
        "steps": [
            step_text(step, lambda text: texts.text(text, MAX_STEP_CHARACTERS))
            for step in texts.first(response.steps, MAX_STEPS)
        ],
    }
    if failure is not None:
        frames = last_frames(failure.detail)
        shown["failure"] = texts.text(f"{failure.kind}: {failure.message}")
        shown["trace"] = [texts.text(frame) for frame in frames]
    if isinstance(statements, StatementList):
        supports = support.supports if isinstance(support, SupportTable) else ()
        shown["abstains"] = statements.abstains
        shown["statements"] = _statements(
            statements.statements, supports, response, texts
        )
    if isinstance(use, ContextUse):
        shown["wanted"] = _statements(
            use.reference_statements, use.attributions, response, texts
        )
    return shown


def _statements(
    statements: Sequence[Statement],
    supports: Sequence[Support],
    response: Response,
    texts: Texts,
) -> list[Json]:
    """Each statement with its verdict, the contexts that support it, and the quote of
    the judge."""
    own = len(response.contexts)
    earlier = {context_id(rank) for rank in range(own, len(response.evidence))}

    def sources(names: Sequence[str]) -> list[str]:
        """The contexts with these names, each once, those of earlier turns as one."""
        shown_names = (
            "of an earlier turn" if name in earlier else texts.text(name, 20)
            for name in texts.first(names, CONTEXTS)
        )
        return list(dict.fromkeys(shown_names))

    by_statement = {support.statement_id: support for support in supports}
    shown: list[Json] = []
    for statement in texts.first(statements, STATEMENTS):
        support = by_statement.get(statement.id)
        entry: Json = {"verdict": "", "by": [], "against": [], "quote": ""}
        if support is not None:
            entry = {
                "verdict": str(support.verdict),
                "by": sources(support.supported_by),
                "against": sources(support.contradicted_by),
                "quote": texts.text(support.quote or ""),
            }
        shown.append({"text": texts.text(statement.text), **entry})
    return shown


def _contexts(
    sample: Sample, answer: Answer, before: Answer | None, texts: Texts
) -> list[Json]:
    """The contexts of both answers: those of the new one by rank, then those that were
    lost.

    A context is the same one if its text is, or else its id; then `was` is its text in
    the baseline. Each has its ranks, from 1. The evidence is that of `sample`.
    """
    new = texts.first(answer.response.contexts, CONTEXTS)
    old: Sequence[Context] = ()
    source = answer
    if before is not None and before.response.contexts:
        old = texts.first(before.response.contexts, CONTEXTS)
        source = before
    evidence = evidence_of(sample, source.response.contexts[:CONTEXTS], source.judged)
    carriers, old_carriers = (
        _carriers(evidence[:EVIDENCE], contexts) for contexts in (new, old)
    )
    use = answer.judged.context_use
    useful: dict[str, bool] = {}
    if isinstance(use, ContextUse):
        useful = {context.context_id: context.useful for context in use.contexts}
    old_ranks = _partners(new, old)
    shown: list[Json] = []
    for rank, context in enumerate(new):
        entry = _context(context, texts)
        entry["evidence"] = rank in carriers
        entry["now"] = rank + 1
        entry["useful"] = useful.get(context_id(rank))
        if rank in old_ranks:
            old_rank = old_ranks[rank]
            entry["then"] = old_rank + 1
            if old[old_rank].text != context.text:
                entry["was"] = texts.text(old[old_rank].text, CONTEXT_CHARS)
                entry["lost"] = old_rank in old_carriers and rank not in carriers
        shown.append(entry)
    for rank, context in enumerate(old):
        if rank not in old_ranks.values():
            entry = _context(context, texts)
            entry["evidence"] = rank in old_carriers
            entry["then"] = rank + 1
            shown.append(entry)
    return shown


def _context(context: Context, texts: Texts) -> Json:
    return {
        "id": texts.text(context.id or "", 200),
        "text": texts.text(context.text, CONTEXT_CHARS),
        "now": None,
        "then": None,
        "was": None,
        "lost": False,
        "useful": None,
    }


def _carriers(evidence: Sequence[str], contexts: Sequence[Context]) -> set[int]:
    """The contexts, by rank from 0, that have an evidence text or part of one."""
    limit = 4 * CONTEXT_CHARS
    heads = tuple(context.text[:limit] for context in contexts)
    carriers: set[int] = set()
    for place in locate(tuple(text[:limit] for text in evidence), heads):
        carriers.update(rank - 1 for rank in place.carriers)
    return carriers


def _partners(new: Sequence[Context], old: Sequence[Context]) -> dict[int, int]:
    """The rank in `old` of each context of `new` that was there, by its text or else by
    its id."""
    partners: dict[int, int] = {}
    for name in ("text", "id"):
        free: dict[str | None, list[int]] = {}
        for old_rank, context in enumerate(old):
            if old_rank not in partners.values():
                free.setdefault(getattr(context, name), []).append(old_rank)
        free[None] = []
        for rank, context in enumerate(new):
            ranks = free.get(getattr(context, name))
            if rank not in partners and ranks:
                partners[rank] = ranks.pop(0)
    return partners
