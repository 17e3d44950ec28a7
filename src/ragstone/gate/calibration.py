"""How a judge compares with people: a small file in the repository, that tells the gate
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

Score = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class Estimate(_Part):
    """A number with its two-sided interval; None if it is not defined."""

    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    method: str


class MetricCalibration(_Part):
    """Judge and people on one metric."""

    version: str | None
    pairs: dict[str, tuple[Score, Score]] = Field(min_length=1)
    """The judge's score and the mean human label, by sample id."""
    groups: dict[str, str] = Field(default_factory=dict)
    """The group, by sample id."""
    weights: dict[str, Annotated[float, Field(gt=0.0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    """By sample id, inversely proportional to the probability with which it was drawn;
    empty if that is the same."""
    agreement: Estimate
    """Krippendorff's alpha of judge and people."""

    def residuals(self) -> NDArray[np.float64]:
        """People minus judge, in the order of the ids, each times its weight: their
        mean is that of the whole run."""
        residuals = [
            self.weights.get(sample_id, 1.0) * (label - score)
            for sample_id, (score, label) in sorted(self.pairs.items())
        ]
        return np.array(residuals, dtype=np.float64)

    @property
    def reach(self) -> float:
        """The largest absolute value that `residuals` can have."""
        return max(self.weights.values(), default=1.0)

    def group_of_residuals(self) -> NDArray[np.int64] | None:
        """A label for each of `residuals`; None if no sample is in a group."""
        if not self.groups:
            return None
        groups = self.groups
        # A sample without a group is its own group, whatever its id.
        names = [
            f"{sample_id in groups} {groups.get(sample_id, sample_id)}"
            for sample_id in sorted(self.pairs)
        ]
        _, labels = np.unique(names, return_inverse=True)
        return labels.astype(np.int64)


class Calibration(_Part):
    """The content of calibration.json."""

    schema_version: Literal[1] = 1
    judge: JudgeIdentity | None
    """It is None for plain score files."""
    metrics: dict[str, MetricCalibration]


def read_calibration(
    path: Path, *, where: str | None = None, within: Path | None = None
) -> Calibration:
    """The calibration in `path`, inside `within`; `where` is the key with its name.
    Raises ConfigError."""
    hint = "Create it again: ragstone calibrate LABELS --run RUN -o FILE."
    unreadable = f"calibration file {path} can't be read"
    with (
        disk_errors(where or path, unreadable, hint=hint),
        parse_errors(path, "not a calibration", hint=hint),
    ):
        return Calibration.model_validate_json(
            read_regular(path, within=within, limit=MAX_CALIBRATION_BYTES)
        )


def same_judge(calibration: Calibration, run: RunScores) -> bool:
    """Whether `calibration` is for the judge (and prompts) of `run`."""
    judge = None if run.manifest is None else run.manifest.judge
    return calibration.judge == judge


def calibrated_version(calibration: Calibration, metric: str, run: RunScores) -> bool:
    """Whether `calibration` is for the formula with which `run` scored `metric`."""
    if metric not in calibration.metrics or metric not in run.metrics:
        return False
    version = run.metrics[metric].version
    return calibration.metrics[metric].version == version
