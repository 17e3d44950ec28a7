"""Groups of samples, as labels for the statistics, and means with intervals that allow
for groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from ragstone.evaluation.scores import RunScores
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import mean_interval


def group_labels(run: RunScores, ids: Sequence[str]) -> NDArray[np.int64] | None:
    """A number for each of the samples `ids`, equal for samples of one group; None if
    there are no groups. A sample without a group is its own group."""
    groups = list(groups_of(run, ids))
    names = sorted({name for name in groups if name is not None})
    if not names:
        return None
    first_label = len(ids)
    label_of = {name: first_label + index for index, name in enumerate(names)}
    labels = [
        index if name is None else label_of[name] for index, name in enumerate(groups)
    ]
    return np.array(labels, dtype=np.int64)


def groups_of(run: RunScores, ids: Iterable[str]) -> Iterator[str | None]:
    """The group of each of the samples `ids`; None for a sample without one.

    A sample without a group is in the group that has its id, if there is one: perturbed
    copies of a sample are grouped by its id.
    """
    groups = {facts.group for facts in run.samples.values()}
    for sample_id in ids:
        group = run.facts_of(sample_id).group
        yield sample_id if group is None and sample_id in groups else group


def with_groups_of(current: RunScores, baseline: RunScores) -> RunScores:
    """`current` with the groups that its samples have in `baseline`, so that an edit of
    groups can't hide a loss."""
    samples = dict(current.samples)
    for sample_id, facts in current.samples.items():
        baseline_facts = baseline.facts_of(sample_id)
        if baseline_facts.parts and facts.parts:
            samples[sample_id] = replace(facts, group=baseline_facts.group)
    return replace(current, samples=samples)


def mean_of(
    run: RunScores,
    ids: Sequence[str],
    values: ArrayLike,
    *,
    confidence: float,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    """The mean of `values` (n,) of the samples `ids` (n,) of `run`, with an interval
    that allows for their groups."""
    scores = np.asarray(values, dtype=np.float64)
    groups = group_labels(run, ids)
    return mean_interval(scores, confidence=confidence, bounds=bounds, groups=groups)
