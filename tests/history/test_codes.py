from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.history.codes import MAX_SCORES, compact_scores, decode, encode
from tests.history.seasons import HEADLINE, scores


@given(st.lists(st.floats(0, 1)))
def test_a_score_is_kept_to_a_few_ten_thousandths_and_a_fraction_of_few_verdicts_exactly(values: list[float]) -> None:
    assert decode(encode(values)).tolist() == pytest.approx(values, abs=0.0002)
    fractions = [float(Fraction(right, of)) for of in range(1, 11) for right in range(of + 1)]
    assert decode(encode(fractions)).tolist() == pytest.approx(fractions, abs=1e-15)


def test_a_sample_without_a_score_stays_one_and_what_no_score_is_written_as_is_refused() -> None:
    found = decode(encode([None, 0.0])).tolist()
    assert (math.isnan(found[0]), found[1]) == (True, 0.0)
    for text in ("zzz=", "A", "A===", "AA\xe9\xe9", "AAAA AAA"):
        with pytest.raises(ValueError):  # noqa: PT011 - of base64, of numpy, or of ours
            decode(text)


def test_a_sample_is_another_one_when_its_content_changed() -> None:
    before, after = (compact_scores(scores({"mrr": [1.0, 0.5]}, ids=ids), ["mrr"]) for ids in (("a", "b"), ("a", "c")))
    assert len(set(before.samples.ids) & set(after.samples.ids)) == 1
    assert before.samples.key != after.samples.key


def test_groups_are_kept_and_samples_without_one_stand_alone() -> None:
    codes = compact_scores(scores({"mrr": [1.0] * 4}, groups=2), ["mrr"]).samples.groups
    assert codes is not None
    assert sorted(codes.count(code) for code in set(codes)) == [2, 2]
    assert compact_scores(scores({"mrr": [1.0] * 4}), ["mrr"]).samples.groups is None


@pytest.mark.heavy
def test_of_a_large_run_the_same_part_is_kept_each_time() -> None:
    names = [f"q{index}" for index in range(30_000)]
    one = compact_scores(scores({"a": [0.5] * 30_000, "b": [1.0] * 30_000}, ids=names), ["a", "b"])
    other = compact_scores(scores({"a": [0.1] * 29_990, "b": [1.0] * 29_990}, ids=names[10:]), ["a", "b"])
    kept, again = set(one.samples.ids), set(other.samples.ids)
    assert len(kept) == MAX_SCORES // 2
    assert len(kept & again) >= MAX_SCORES // 2 - 10


def test_ten_thousand_scores_are_kept_whole() -> None:
    large = compact_scores(scores({name: [0.5] * 10_000 for name in HEADLINE}), HEADLINE)
    assert [len(decode(text)) for text in large.scores.values()] == [10_000] * len(HEADLINE)
