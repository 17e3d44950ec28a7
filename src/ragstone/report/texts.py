"""Prepares the texts of one sample, of the run and of its baseline, for the HTML page and
the terminal: without secrets, with every character visible, and cut to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
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
from ragstone.metrics.evidence_ranks import locate
from ragstone.metrics.registry import metric_title
from ragstone.metrics.retrieval_change import evidence_of
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.printable import clean
from ragstone.report.escape import clip
from ragstone.report.filters import PHRASES
from ragstone.report.tracebacks import last_frames
from ragstone.system.response import Context, Response

MAX_CHARACTERS = 10_000
"""Maximum length of one text."""

MAX_ITEMS = 100
"""Maximum length of a list, such as the statements of an answer."""

MAX_CONTEXTS = 30
"""Maximum number of contexts of one answer."""

_MAX_EVIDENCE_TEXTS = 20
"""Maximum number of evidence texts that are looked for in contexts."""

Redact = Callable[[str], str]
Json = dict[str, Any]
Item = TypeVar("Item")


class TextPreparer:
    """Prepares foreign texts: removes secrets, then makes every character visible, then
    cuts."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self.has_cut = False
        """Whether a text or a list was longer than its limit."""

    def prepare(self, value: Any) -> Any:
        """Return `value`, of dicts, lists and tuples, with all of its texts prepared."""
        match value:
            case str():
                text = clean(self._redact(value))
                self.has_cut = self.has_cut or len(text) > MAX_CHARACTERS
                return clip(text, MAX_CHARACTERS)
            case list() | tuple():
                return list(map(self.prepare, self.cut(value, MAX_ITEMS)))
            case dict():
                return {key: self.prepare(item) for key, item in value.items()}
        return value

    def cut(self, items: Sequence[Item], limit: int) -> Sequence[Item]:
        """Return the first `limit` items."""
        self.has_cut = self.has_cut or len(items) > limit
        return items[:limit]


def sample_texts(
    record: SampleRecord, baseline_record: SampleRecord | None, redact: Redact
) -> Json:
    """Return everything that is shown of an opened sample, for report.js and
    sample.txt.j2.

    The answers of both runs are paired in their order. ``cut`` says whether a text or a
    list is longer than it is shown.
    """
    preparer = TextPreparer(redact)
    baseline_answers: Sequence[Answer] = ()
    if baseline_record is not None:
        baseline_answers = baseline_record.answers[: len(record.answers)]
    # Evidence that was lost is that of the baseline's sample.
    sample_of_evidence = (baseline_record or record).sample
    pairs: list[Json] = []
    for answer, baseline_answer in zip_longest(record.answers, baseline_answers):
        pair = {
            "current": _answer_texts(answer, preparer),
            "baseline": None
            if baseline_answer is None
            else _answer_texts(baseline_answer, preparer),
            "contexts": _compare_contexts(
                sample_of_evidence, answer, baseline_answer, preparer
            ),
        }
        pairs.append(pair)
    sample = record.sample
    texts: Json = preparer.prepare(
        {
            "question": sample.question,
            "history": _messages(record),
            "baselineHistory": []
            if baseline_record is None
            else _messages(baseline_record),
            "references": sample.references,
            "unanswerable": not sample.answerable,
            "scores": list(_scores(record, baseline_record)),
            "pairs": pairs,
            "compared": baseline_record is not None,
        }
    )
    return {**texts, "cut": preparer.has_cut}


def _messages(record: SampleRecord) -> list[list[str]]:
    """Return the role and the text of each message before the question."""
    response = record.answers[0].response
    messages = [
        [message.role, message.text]
        for message in response.messages_before(record.sample)
    ]
    if response.so_far is not None and response.so_far.remark is not None:
        messages.append(["note", response.so_far.remark])
    return messages


def _scores(
    record: SampleRecord, baseline_record: SampleRecord | None
) -> Iterator[list[str]]:
    """Yield for each metric its title, the baseline's score, the score, and a remark."""
    baseline_scores: Mapping[str, Score] = (
        {} if baseline_record is None else baseline_record.scores
    )
    for metric, score in record.scores.items():
        remark = score.note if isinstance(score, Scored) else score.reason
        baseline_score = baseline_scores.get(metric)
        yield [
            metric_title(metric),
            "" if baseline_score is None else _score_text(baseline_score),
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


def _answer_texts(answer: Answer, preparer: TextPreparer) -> Json:
    response = answer.response
    steps = preparer.cut(response.steps, MAX_ITEMS)
    failure = response.failure
    judgements = answer.judged
    statements = result_or(judgements.statements, NO_STATEMENTS)
    supports = result_or(judgements.support, NO_SUPPORT).supports
    use = result_or(judgements.context_use, NO_USE)
    texts: Json = {
        "text": response.answer,
        "failure": "",
        "trace": [],
        "standaloneQuestion": judgements.standalone_question or "",
        "abstains": statements.abstains,
        "statements": _statement_texts(statements.statements, supports, response),
        "referenceStatements": _statement_texts(
            use.reference_statements, use.attributions, response
        ),
        "steps": list(map(PHRASES["step_text"], steps)),
    }
    if failure is not None:
        texts["failure"] = f"{failure.kind}: {failure.message}"
        texts["trace"] = last_frames(failure.detail)
    return texts


def _statement_texts(
    statements: Sequence[Statement], supports: Sequence[Support], response: Response
) -> list[Json]:
    """Return each statement with its verdict, the contexts that support or contradict it,
    and the passage that the judge quoted."""
    own_count = len(response.contexts)
    earlier_ids = set(map(context_id, range(own_count, len(response.evidence))))

    def shown_names(context_ids: Sequence[str]) -> list[str]:
        # The contexts of earlier turns are not shown, and so count as one.
        names = (
            "of an earlier turn" if identifier in earlier_ids else identifier
            for identifier in context_ids
        )
        return list(dict.fromkeys(names))

    by_statement = {support.statement_id: support for support in supports}
    entries: list[Json] = []
    for statement in statements:
        support = by_statement.get(statement.id)
        entry: Json = {
            "text": statement.text,
            "verdict": "",
            "supportedBy": [],
            "contradictedBy": [],
            "quote": "",
        }
        if support is not None:
            entry["verdict"] = str(support.verdict)
            entry["supportedBy"] = shown_names(support.supported_by)
            entry["contradictedBy"] = shown_names(support.contradicted_by)
            entry["quote"] = support.quote or ""
        entries.append(entry)
    return entries


def _compare_contexts(
    sample: Sample,
    answer: Answer,
    baseline_answer: Answer | None,
    preparer: TextPreparer,
) -> list[Json]:
    """Return the contexts of both answers: those of `answer` by rank, then those that
    only the baseline has. The evidence is that of `sample`.

    A context with another text but the same id is the same; then ``baselineText`` is its
    text in the baseline.
    """
    contexts = preparer.cut(answer.response.contexts, MAX_CONTEXTS)
    baseline_contexts: Sequence[Context] = ()
    judgements = answer.judged
    if baseline_answer is not None and baseline_answer.response.contexts:
        baseline_contexts = preparer.cut(
            baseline_answer.response.contexts, MAX_CONTEXTS
        )
        judgements = baseline_answer.judged
    evidence = evidence_of(sample, baseline_contexts or contexts, judgements)
    texts_with_evidence = _texts_with_evidence(
        evidence[:_MAX_EVIDENCE_TEXTS], (*contexts, *baseline_contexts)
    )
    use = result_or(answer.judged.context_use, NO_USE)
    useful_by_id = {context.context_id: context.useful for context in use.contexts}
    entries: list[Json] = []
    for position, context in enumerate(contexts):
        entry = _context_entry(context, texts_with_evidence)
        entry["rank"] = position + 1
        entry["useful"] = useful_by_id.get(context_id(position))
        entries.append(entry)
    new_positions = _match_contexts(baseline_contexts, contexts)
    for position, context in enumerate(baseline_contexts):
        if position in new_positions:
            entry = entries[new_positions[position]]
        else:
            entry = _context_entry(context, texts_with_evidence)
            entries.append(entry)
        entry["baselineRank"] = position + 1
        if context.text != entry["text"]:
            had_evidence = context.text in texts_with_evidence
            entry["baselineText"] = context.text
            entry["lostEvidence"] = had_evidence and not entry["hasEvidence"]
    return entries


def _context_entry(context: Context, texts_with_evidence: Set[str]) -> Json:
    return {
        "id": context.id or "",
        "text": context.text,
        "hasEvidence": context.text in texts_with_evidence,
        "rank": None,
        "baselineRank": None,
        "baselineText": None,
        "lostEvidence": False,
        "useful": None,
    }


def _texts_with_evidence(
    evidence: tuple[str, ...], contexts: Sequence[Context]
) -> set[str]:
    """Return the texts of the contexts that have an evidence text or a part of one."""
    beginnings = tuple(context.text[:MAX_CHARACTERS] for context in contexts)
    texts: set[str] = set()
    for place in locate(evidence, beginnings):
        texts.update(contexts[rank - 1].text for rank in place.carrier_ranks)
    return texts


def _match_contexts(
    baseline_contexts: Sequence[Context], contexts: Sequence[Context]
) -> dict[int, int]:
    """Return the position in `contexts` of each of `baseline_contexts` that is still
    there, by its text or else by its id."""
    positions: dict[int, int] = {}
    for attribute in ("text", "id"):
        for baseline_position, baseline_context in enumerate(baseline_contexts):
            identity = getattr(baseline_context, attribute)
            for position, context in enumerate(contexts):
                is_same = identity is not None and identity == getattr(
                    context, attribute
                )
                if (
                    is_same
                    and baseline_position not in positions
                    and position not in positions.values()
                ):
                    positions[baseline_position] = position
    return positions
