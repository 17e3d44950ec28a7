"""Groups of samples, as labels for the statistics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ragstone.run.scores import RunScores


def group_labels(run: RunScores, units: Mapping[str, int]) -> NDArray[np.int64] | None:
    """A label for every unit; a sample without a group is its own group. None: there are no groups."""
    names = {i: run.samples[i].group for i in units if i in run.samples}
    named = sorted({name for name in names.values() if name is not None})
    if not named:
        return None
    label_of = {name: len(units) + index for index, name in enumerate(named)}
    labels = np.arange(len(units), dtype=np.int64)
    for sample_id, index in units.items():
        name = names.get(sample_id)
        if name is not None:
            labels[index] = label_of[name]
    return labels
