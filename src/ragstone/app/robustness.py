"""What the perturbed questions of a run show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ragstone.errors import RunDirectoryError
from ragstone.run.directory import MANIFEST, PERTURBED, RunDirectory
from ragstone.run.scores import RunScores

if TYPE_CHECKING:
    from ragstone.gate.robustness import Robustness


def robustness_of(
    run: RunDirectory | None, scores: RunScores | None = None, lower_is_better: Iterable[str] = ()
) -> Robustness | None:
    """What the perturbed questions in the directory of `run` show about its `scores`; None if there are none.

    The scores are read from `run` if they are not given. Raises RunDirectoryError.
    """
    if run is None or not (run.path / PERTURBED / MANIFEST).is_file():
        return None
    from ragstone.gate.robustness import robustness  # with numpy, when the questions have been asked

    found = RunDirectory.open(run.path / PERTURBED)
    if found.manifest.perturbed is None:
        raise RunDirectoryError("it is not a run of perturbed questions.", where=str(found.path))
    return robustness(scores or run.scores(), found.records(), found.manifest, lower_is_better)
