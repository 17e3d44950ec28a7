"""Parts and samples of a golden set that have its mix of tags."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.golden.sample import Sample
from ragstone.tools.generate.golden.subsets import draw, split, strata_of


def make(n: int, seed: int = 0, groups: int | None = None) -> list[Sample]:
    rng = random.Random(seed)
    return [
        Sample(
            f"s{i}",
            f"Question {i}?",
            reference="Yes.",
            tags=tuple(tag for tag, share in (("fact", 0.6), ("howto", 0.3), ("rare", 0.03)) if rng.random() < share),
            answerable=rng.random() > 0.15,
            group=None if groups is None else f"g{rng.randrange(groups)}",
        )
        for i in range(n)
    ]


def shares_of(samples: Iterable[Sample]) -> Counter[str]:
    """How many samples each kind and tag has."""
    return Counter(label for sample in samples for label in strata_of(sample))


def test_parts_have_the_stated_shares_of_every_tag_and_kind() -> None:
    samples = make(400)
    parts = split(samples, {"dev": 0.25, "test": 0.75})
    assert sorted(one.id for part in parts.values() for one in part) == sorted(one.id for one in samples)
    whole, dev = shares_of(samples), shares_of(parts["dev"])
    assert len(parts["dev"]) == pytest.approx(100, abs=2)
    for label, count in whole.items():
        assert dev[label] == pytest.approx(0.25 * count, abs=1.5), label


@settings(max_examples=40)
@given(st.integers(2, 120), st.integers(1, 30), st.integers(0, 5))
def test_groups_are_never_divided(n: int, groups: int, seed: int) -> None:
    parts = split(make(n, groups=groups), {"a": 0.5, "b": 0.3, "c": 0.2}, seed=seed)
    assert sum(len(part) for part in parts.values()) == n
    homes = {(one.group, name) for name, part in parts.items() for one in part}
    assert max(Counter(group for group, _ in homes).values()) == 1


def test_a_set_that_has_grown_is_divided_without_moving_a_sample() -> None:
    samples = make(300, groups=120)
    shares = {"dev": 0.3, "test": 0.7}
    before = split(samples[:200], shares)
    kept = {one.id: name for name, part in before.items() for one in part}
    after = split(samples, shares, kept=kept)
    assert all(kept.get(one.id, name) == name for name, part in after.items() for one in part)
    # … also those of its group that come later
    homes = {one.group: name for name, part in before.items() for one in part}
    assert all(homes.get(one.group, name) == name for name, part in after.items() for one in part)
    assert len(after["dev"]) == pytest.approx(90, abs=6)


def test_a_sample_has_every_tag_and_the_mix_of_the_set() -> None:
    samples = make(1000, seed=1)
    chosen, missing = draw(samples, 60)
    assert len(chosen) == 60
    assert missing == ()
    whole, found = shares_of(samples), shares_of(chosen)
    for label, count in whole.items():
        assert found[label] >= max(1, int(count * 0.06)), label
        assert found[label] <= count * 0.06 + 8, label


def test_samples_that_must_pass_are_always_in_it() -> None:
    samples = make(200)
    chosen, _ = draw(samples, 10, always={"s7", "s199"})
    assert {"s7", "s199"} <= {one.id for one in chosen}
    assert len(chosen) == 10


def test_tags_without_room_are_named() -> None:
    samples = [Sample(f"s{i}", f"{i}?", tags=(f"tag-{i}",)) for i in range(5)]
    chosen, missing = draw(samples, 3)
    assert len(chosen) == 3
    assert set(missing) == {f"tag-{i}" for i in range(5)} - {tag for one in chosen for tag in one.tags}


def test_a_set_that_grows_keeps_most_of_its_sample_whatever_the_order() -> None:
    samples = make(600, seed=2)
    before = {one.id for one in draw(samples, 50)[0]}
    shuffled = [replace(one, origin=None) for one in samples]
    random.Random(0).shuffle(shuffled)
    assert {one.id for one in draw(shuffled, 50)[0]} == before
    after = {one.id for one in draw([*samples, *(replace(one, id=f"n{one.id}") for one in make(60, 3))], 50)[0]}
    assert len(before & after) >= 35
    assert {one.id for one in draw(samples, 50, seed=1)[0]} != before
