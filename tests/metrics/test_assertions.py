"""What the assertions of golden rows score."""

from __future__ import annotations

import pytest

from ragstone.golden.sample import Assertion, Assertions, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.assertions import AssertionsMetric
from ragstone.metrics.score import NotApplicable, Scored
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
    ("kind", "values", "holds", "fails"),
    [
        ("contains", ("30 Days",), "Within 30 Days.", "Within 30 days."),
        ("icontains", ("30 Days",), "within 30 days", "within 30  days"),
        ("contains-any", ("refund", "voucher"), "a voucher", "a Voucher"),
        ("contains-all", ("30", "days"), "days: 30", "30 Days"),
        ("icontains-any", ("REFUND", "a, b"), "A, B", "a b"),
        ("icontains-all", ("Refund", "30"), "30: refund", "refund"),
        ("equals", ("42",), "42", "42."),
        ("starts-with", ("Yes",), "Yes, it is.", "yes"),
        ("regex", (r"\b\d+ days\b",), "in 30 days", "in thirty days"),
        ("is-json", (), '{"days": 30}', "{days: 30}"),
        ("is-json", (), "[null]", "[NaN]"),
    ],
)
def test_the_assertions_of_promptfoo(kind: str, values: tuple[str, ...], holds: str, fails: str) -> None:
    plain, negated = (Assertions(typed=(Assertion(name, values),)) for name in (kind, f"not-{kind}"))
    shown = "".join(f" '{one}'" for one in values)
    assert (score(plain, holds), score(plain, fails)) == (Scored(1.0), Scored(0.0, f"not {kind}{shown}"))
    assert (score(negated, fails), score(negated, holds)) == (Scored(1.0), Scored(0.0, f"{kind}{shown}"))


def test_a_sample_without_assertions_is_not_applicable() -> None:
    assert isinstance(score(None, "x"), NotApplicable)
    assert AssertionsMetric().excuse(Sample("a", "Q?")) is not None


def test_no_pattern_takes_more_than_linear_time() -> None:
    """With a backtracking engine, none of these would end within the test's lifetime."""
    for pattern in (r"(a+)+$", r"(a|aa)+$", r"(.*)*x", r"(?:a?){30}a{30}$"):
        assert score(Assertions(regex=(pattern,)), "a" * 50_000 + "b") == Scored(0.0, f"does not match '{pattern}'")
