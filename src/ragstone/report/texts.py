"""The texts of one sample, before and after, as the HTML page and the terminal show
them: redacted, made visible, cut to bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
from operator import attrgetter
from typing import Any, TypeVar

from ragstone import formatting
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import (
    NO_STATEMENTS,
    NO_SUPPORT,
    NO_USE,
    Statement,
    Support,
    context_id,
    result_or,
)
from ragstone.metrics.evidence import locate
from ragstone.metrics.registry import metric_title
from ragstone.metrics.retrieval_change import evidence_of
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.printable import clean
from ragstone.report.escape import clip
from ragstone.report.filters import PHRASES
from ragstone.report.traces import last_frames
from ragstone.system.response import Context, Response

MAX_CHARACTERS = 10_000
"""Characters shown of one text."""
MAX_ITEMS = 100
"""Entries shown of one list, such as the statements of an answer."""
MAX_CONTEXTS = 30
"""Contexts shown of one answer."""
_EVIDENCE = 20
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

    def shown(self, value: Any) -> Any:
        """`value`, a tree of dicts and lists, with all of its texts as they are
        shown."""
        match value:
            case str():
                text = clean(self._redact(value))
                self.is_cut = self.is_cut or len(text) > MAX_CHARACTERS
                return clip(text, MAX_CHARACTERS)
            case list():
                return list(map(self.shown, self.first(value, MAX_ITEMS)))
            case dict():
                return {key: self.shown(item) for key, item in value.items()}
        return value

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
    before = () if then is None else then.answers[: len(now.answers)]
    pairs: list[Json] = []
    for answer, answer_before in zip_longest(now.answers, before):
        pair = {
            "now": _answer(answer, texts),
            "then": None if answer_before is None else _answer(answer_before, texts),
            "contexts": _contexts((then or now).sample, answer, answer_before, texts),
        }
        pairs.append(pair)
    shown: Json = texts.shown(
        {
            "question": sample.question,
            "history": _messages(now),
            "historyBefore": [] if then is None else _messages(then),
            "references": list(sample.references),
            "unanswerable": not sample.answerable,
            "scores": list(_scores(now, then)),
            "pairs": pairs,
            "compared": then is not None,
        }
    )
    return {**shown, "cut": texts.is_cut}


def _messages(record: SampleRecord) -> list[list[str]]:
    """Role and text of the messages before the first answer."""
    response = record.answers[0].response
    messages = [
        [message.role, message.text]
        for message in response.messages_before(record.sample)
    ]
    if response.so_far is not None and response.so_far.remark is not None:
        messages.append(["note", response.so_far.remark])
    return messages


def _scores(now: SampleRecord, then: SampleRecord | None) -> Iterator[list[str]]:
    """Title, score before and now (``0.85``, ``n/a`` or ``failed``), and remark of each
    metric."""
    scores_before: Mapping[str, Score] = {} if then is None else then.scores
    for name, score in now.scores.items():
        remark = score.note if isinstance(score, Scored) else score.reason
        before = scores_before.get(name)
        yield [
            metric_title(name),
            "" if before is None else _score_text(before),
            _score_text(score),
            remark or "",
        ]


def _score_text(score: Score) -> str:
    match score:
        case Scored():
            return formatting.score(score.value)
        case NotApplicable():
            return "n/a"
    return "failed"


def _answer(answer: Answer, texts: Texts) -> Json:
    response = answer.response
    steps = texts.first(response.steps, MAX_ITEMS)
    failure = response.failure
    judged = answer.judged
    statements = result_or(judged.statements, NO_STATEMENTS)
    supports = result_or(judged.support, NO_SUPPORT).supports
    use = result_or(judged.context_use, NO_USE)
    shown: Json = {
        "text": response.answer,
        "failure": "",
        "trace": [],
        "understood": judged.standalone_question or "",
        "abstains": statements.abstains,
        "statements": _statements(statements.statements, supports, response),
        "wanted": _statements(use.reference_statements, use.attributions, response),
        "steps": list(map(PHRASES["step_text"], steps)),
    }
    if failure is not None:
        shown["failure"] = f"{failure.kind}: {failure.message}"
        shown["trace"] = list(last_frames(failure.detail))
    return shown


def _statements(
    statements: Sequence[Statement], supports: Sequence[Support], response: Response
) -> list[Json]:
    """Each statement with its verdict, the contexts that support it, and the quote of
    the judge. The contexts of earlier turns count as one."""
    own = len(response.contexts)
    earlier = set(map(context_id, range(own, len(response.evidence))))

    def sources(names: Sequence[str]) -> list[str]:
        shown = ("of an earlier turn" if name in earlier else name for name in names)
        return list(dict.fromkeys(shown))

    by_statement = {support.statement_id: support for support in supports}
    entries: list[Json] = []
    for statement in statements:
        support = by_statement.get(statement.id)
        entry: Json = {"text": statement.text, "verdict": ""}
        entry |= {"by": [], "against": [], "quote": ""}
        if support is not None:
            entry["verdict"] = str(support.verdict)
            entry["by"] = sources(support.supported_by)
            entry["against"] = sources(support.contradicted_by)
            entry["quote"] = support.quote or ""
        entries.append(entry)
    return entries


def _contexts(
    sample: Sample, answer: Answer, before: Answer | None, texts: Texts
) -> list[Json]:
    """The contexts of both answers: those of the new one by rank, then those that were
    lost.

    A context is the same one if its text is, or else its id; then `was` is its text in
    the baseline. Each has its ranks, from 1. The evidence is that of `sample`.
    """
    new = texts.first(answer.response.contexts, MAX_CONTEXTS)
    old: Sequence[Context] = ()
    source = answer
    if before is not None and before.response.contexts:
        old = texts.first(before.response.contexts, MAX_CONTEXTS)
        source = before
    evidence = evidence_of(sample, old or new, source.judged)
    with_evidence = _with_evidence(evidence[:_EVIDENCE], (*new, *old))
    use = result_or(answer.judged.context_use, NO_USE)
    useful = {context.context_id: context.useful for context in use.contexts}
    entries: list[Json] = []
    for rank, context in enumerate(new):
        entry = _context(context, with_evidence)
        entry["now"] = rank + 1
        entry["useful"] = useful.get(context_id(rank))
        entries.append(entry)
    new_ranks = _partners(old, new)
    for rank, context in enumerate(old):
        if rank in new_ranks:
            entry = entries[new_ranks[rank]]
        else:
            entry = _context(context, with_evidence)
            entries.append(entry)
        entry["then"] = rank + 1
        if context.text != entry["text"]:
            entry["was"] = context.text
            entry["lost"] = context.text in with_evidence and not entry["evidence"]
    return entries


def _context(context: Context, with_evidence: Set[str]) -> Json:
    return {
        "id": context.id or "",
        "text": context.text,
        "evidence": context.text in with_evidence,
        "now": None,
        "then": None,
        "was": None,
        "lost": False,
        "useful": None,
    }


def _with_evidence(evidence: tuple[str, ...], contexts: Sequence[Context]) -> set[str]:
    """The texts of the contexts that have an evidence text or part of one."""
    heads = tuple(context.text[:MAX_CHARACTERS] for context in contexts)
    texts: set[str] = set()
    for place in locate(evidence, heads):
        texts.update(contexts[rank - 1].text for rank in place.carrier_ranks)
    return texts


def _partners(old: Sequence[Context], new: Sequence[Context]) -> dict[int, int]:
    """The rank in `new` of each context of `old` that is still there, by its text or
    else by its id."""
    partners: dict[int, int] = {}
    for identity in (attrgetter("text"), attrgetter("id")):
        for rank, context in enumerate(old):
            name = identity(context)
            for new_rank, new_context in enumerate(new):
                is_same = name is not None and name == identity(new_context)
                if (
                    is_same
                    and rank not in partners
                    and new_rank not in partners.values()
                ):
                    partners[rank] = new_rank
    return partners
