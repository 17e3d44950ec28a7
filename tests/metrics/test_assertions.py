"""What the assertions of golden rows score."""

from __future__ import annotations

import pytest

from ragstone.golden.sample import Assertion, Assertions, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.assertions import AssertionsMetric
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.system.response import Response


def score(asserted: Assertions | None, answer: str) -> object:
    return AssertionsMetric().score(Sample("a", "Q?", assertions=asserted), Response("a", answer), Judgements())


def test_each_phrase_pattern_and_limit_counts_as_one() -> None:
    asserted = Assertions(("30  Days", "refund"), ("sixty",), (r"\b30\b",), 6)
    assert score(asserted, "Within 30 days: a full REFUND.") == Scored(1.0)
    assert score(asserted, "Within 30 days.") == Scored(0.8, "lacks 'refund'")
    none = score(asserted, "Within sixty days, or not, I think.")
    assert isinstance(none, Scored)
    assert (none.value, "contains 'sixty'" in str(none.note)) == (0.0, True)


@pytest.mark.parametrize(
    ("kind", "values", "holds", "fails", "note", "negated_note"),
    [
        ("contains", ("30 Days",), "Within 30 Days.", "Within 30 days.", "lacks '30 Days'", "contains '30 Days'"),
        ("icontains", ("30 Days",), "within 30 days", "within 30  days", "lacks '30 Days'", "contains '30 Days'"),
        ("contains-any", ("a", "b"), "a", "A", "lacks all of 'a', 'b'", "contains one of 'a', 'b'"),
        ("contains-all", ("30", "a"), "a: 30", "30", "lacks one of '30', 'a'", "contains all of '30', 'a'"),
        ("icontains-any", ("A", "b, c"), "B, C", "b c", "lacks all of 'A', 'b, c'", "contains one of 'A', 'b, c'"),
        ("icontains-all", ("A", "30"), "30: a", "a", "lacks one of 'A', '30'", "contains all of 'A', '30'"),
        ("equals", ("42",), "42", "42.", "does not equal '42'", "equals '42'"),
        ("starts-with", ("Yes",), "Yes, it is.", "yes", "does not start with 'Yes'", "starts with 'Yes'"),
        ("regex", (r"\b\d+ d",), "in 30 days", "in a day", r"does not match '\b\d+ d'", r"matches '\b\d+ d'"),
        ("is-json", (), '{"days": 30}', "{days: 30}", "is not JSON", "is JSON"),
        ("is-json", (), "[null]", "[NaN]", "is not JSON", "is JSON"),
    ],
)
def test_the_assertions_of_promptfoo(
    kind: str, values: tuple[str, ...], holds: str, fails: str, note: str, negated_note: str
) -> None:
    plain, negated = (Assertions(typed=(Assertion(name, values),)) for name in (kind, f"not-{kind}"))
    assert (score(plain, holds), score(plain, fails)) == (Scored(1.0), Scored(0.0, note))
    assert (score(negated, fails), score(negated, holds)) == (Scored(1.0), Scored(0.0, negated_note))


def test_what_can_not_be_checked_fails_with_the_reason() -> None:
    unknown = score(Assertions(typed=(Assertion("levenshtein", ("a",)),)), "a")
    assert unknown == Failed("function", "unknown type of assertion 'levenshtein'")
    unreadable = score(Assertions(regex=("(?<=a)b",)), "ab")
    assert isinstance(unreadable, Failed)
    assert unreadable.reason.startswith("'(?<=a)b' is not an RE2 pattern: ")


def test_a_sample_without_assertions_is_not_applicable() -> None:
    assert isinstance(score(None, "x"), NotApplicable)
    assert AssertionsMetric().why_not_applicable(Sample("a", "Q?")) is not None


def test_no_pattern_takes_more_than_linear_time() -> None:
    """With a backtracking engine, none of these would end within the test's lifetime."""
    for pattern in (r"(a+)+$", r"(a|aa)+$", r"(.*)*x", r"(?:a?){30}a{30}$"):
        assert score(Assertions(regex=(pattern,)), "a" * 50_000 + "b") == Scored(0.0, f"does not match '{pattern}'")
