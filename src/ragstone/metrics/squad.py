"""Exact match and token F1 against the reference, as SQuAD defines them. Of several
references, the best match counts."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import Score, Scored
from ragstone.system.response import Response

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_normalise(text: str) -> str:
    """`text` in lower case, without ASCII punctuation, English articles and extra white
    space."""
    letters = text.lower().translate(_PUNCTUATION)
    words = _ARTICLES.sub(" ", letters).split()
    return " ".join(words)


def exact_match(answer: str, reference: str) -> float:
    """1 if both are equal after SQuAD's normalisation, else 0."""
    return float(squad_normalise(answer) == squad_normalise(reference))


def token_f1(answer: str, reference: str) -> float:
    """F1 of the two bags of tokens. If one has no tokens, 1 if neither has any, else 0
    (SQuAD 2.0)."""
    answer_tokens = squad_normalise(answer).split()
    reference_tokens = squad_normalise(reference).split()
    if not answer_tokens or not reference_tokens:
        return float(answer_tokens == reference_tokens)
    common = Counter(answer_tokens) & Counter(reference_tokens)
    return 2 * common.total() / (len(answer_tokens) + len(reference_tokens))


class LexicalMatch(BaseMetric):
    """A comparison of answer and reference as strings. Not applicable without a
    reference, or to an unanswerable sample."""

    is_for_answerable_only = True
    needs_reference = True

    def __init__(
        self, name: str, title: str, compare: Callable[[str, str], float]
    ) -> None:
        self.info = MetricInfo(
            name=name,
            version="1",
            title=title,
            blames="generation",
            source="Rajpurkar et al. 2016, SQuAD, section 6.1; official evaluation script 2.0",
            is_in_oracle_round=True,
        )
        self._compare = compare

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        scores = [
            self._compare(response.answer, reference) for reference in sample.references
        ]
        return Scored(max(scores))
