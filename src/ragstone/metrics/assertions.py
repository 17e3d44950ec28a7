"""Assertions of a golden row: phrases that an answer must and must not contain,
patterns, and its length."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from ragstone.formatting import clipped, counted, some
from ragstone.golden.formats.json_text import STRICT, NotJsonError, decode
from ragstone.golden.patterns import compile_pattern
from ragstone.golden.sample import Assertion, Assertions, Label, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.limits import word_count
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

_SHOWN = 60


class AssertionsMetric(BaseMetric):
    """Assertions that hold ÷ all assertions of the sample; the note lists those that do
    not.

    Phrases are compared without regard to case and white space, patterns are searched
    as they are. Assertions with a type hold where those of promptfoo do: they compare
    texts as they are written.
    """

    info = MetricInfo(
        name="assertions",
        version="1",
        blames="both",
        source="Ragstone: share of the sample's assertions that hold",
        divides=True,
    )

    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"assertions"})

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if sample.assertions is None:
            return NotApplicable("the sample has no assertions")
        return None

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        assertions = sample.assertions or Assertions()
        try:
            results = list(_checked(assertions, response.answer))
        except ValueError as error:  # a pattern that did not come from a golden file
            return Failed("function", f"not an RE2 pattern: {error}")
        if not results:
            return NotApplicable("the sample has no assertions")
        wrong = [text for holds, text in results if not holds]
        note = None
        if wrong:
            note = some(wrong)
        return Scored(1.0 - len(wrong) / len(results), note=note)


def _checked(assertions: Assertions, answer: str) -> Iterator[tuple[bool, str]]:
    """Each assertion: whether it holds, and what is wrong if it doesn't."""
    flat = _flat(answer)
    for phrase in assertions.must_contain:
        yield _flat(phrase) in flat, f"lacks '{clipped(phrase, _SHOWN)}'"
    for phrase in assertions.must_not_contain:
        yield _flat(phrase) not in flat, f"contains '{clipped(phrase, _SHOWN)}'"
    for pattern in assertions.regex:
        yield (
            compile_pattern(pattern).search(answer) is not None,
            f"does not match '{clipped(pattern, _SHOWN)}'",
        )
    if assertions.max_words is not None:
        words = word_count(answer)
        yield (
            words <= assertions.max_words,
            f"has {counted(words, 'word')}, at most {assertions.max_words} are allowed",
        )
    for assertion in assertions.typed:
        wrong = f"not {assertion.type}".removeprefix("not not-")
        values = [f"'{value}'" for value in assertion.values]
        reason = " ".join((wrong, *values))
        yield _holds(assertion, answer), clipped(reason, _SHOWN)


_HOLDS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "icontains": lambda answer, text: text.lower() in answer.lower(),
    "equals": operator.eq,
    "starts-with": str.startswith,
    "regex": lambda answer, pattern: (
        compile_pattern(pattern).search(answer) is not None
    ),
}


def _holds(assertion: Assertion, answer: str) -> bool:
    kind = assertion.type.removeprefix("not-")
    check = _HOLDS.get(kind.removesuffix("-any").removesuffix("-all"))
    results = [_is_json(answer)]
    if check is not None:
        results = [check(answer, value) for value in assertion.values]
    holds = any(results) if kind.endswith("-any") else all(results)
    is_negated = kind != assertion.type
    return holds is not is_negated


def _is_json(answer: str) -> bool:
    try:
        decode(answer, STRICT)
    except NotJsonError:
        return False
    return True


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()
