"""Latency, length and steps as scores: the share of answers within a limit, gated like
any other metric."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import NO_STEPS, Response

_NAME = re.compile(
    r"(latency_within|words_within|contexts_within|steps_within)@(\d{1,5}(?:\.\d{1,3})?)"
)
_TITLES = {
    "latency_within": "Answers within {} s",
    "words_within": "Answers within {} words",
    "contexts_within": "Retrieved text within {} words",
    "steps_within": "Answers within {} steps",
}
USUAL_LIMITS = (
    "latency_within@5",
    "words_within@200",
    "contexts_within@2000",
    "steps_within@10",
)


class LimitMetric(BaseMetric):
    """1 if the answer is within the limit, else 0, so that the mean is the share of
    answers within it."""

    def __init__(
        self,
        name: str,
        title: str,
        limit: float,
        measure: Callable[[Response], float | None],
    ) -> None:
        self.info = MetricInfo(
            name=name,
            version="1",
            title=title,
            blames="retrieval" if name.startswith("contexts") else "both",
            source="Ragstone: share of answers within a limit",
            answerless=not name.startswith("words"),
        )
        self._limit = limit
        self._measure = measure

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if (
            self.info.blames == "retrieval"
            and response.missing_texts_reason is not None
        ):
            return NotApplicable(response.missing_texts_reason)
        if self.info.name.startswith("steps") and not response.steps:
            return NotApplicable(NO_STEPS)
        measured = self._measure(response)
        if measured is None:
            return NotApplicable("the answer was recorded without a latency")
        return Scored(float(measured <= self._limit), note=f"{measured:g}")


def limit_metric(name: str) -> LimitMetric | None:
    """``latency_within@SECONDS``, ``words_within@WORDS``, ``contexts_within@WORDS`` or
    ``steps_within@STEPS``; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    kind, limit = match.groups()
    return LimitMetric(name, _TITLES[kind].format(limit), float(limit), _MEASURES[kind])


def usual_limit_metrics() -> Iterator[LimitMetric]:
    """The listed limits; other numbers are available by name."""
    return filter(None, map(limit_metric, USUAL_LIMITS))


def word_count(text: str) -> int:
    """Number of words separated by white space; in scripts without spaces, two
    characters count as a word."""
    unspaced = len(re.findall(_UNSPACED, text))
    spaced = re.sub(_UNSPACED, " ", text).split()
    return len(spaced) + (unspaced + 1) // 2


_UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
_MEASURES: dict[str, Callable[[Response], float | None]] = {
    "latency_within": lambda response: response.latency_s,
    "words_within": lambda response: float(word_count(response.answer)),
    "contexts_within": lambda response: float(
        sum(word_count(context.text) for context in response.contexts)
    ),
    "steps_within": lambda response: float(len(response.steps)),
}
