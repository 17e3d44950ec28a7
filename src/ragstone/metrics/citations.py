"""Citation checks: do the cited ids exist, and do the cited contexts support the sentence?"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    found: list[int | None] = []
    for bracket in _BRACKETED.finditer(text):
        body = bracket.group(1).strip()
        if body in by_id:
            found.append(by_id[body])
            continue
        for part in (part.strip().lstrip("^") for part in re.split(r"[,;]", body)):
            if part in by_id:
                found.append(by_id[part])
            else:
                found.extend(rank - 1 if 1 <= rank <= len(contexts) else None for rank in _ranks(part))
    return found


def cites_what_is_there(answer: str, contexts: Sequence[Context]) -> bool | None:
    """Whether each citation in `answer` is the id or a position of one of `contexts`, counted from 1 or from 0.

    None if it cites nothing. A bracket that a context has too is no citation.
    """
    brackets = list(islice(dict.fromkeys(match.group() for match in _BRACKETED.finditer(answer)), MAX_BRACKETS))
    own = [bracket for bracket in brackets if not any(bracket in context.text for context in contexts)]
    by_id = {context.id for context in contexts if context.id is not None}
    resolved: list[bool] = []
    for bracket in own:
        body = bracket[1:-1].strip()
        parts = [body] if body in by_id else [part.strip().lstrip("^") for part in re.split(r"[,;]", body)]
        for part in parts:
            if part in by_id:
                resolved.append(True)
            else:
                resolved.extend(0 <= number <= len(contexts) for number in _ranks(part))
    if not resolved:
        return None
    return all(resolved)


def _ranks(part: str) -> list[int]:
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
        found = cited(response.answer, response.contexts)
        if not found:
            return NotApplicable("the answer cites nothing")
        return Scored(sum(rank is not None for rank in found) / len(found))


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
        supported = total = 0
        for sentence in split_sentences(text, guess_language(text).code):
            ranks = cited(sentence, response.contexts)
            if not ranks:
                continue
            total += 1
            sources = [response.contexts[rank].text for rank in ranks if rank is not None]
            supported += bool(sources) and holds(sources, _BRACKETED.sub("", sentence))
        if not total:
            return NotApplicable("no sentence cites anything")
        return Scored(supported / total)


def _inside_sentence(text: str) -> str:
    """`text` with citations after a full stop moved before it, so that they stay with their sentence."""
    return _AFTER_STOP.sub(lambda found: found.group(2) + found.group(1), text)
