"""The health of a golden set: what it consists of, and what in it needs a look."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from ragstone.golden.sample import Sample
from ragstone.tools.generate.golden.subsets import kind_of
from ragstone.tools.generate.near_duplicates import similar_pairs, words_of

_MIN_FOR_OUTLIERS = 20
_FENCE = 3.0
"""Quartile ranges beyond the quartiles, on the logarithm of the length: Tukey's outer fence."""
_MIN_RATIO = 3.0
"""An outlier is also at least so many times longer or shorter than the median."""


@dataclass(frozen=True, slots=True)
class SimilarSamples:
    """Two samples with nearly the same question; `similarity` is that of the wording, in [0, 1]."""

    first: Sample
    second: Sample
    similarity: float


@dataclass(frozen=True, slots=True)
class Outlier:
    """A text that is much longer or shorter than the others of its `field`; lengths in characters."""

    id: str
    field: str
    length: int
    median: float


@dataclass(frozen=True, slots=True)
class Health:
    """What a golden set consists of. `duplicates` are the samples with the same question, word for word.

    `tags` counts samples by tag and kind; samples without a tag are under "". `groups` is the number of groups,
    `largest_group` the size of the largest.
    """

    samples: int
    kinds: Mapping[str, int]
    tags: Mapping[str, Mapping[str, int]]
    with_contexts: int
    with_relevant_ids: int
    groups: int
    largest_group: int
    duplicates: tuple[tuple[Sample, ...], ...]
    similar: tuple[SimilarSamples, ...]
    outliers: tuple[Outlier, ...]

    @property
    def unanswerable(self) -> float:
        """The share of unanswerable samples, in [0, 1]."""
        return self.kinds.get("unanswerable", 0) / self.samples if self.samples else 0.0


def examine(samples: Sequence[Sample]) -> Health:
    """The health of `samples`. Pure."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        for tag in sample.tags or ("",):
            tags[tag][kind_of(sample)] += 1
    same: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        same[words_of(sample.question) or sample.question].append(sample)
    distinct = [members[0] for members in same.values()]
    pairs = similar_pairs([sample.question for sample in distinct])
    groups = Counter(sample.group for sample in samples if sample.group is not None)
    return Health(
        samples=len(samples),
        kinds=Counter(kind_of(sample) for sample in samples),
        tags={tag: dict(counts) for tag, counts in sorted(tags.items(), key=lambda one: (-one[1].total(), one[0]))},
        with_contexts=sum(bool(sample.reference_contexts) for sample in samples),
        with_relevant_ids=sum(bool(sample.relevant_ids) for sample in samples),
        groups=len(groups),
        largest_group=max(groups.values(), default=0),
        duplicates=tuple(tuple(members) for members in same.values() if len(members) > 1),
        similar=tuple(SimilarSamples(distinct[one.first], distinct[one.second], one.similarity) for one in pairs),
        outliers=tuple(_outliers(samples)),
    )


def _outliers(samples: Sequence[Sample]) -> list[Outlier]:
    lengths = {
        "question": {one.id: len(one.question) for one in samples},
        "reference": {one.id: len(one.reference) for one in samples if one.reference},
        "reference_contexts": {
            one.id: sum(map(len, one.reference_contexts)) for one in samples if one.reference_contexts
        },
    }
    found: list[Outlier] = []
    for name, by_id in lengths.items():
        if len(by_id) < _MIN_FOR_OUTLIERS:
            continue
        logs = {sample_id: math.log(max(1, length)) for sample_id, length in by_id.items()}
        low, _, high = quantiles(logs.values(), n=4)
        middle = median(by_id.values())
        reach = max(_FENCE * (high - low), 0.0)
        far = [
            Outlier(sample_id, name, by_id[sample_id], middle)
            for sample_id, value in logs.items()
            if not low - reach <= value <= high + reach
            and not middle / _MIN_RATIO < by_id[sample_id] < middle * _MIN_RATIO
        ]
        found += sorted(far, key=lambda one: -abs(logs[one.id] - math.log(max(1.0, middle))))
    return found
