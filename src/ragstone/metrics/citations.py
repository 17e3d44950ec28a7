"""Citation checks: do the cited ids exist, and do the cited contexts support the sentence?"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from itertools import islice

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.support import digest, holds
from ragstone.judge.sentences import split_sentences
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Context, Response

_BRACKETED = re.compile(r"[\[【]([^\[\]【】\n]{1,80})[\]】](?!\()")
_RANGE = re.compile(r"(\d{1,3})\s*[-–]\s*(\d{1,3})")
_LABEL = re.compile(r"^(?:doc(?:ument)?|source|context|passage|ref|chunk|c)?\s*#?\s*(\d{1,3})$", re.IGNORECASE)
_MAX_IN_RANGE = 20
MAX_BRACKETS = 100
"""Of more distinct brackets in an answer, the first are looked up in the contexts."""
_AFTER_STOP = re.compile(r"([.!?])((?:\s*[\[【][^\[\]【】\n]{1,80}[\]】])+)")


def cited(text: str, contexts: Sequence[Context]) -> list[int | None]:
    """The ranks (from 0) of the contexts that `text` cites, in order; None for a citation of a missing context.

    Recognises ``[1]``, ``[1, 3]``, ``[2-4]``, ``[doc 2]`` with ranks from 1, and ``[the-context-id]``. A bracket with
    neither a number nor a known id is not a citation.
    """
    by_id = {context.id: rank for rank, context in enumerate(contexts) if context.id is not None}
    ranks: list[int | None] = []
    for bracket in _BRACKETED.finditer(text):
        for part in _parts(bracket.group(1), by_id):
            if part in by_id:
                ranks.append(by_id[part])
                continue
            positions = _positions(part)
            ranks += [position - 1 if 1 <= position <= len(contexts) else None for position in positions]
    return ranks


def cites_what_is_there(answer: str, contexts: Sequence[Context]) -> bool | None:
    """Whether each citation in `answer` is the id or a position of one of `contexts`, counted from 1 or from 0.

    None if it cites nothing. A bracket that a context has too is no citation.
    """
    brackets = dict.fromkeys(match.group() for match in _BRACKETED.finditer(answer))
    ids = {context.id for context in contexts if context.id is not None}
    resolved: list[bool] = []
    for bracket in islice(brackets, MAX_BRACKETS):
        if any(bracket in context.text for context in contexts):
            continue
        for part in _parts(bracket[1:-1], ids):
            if part in ids:
                resolved.append(True)
            else:
                resolved += [0 <= position <= len(contexts) for position in _positions(part)]
    if not resolved:
        return None
    return all(resolved)


def _parts(body: str, ids: Container[str]) -> list[str]:
    """What stands between the commas in a bracket; all of it, if that is an id."""
    whole = body.strip()
    if whole in ids:
        return [whole]
    return [part.strip().lstrip("^") for part in re.split(r"[,;]", whole)]


def _positions(part: str) -> list[int]:
    """The positions that a part of a bracket cites, such as ``2-4`` or ``doc 2``."""
    span = _RANGE.fullmatch(part)
    if span:
        first = int(span.group(1))
        last = int(span.group(2))
        if first <= last <= first + _MAX_IN_RANGE:
            return list(range(first, last + 1))
        return []
    label = _LABEL.match(part)
    if not label:
        return []
    return [int(label.group(1))]


class CitationValidity(BaseMetric):
    """Citations of existing contexts ÷ all citations in the answer. Not applicable without citations."""

    info = MetricInfo(
        name="citation_validity",
        version="1",
        blames="generation",
        source="Ragstone: cited ids that are among the contexts",
    )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        ranks = cited(response.answer, response.contexts)
        if not ranks:
            return NotApplicable("the answer cites nothing")
        valid = sum(rank is not None for rank in ranks)
        return Scored(valid / len(ranks))


class CitationSupport(BaseMetric):
    """Sentences supported by a context they cite ÷ all sentences with citations.

    Always uses the offline judge's method, whatever judge is configured, so no call is made. Its version includes that
    method's.
    """

    info = MetricInfo(
        name="citation_support",
        version=f"2-{digest()}",
        blames="generation",
        source="Gao et al. 2023, ALCE, section 3 (citation recall), by lexical support instead of an NLI model",
    )
    texts_needed = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        text = _inside_sentence(normalise(response.answer))
        supported = 0
        total = 0
        for sentence in split_sentences(text, guess_language(text).code):
            ranks = cited(sentence, response.contexts)
            if not ranks:
                continue
            total += 1
            sources = [response.contexts[rank].text for rank in ranks if rank is not None]
            if sources and holds(sources, _BRACKETED.sub("", sentence)):
                supported += 1
        if not total:
            return NotApplicable("no sentence cites anything")
        return Scored(supported / total)


def _inside_sentence(text: str) -> str:
    """`text` with citations after a full stop moved before it, so that they stay with their sentence."""
    return _AFTER_STOP.sub(lambda match: match.group(2) + match.group(1), text)
