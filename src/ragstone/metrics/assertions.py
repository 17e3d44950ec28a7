"""Assertions of a golden row: phrases that an answer must and must not contain,
patterns, and its length."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from ragstone.formatting import clipped, counted, join_first
from ragstone.golden.formats.json_text import STRICT, NotJsonError, decode
from ragstone.golden.patterns import compile_pattern
from ragstone.golden.sample import Assertion, Assertions, Label, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.limits import word_count
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import Response

_MAX_SHOWN_CHARACTERS = 60
"""A longer phrase or pattern is cut in the note."""


class AssertionsMetric(BaseMetric):
    """Assertions that hold ÷ all assertions of the sample. The note lists those that
    don't.

    Phrases are compared without regard to case and white space; patterns are searched
    as they are. Assertions with a type hold where those of promptfoo do, which compare
    texts as they are written.
    """

    info = MetricInfo(
        name="assertions",
        version="1",
        blames="both",
        source="Ragstone: share of the sample's assertions that hold",
        is_in_oracle_round=True,
    )

    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"assertions"})

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        if sample.assertions is None:
            return NotApplicable("the sample has no assertions")
        return None

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        assertions = sample.assertions or Assertions()
        try:
            results = list(_check(assertions, response.answer))
        except ValueError as error:
            return Failed("function", str(error))
        if not results:
            return NotApplicable("the sample has no assertions")
        mistakes = [result.mistake for result in results if not result.holds]
        note = join_first(mistakes) if mistakes else None
        return Scored(1.0 - len(mistakes) / len(results), note=note)


class _Result(Struct, frozen=True):
    """Whether an assertion holds."""

    holds: bool
    mistake: str
    """What is wrong with the answer if it doesn't: ``lacks 'one year'``."""


def _check(assertions: Assertions, answer: str) -> Iterator[_Result]:
    """Check each assertion.

    Raises ValueError, with the reason, for an unknown type or a pattern that RE2 can't
    read: a golden file has none, but a sample may come from elsewhere.
    """
    flat_answer = _flatten(answer)
    for phrase in assertions.must_contain:
        holds = _flatten(phrase) in flat_answer
        yield _Result(holds, f"lacks {_quote(phrase)}")
    for phrase in assertions.must_not_contain:
        holds = _flatten(phrase) not in flat_answer
        yield _Result(holds, f"contains {_quote(phrase)}")
    for pattern in assertions.regex:
        yield _Result(_matches(answer, pattern), f"does not match {_quote(pattern)}")
    if assertions.max_words is not None:
        words = word_count(answer)
        limit = f"at most {assertions.max_words} are allowed"
        mistake = f"has {counted(words, 'word')}, {limit}"
        yield _Result(words <= assertions.max_words, mistake)
    for assertion in assertions.typed:
        yield _check_typed(assertion, answer)


def _matches(answer: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(answer) is not None
    except ValueError as error:
        raise ValueError(f"'{pattern}' is not an RE2 pattern: {error}") from None


_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "icontains": lambda answer, text: text.lower() in answer.lower(),
    "equals": operator.eq,
    "starts-with": str.startswith,
    "regex": _matches,
    "is-json": lambda answer, _: _is_json(answer),
}
"""Whether an answer passes with a value, by the type of an assertion without ``not-``,
``-any`` and ``-all``."""

_MISTAKES: Mapping[str, str] = {
    "contains": "lacks",
    "contains-any": "lacks all of",
    "contains-all": "lacks one of",
    "icontains": "lacks",
    "icontains-any": "lacks all of",
    "icontains-all": "lacks one of",
    "equals": "does not equal",
    "starts-with": "does not start with",
    "regex": "does not match",
    "is-json": "is not JSON",
    "not-contains": "contains",
    "not-contains-any": "contains one of",
    "not-contains-all": "contains all of",
    "not-icontains": "contains",
    "not-icontains-any": "contains one of",
    "not-icontains-all": "contains all of",
    "not-equals": "equals",
    "not-starts-with": "starts with",
    "not-regex": "matches",
    "not-is-json": "is JSON",
}
"""What is wrong with an answer, by the type of the assertion that does not hold; the
values follow."""


def _check_typed(assertion: Assertion, answer: str) -> _Result:
    """Check an assertion with a type of promptfoo."""
    if assertion.type not in _MISTAKES:
        raise ValueError(f"unknown type of assertion '{assertion.type}'")
    kind = assertion.type.removeprefix("not-")
    is_negated = kind != assertion.type
    passes = _TESTS[kind.removesuffix("-any").removesuffix("-all")]
    # JSON is tested without a value.
    results = [passes(answer, value) for value in assertion.values or ("",)]
    is_passed = any(results) if kind.endswith("-any") else all(results)
    values = ", ".join(f"'{value}'" for value in assertion.values)
    mistake = f"{_MISTAKES[assertion.type]} {values}".rstrip()
    shown_mistake = clipped(mistake, _MAX_SHOWN_CHARACTERS)
    return _Result(is_passed != is_negated, shown_mistake)


def _is_json(answer: str) -> bool:
    try:
        decode(answer, STRICT)
    except NotJsonError:
        return False
    return True


def _quote(text: str) -> str:
    return f"'{clipped(text, _MAX_SHOWN_CHARACTERS)}'"


def _flatten(text: str) -> str:
    return " ".join(text.split()).casefold()
