"""How a judge compares with people: a small file in the repository that tells the gate
how far to trust its judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import disk_errors, parse_errors
from ragstone.evaluation.scores import RunScores
from ragstone.files import read_regular
from ragstone.judge.protocol import JudgeIdentity

MAX_CALIBRATION_BYTES = 64 * 1024 * 1024
"""A larger file is refused."""

Score = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class Estimate(_Part):
    """A number with its two-sided interval."""

    estimate: float | None
    """It is None, like `low` and `high`, if it can't be computed from these labels."""
    low: float | None
    high: float | None
    confidence: float
    method: str


class MetricCalibration(_Part):
    """Judge and people on one metric."""

    version: str | None
    """The version of the metric; None if it is not known."""
    pairs: dict[str, tuple[Score, Score]] = Field(min_length=1)
    """The judge's score and the mean human label, by sample id."""
    groups: dict[str, str] = Field(default_factory=dict)
    """The group, by sample id."""
    weights: dict[str, Annotated[float, Field(gt=0.0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    """By sample id, inversely proportional to the probability with which the sample was
    drawn, with a mean of 1; empty if that probability is the same for all."""
    agreement: Estimate
    """Krippendorff's alpha of judge and people."""

    def residuals(self) -> NDArray[np.float64]:
        """The label minus the judge's score of each sample, times its weight, by sorted
        id. Their mean estimates that of the whole run."""
        residuals = [
            self.weights.get(sample_id, 1.0) * (label - score)
            for sample_id, (score, label) in sorted(self.pairs.items())
        ]
        return np.array(residuals, dtype=np.float64)

    @property
    def max_residual(self) -> float:
        """The largest absolute value that a residual can have."""
        return max(self.weights.values(), default=1.0)

    def group_labels(self) -> NDArray[np.int64] | None:
        """A number for each of `residuals`, equal for samples of one group; None if no
        sample is in a group."""
        if not self.groups:
            return None
        groups = self.groups
        # A sample without a group is its own group, even if a group has its id.
        names = [
            f"group {groups[sample_id]}" if sample_id in groups else f"id {sample_id}"
            for sample_id in sorted(self.pairs)
        ]
        _, labels = np.unique(names, return_inverse=True)
        return labels.astype(np.int64)


class Calibration(_Part):
    """The content of calibration.json."""

    schema_version: Literal[1] = 1
    judge: JudgeIdentity | None
    """The judge that was compared; None for plain score files, which name none."""
    metrics: dict[str, MetricCalibration]


def read_calibration(
    path: Path, *, where: str | None = None, within: Path | None = None
) -> Calibration:
    """Read the calibration in `path`, which must be inside the folder `within`.

    `where` is the key of the policy that names the file, for errors. Raises ConfigError.
    """
    hint = "Create it again: ragstone calibrate LABELS --run RUN -o FILE."
    unreadable = f"calibration file {path} can't be read"
    with (
        disk_errors(where or path, unreadable, hint=hint),
        parse_errors(path, "not a calibration", hint=hint),
    ):
        return Calibration.model_validate_json(
            read_regular(path, within=within, limit=MAX_CALIBRATION_BYTES)
        )


def is_same_judge(calibration: Calibration, run: RunScores) -> bool:
    """Whether `calibration` is for the judge (and prompts) of `run`."""
    judge = None if run.manifest is None else run.manifest.judge
    return calibration.judge == judge


def is_same_version(calibration: Calibration, metric: str, run: RunScores) -> bool:
    """Whether `calibration` is for the version of `metric` that `run` was scored
    with."""
    if metric not in calibration.metrics or metric not in run.metrics:
        return False
    version = run.metrics[metric].version
    return calibration.metrics[metric].version == version
