"""Which samples a shard has, and how its places and its share of the limits are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.config.settings import JudgeSettings, RunSettings
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.run.shards import Shard, decode_places, encode_places, shard_number
from tests.run.builders import samples


@given(st.lists(st.text(min_size=1), unique=True, max_size=60), st.integers(1, 12))
def test_every_sample_is_in_exactly_one_shard(ids: list[str], of: int) -> None:
    golden = GoldenSet(tuple(Sample(name, f"{name}?") for name in ids))
    parts = [Shard(number, of).part(golden) for number in range(1, of + 1)]
    assert sorted(sample.id for part in parts for sample in part) == sorted(ids)


def test_a_sample_stays_in_its_shard_whatever_else_is_in_the_golden_set() -> None:
    few, many = samples(10), samples(200)
    for number in range(1, 5):
        found = {sample.id for sample in Shard(number, 4).part(many)}
        assert {sample.id for sample in Shard(number, 4).part(few)} == {s.id for s in few if s.id in found}


def test_the_shard_of_a_sample_is_the_same_in_every_version() -> None:
    # A re-run of one shard with a later version must not leave a gap.
    assert [shard_number(Sample(f"q{n}", "?"), 8) for n in range(8)] == [4, 1, 8, 7, 2, 3, 5, 3]
    assert shard_number(Sample("q1", "?", group="g"), 8) == shard_number(Sample("other", "?", group="g"), 8)


def test_groups_stay_together() -> None:
    golden = GoldenSet(tuple(replace(sample, group=f"g{n % 20}") for n, sample in enumerate(samples(200))))
    for number in range(1, 6):
        groups = {sample.group for sample in Shard(number, 5).part(golden)}
        assert sum(sample.group in groups for sample in golden) == len(Shard(number, 5).part(golden))


@given(st.sets(st.integers(0, 10_000)))
def test_places_come_back(places: set[int]) -> None:
    assert list(decode_places(encode_places(sorted(places)))) == sorted(places)


@pytest.mark.parametrize("text", ["0 0", "3 1 0", "-1", "1 -1"])
def test_places_that_do_not_ascend_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ascend"):
        list(decode_places(text))


def test_budget_and_limits_are_divided() -> None:
    whole = JudgeSettings(max_cost_usd=2.0, requests_per_minute=100, tokens_per_minute=3)
    share = Shard(3, 8).share(whole)
    assert (share.max_cost_usd, share.requests_per_minute, share.tokens_per_minute) == (0.25, 12, 1)
    assert Shard(1, 2).share(JudgeSettings()) == JudgeSettings()


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/257", "1", "a/b", "1/0", "-1/2", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="K/N"):
        RunSettings(shard=text)


def test_a_shard_is_written_in_one_way() -> None:
    assert RunSettings(shard=" 3 / 08").shard == "3/8"
