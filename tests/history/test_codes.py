from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.history.codes import MAX_SCORES, compact, decode, encode, fits, group_codes, sample_codes
from tests.history.seasons import HEADLINE, scores


@given(st.floats(0, 1))
def test_a_score_is_kept_to_a_few_ten_thousandths_and_a_fraction_of_few_verdicts_exactly(value: float) -> None:
    assert decode(encode(value)).tolist() == [pytest.approx(value, abs=0.0002)]
    for of in range(1, 11):
        fraction = float(Fraction(round(value * of), of))
        assert decode(encode(fraction)).tolist() == [pytest.approx(fraction, abs=1e-15)]


def test_a_sample_without_a_score_stays_one_and_what_no_score_is_written_as_is_refused() -> None:
    found = decode(encode(None) + encode(0.0)).tolist()
    assert (math.isnan(found[0]), found[1]) == (True, 0.0)
    for codes in ("_A", "A", "A=", "AA\xe9\xe9"):
        with pytest.raises(ValueError, match="not valid scores"):
            decode(codes)


def test_a_sample_is_another_one_when_its_content_changed() -> None:
    before, after = (compact(scores({"mrr": [1.0, 0.5]}, ids=ids), ["mrr"]) for ids in (("a", "b"), ("a", "c")))
    assert len(set(sample_codes(before.samples)) & set(sample_codes(after.samples))) == 1
    assert before.samples.key != after.samples.key


def test_groups_are_kept_and_samples_without_one_stand_alone() -> None:
    codes = group_codes(compact(scores({"mrr": [1.0] * 4}, groups=2), ["mrr"]).samples)
    assert codes is not None
    assert sorted(codes.count(code) for code in set(codes)) == [2, 2]
    assert group_codes(compact(scores({"mrr": [1.0] * 4}), ["mrr"]).samples) is None


@pytest.mark.heavy
def test_of_a_large_run_the_same_part_is_kept_each_time() -> None:
    names = [f"q{index}" for index in range(30_000)]
    one = compact(scores({"a": [0.5] * 30_000, "b": [1.0] * 30_000}, ids=names), ["a", "b"])
    other = compact(scores({"a": [0.1] * 29_990, "b": [1.0] * 29_990}, ids=names[10:]), ["a", "b"])
    kept, again = set(sample_codes(one.samples)), set(sample_codes(other.samples))
    assert len(kept) == MAX_SCORES // 2
    assert len(kept & again) >= MAX_SCORES // 2 - 10


def test_scores_must_fit_their_samples_and_ten_thousand_are_kept_whole() -> None:
    found = compact(scores({"a": [0.5, 1.0, None]}), ["a"])
    assert fits(found.samples, found.scores.values())
    assert not fits(found.samples, [found.scores["a"][:-2]])
    assert not fits(found.samples, ["zzzzzz"])
    large = compact(scores({name: [0.5] * 10_000 for name in HEADLINE}), HEADLINE)
    assert all(len(codes) == 20_000 for codes in large.scores.values())
