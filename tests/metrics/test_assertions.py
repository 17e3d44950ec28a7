"""Assertions of golden rows: how they are read, and what they score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.convert import native_lines
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Assertions, Sample
from ragstone.judge.judgements import Judgements
from ragstone.metrics.assertions import AssertionsMetric
from ragstone.metrics.score import NotApplicable, Scored
from ragstone.system.response import Response


def load(path: Path, **row: object) -> Sample:
    (path / "g.jsonl").write_text(json.dumps({"question": "How long?", **row}) + "\n", encoding="utf-8")
    (sample,) = load_golden_set(["g.jsonl"], root=path)
    return sample


def score(asserted: Assertions | None, answer: str) -> object:
    return AssertionsMetric().score(Sample("a", "Q?", assertions=asserted), Response("a", answer), Judgements())


def test_the_columns_of_a_row(tmp_path: Path) -> None:
    sample = load(
        tmp_path, must_contain=["30 days", "refund"], must_not_contain="60 days", regex="a|[0-9]+", max_words=80
    )
    expected = Assertions(("30 days", "refund"), ("60 days",), ("a|[0-9]+",), 80)
    assert sample.assertions == expected
    (line,) = native_lines([sample])
    assert load(tmp_path, **json.loads(line)).assertions == expected


def test_a_table_can_have_several_phrases_in_a_cell(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(
        'question,must_contain,regex,max_words\nHow long?,30 days | refund,"a|b",\nWhy?,,,\n', encoding="utf-8"
    )
    first, second = load_golden_set(["g.csv"], root=tmp_path)
    assert first.assertions == Assertions(("30 days", "refund"), (), ("a|b",))
    assert second.assertions is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"regex": "("}, "not an RE2 pattern"),
        ({"regex": "(?=look)"}, "not an RE2 pattern"),
        ({"regex": "((a{1000}){1000}){1000}"}, "not an RE2 pattern"),
        ({"regex": "a" * 2000}, "at most 1,000"),
        ({"max_words": 0}, "expected a whole number of at least 1"),
        ({"max_words": "many"}, "expected a whole number of at least 1"),
        ({"max_words": True}, "expected a whole number of at least 1"),
        ({"must_contai": "x"}, "misspelt 'must_contain'"),
        ({"max_wrds": 3}, "misspelt 'max_words'"),
    ],
)
def test_a_wrong_assertion_is_refused_with_its_line(tmp_path: Path, row: dict[str, object], said: str) -> None:
    with pytest.raises(GoldenSetError, match=r"g\.jsonl") as caught:
        load(tmp_path, **row)
    assert said in str(caught.value)


def test_each_phrase_pattern_and_limit_counts_as_one() -> None:
    asserted = Assertions(("30  Days", "refund"), ("sixty",), (r"\b30\b",), 6)
    assert score(asserted, "Within 30 days: a full REFUND.") == Scored(1.0)
    none = score(asserted, "Within sixty days, or not, I think.")
    assert isinstance(none, Scored)
    assert none.value == 0.0
    assert none.note is not None
    assert "contains 'sixty'" in none.note
    found = score(asserted, "Within 30 days.")
    assert found == Scored(0.8, "lacks 'refund'")


@pytest.mark.parametrize(
    ("kind", "value", "holds", "fails"),
    [
        ("contains", "30 Days", "Within 30 Days.", "Within 30 days."),
        ("icontains", "30 Days", "within 30 days", "within 30  days"),
        ("contains-any", ["refund", "voucher"], "a voucher", "a Voucher"),
        ("contains-all", "30, days", "days: 30", "30 Days"),
        ("icontains-any", 'REFUND, "a, b"', "A, B", "a b"),
        ("icontains-all", ["Refund", "30"], "30: refund", "refund"),
        ("equals", 42, "42", "42."),
        ("starts-with", "Yes", "Yes, it is.", "yes"),
        ("regex", r"\b\d+ days\b", "in 30 days", "in thirty days"),
        ("is-json", None, '{"days": 30}', "{days: 30}"),
        ("is-json", None, "[null]", "[NaN]"),
        ("contains", True, "it is true", "it is True"),
    ],
)
def test_the_assertions_of_promptfoo(tmp_path: Path, kind: str, value: object, holds: str, fails: str) -> None:
    row = {} if value is None else {"value": value}
    sample = load(tmp_path, **{"assert": [{"type": kind, **row}, {"type": f"not-{kind}", "metric": "label", **row}]})
    (line,) = native_lines([sample])
    assert load(tmp_path, **json.loads(line)).assertions == sample.assertions
    assert sample.assertions is not None
    plain, negated = (Assertions(typed=(one,)) for one in sample.assertions.typed)
    values = "".join(f" '{one}'" for one in plain.typed[0].values)
    assert (score(plain, holds), score(plain, fails)) == (Scored(1.0), Scored(0.0, f"not {kind}{values}"))
    assert (score(negated, fails), score(negated, holds)) == (Scored(1.0), Scored(0.0, f"{kind}{values}"))


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ({"type": "javascript", "value": "output"}, "type 'javascript', which is not checked here: use a function"),
        ({"type": "not-llm-rubric", "value": "rude"}, "use a rubric: [metrics.NAME]"),
        ({"type": "context-recall", "value": "x", "threshold": 0.8}, "as reference, and min = {context_recall"),
        ({"type": "contain", "value": "x"}, "type 'contain', which is not checked here: Did you mean 'contains'?"),
        ({"type": "contains", "value": "x", "transform": "output.a"}, "with 'transform', which is not supported"),
        ({"type": "contains", "value": ["x", "y"]}, "expected a text"),
        ({"type": "contains-any"}, "as the value of 'contains-any'"),
        ({"type": "contains-any", "value": "a\nb, c"}, "new-line character"),
        ({"type": "is-json", "value": {"type": "object"}}, "expected"),
        ({"type": "regex", "value": "(?=x)"}, "not an RE2 pattern"),
        ({"value": "x"}, "expected a list of objects such as"),
        ("x", "expected a list of objects such as"),
    ],
)
def test_an_assertion_that_can_not_be_checked_is_refused_by_name(tmp_path: Path, assertion: object, said: str) -> None:
    with pytest.raises(GoldenSetError, match=r"g\.jsonl:1: column 'assert'") as caught:
        load(tmp_path, **{"assert": [assertion]})
    assert said in str(caught.value)


def test_a_sample_without_assertions_is_not_applicable() -> None:
    assert isinstance(score(None, "x"), NotApplicable)
    assert AssertionsMetric().excuse(Sample("a", "Q?")) is not None


def test_no_pattern_takes_more_than_linear_time() -> None:
    """With a backtracking engine, none of these would end within the test's lifetime."""
    for pattern in (r"(a+)+$", r"(a|aa)+$", r"(.*)*x", r"(?:a?){30}a{30}$"):
        assert score(Assertions(regex=(pattern,)), "a" * 50_000 + "b") == Scored(0.0, f"does not match '{pattern}'")
