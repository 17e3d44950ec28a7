"""Shards: parts of a golden set that are evaluated apart. Which samples belong to which, and where they go back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ragstone.config.settings import JudgeSettings
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.run.manifest import ShardManifest


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `of`, both from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard in a validated setting, such as ``3/8``."""
        number, _, of = text.partition("/")
        return cls(int(number), int(of))

    @property
    def name(self) -> str:
        return f"shard {self.number} of {self.of}"

    def holds(self, sample: Sample) -> bool:
        """Whether `sample` belongs to this shard: depends on its group, or else its id, and on nothing else."""
        return shard_number(sample, self.of) == self.number

    def part(self, golden: GoldenSet) -> GoldenSet:
        return golden.only(self.holds)

    def describe(self, golden: GoldenSet) -> ShardManifest:
        """This shard of `golden` in a manifest."""
        places = (place for place, sample in enumerate(golden) if self.holds(sample))
        return ShardManifest(number=self.number, of=self.of, places=encode_places(places))

    def share(self, judge: JudgeSettings) -> JudgeSettings:
        """The settings of `judge` with this shard's share of its budget and of its limits per minute."""
        budget, requests, tokens = judge.max_cost_usd, judge.requests_per_minute, judge.tokens_per_minute
        return judge.model_copy(
            update={
                "max_cost_usd": None if budget is None else budget / self.of,
                "requests_per_minute": None if requests is None else max(1, requests // self.of),
                "tokens_per_minute": None if tokens is None else max(1, tokens // self.of),
            }
        )


def shard_number(sample: Sample, of: int) -> int:
    """The number, from 1, of the shard that `sample` belongs to. The samples of a group stay together."""
    key = f"id\0{sample.id}" if sample.group is None else f"group\0{sample.group}"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % of + 1


def encode_places(places: Iterable[int]) -> str:
    """Ascending places, from 0, as text: the first one, and then each gap."""
    gaps: list[str] = []
    before = 0
    for place in places:
        gaps.append(str(place - before))
        before = place
    return " ".join(gaps)


def decode_places(text: str) -> Iterator[int]:
    """The places in `text`. Raises ValueError if they do not ascend."""
    place = 0
    for number, gap in enumerate(text.split()):
        step = int(gap)
        if step < (1 if number else 0):
            raise ValueError("the places do not ascend")
        place += step
        yield place
