"""Limits on latency, length and steps as metrics: the mean score is the share of answers
within the limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.metric import BaseMetric, Blames, MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import NO_STEPS, Response

_NAME_PATTERN = re.compile(
    r"(latency_within|words_within|contexts_within|steps_within)@(\d{1,5}(?:\.\d{1,3})?)"
)

_LISTED_NAMES = (
    "latency_within@5",
    "words_within@200",
    "contexts_within@2000",
    "steps_within@10",
)
"""The limits that are listed among the metrics; other numbers are available by name."""


class _Quantity(Struct, frozen=True):
    """What is limited."""

    title: str
    """The title of the metric, with a place for the limit."""
    measure: Callable[[Response], float | None]
    """Measures a response; None if the quantity was not recorded."""
    not_recorded: str = ""
    """The reason for no score if the quantity was not recorded."""
    blames: Blames = "both"
    needs_no_answer: bool = True


class LimitMetric(BaseMetric):
    """1 if the answer is within the limit, else 0."""

    def __init__(self, name: str, quantity: _Quantity, limit: str) -> None:
        self.info = MetricInfo(
            name=name,
            version="1",
            title=quantity.title.format(limit),
            blames=quantity.blames,
            source="Ragstone: share of answers within a limit",
            needs_no_answer=quantity.needs_no_answer,
        )
        self._limit = float(limit)
        self._quantity = quantity

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        # Without recorded contexts, an answer would be within any limit.
        if (
            self.info.blames == "retrieval"
            and response.missing_texts_reason is not None
        ):
            return NotApplicable(response.missing_texts_reason)
        measured = self._quantity.measure(response)
        if measured is None:
            return NotApplicable(self._quantity.not_recorded)
        return Scored(float(measured <= self._limit), note=f"{measured:g}")


def limit_metric(name: str) -> LimitMetric | None:
    """The metric called ``latency_within@SECONDS``, ``words_within@WORDS``,
    ``contexts_within@WORDS`` or ``steps_within@STEPS``; None for any other name."""
    match = _NAME_PATTERN.fullmatch(name)
    if match is None:
        return None
    quantity, limit = match.groups()
    return LimitMetric(name, _QUANTITIES[quantity], limit)


def usual_limit_metrics() -> Iterator[LimitMetric]:
    """The listed limits."""
    return filter(None, map(limit_metric, _LISTED_NAMES))


def word_count(text: str) -> int:
    """The number of words, separated by white space; in scripts without spaces, two
    characters count as a word."""
    unspaced_characters = len(re.findall(_UNSPACED, text))
    spaced_words = re.sub(_UNSPACED, " ", text).split()
    return len(spaced_words) + (unspaced_characters + 1) // 2


_UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
"""Letters of scripts without spaces between words."""


def _words_of_contexts(response: Response) -> float:
    return float(sum(word_count(context.text) for context in response.contexts))


def _count_steps(response: Response) -> float | None:
    """The number of steps; None if no steps were recorded."""
    return float(len(response.steps)) or None


_QUANTITIES: Mapping[str, _Quantity] = {
    "latency_within": _Quantity(
        "Answers within {} s",
        lambda response: response.latency_s,
        not_recorded="the answer was recorded without a latency",
    ),
    "words_within": _Quantity(
        "Answers within {} words",
        lambda response: float(word_count(response.answer)),
        needs_no_answer=False,
    ),
    "contexts_within": _Quantity(
        "Retrieved text within {} words", _words_of_contexts, blames="retrieval"
    ),
    "steps_within": _Quantity(
        "Answers within {} steps", _count_steps, not_recorded=NO_STEPS
    ),
}
