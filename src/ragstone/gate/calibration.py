"""Compares a judge with people: agreement, bias, and the mean that people would have given.

The result is a small file to keep in the repository, so that the gate knows how far its judge can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstone.errors import ConfigError
from ragstone.files import read_regular
from ragstone.gate.grouping import group_labels
from ragstone.gate.labels import Labels
from ragstone.run.manifest import JudgeManifest
from ragstone.run.scores import RunScores
from ragstone.stats.agreement import Agreement, cohen_kappa, krippendorff_alpha
from ragstone.stats.intervals import mean_interval
from ragstone.stats.ppi import inverse_weights, powered_mean, weighted_powered_mean

PASS_MARK = 0.5
"""From this value on, a score or label counts as a pass when the two are compared as pass or fail."""

MAX_CALIBRATION_BYTES = 64 * 1024 * 1024
MAX_ERRORS = 10

Score = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(_Part):
    """A number with its two-sided interval; None if it is not defined."""

    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    method: str


class JudgeDisagreement(_Part):
    """A sample on which judge and people differ widely, both in [0, 1]."""

    sample_id: str
    judge: Score
    people: Score


class MetricCalibration(_Part):
    """Judge and people on one metric.

    `pairs` maps a sample id to the judge's score and the mean human label, `groups` to its group, and `weights`, unless
    all samples were drawn with the same probability, to its weight, inversely proportional to that. `agreement` is
    Krippendorff's alpha of the two, `kappa` Cohen's kappa on pass or fail, `equal` the share of samples on which both
    pass or both fail. `people` is the alpha among annotators, `people_kappa` Cohen's kappa if there were two. `bias` is
    judge minus people. `corrected` estimates the mean that people would have given to all samples of the run (PPI++),
    `judge_mean` is the mean of the judge; `gain` is how many labels without a judge are worth one label with it.
    """

    version: str | None
    pairs: dict[str, tuple[Score, Score]] = Field(min_length=1)
    groups: dict[str, str] = Field(default_factory=dict)
    weights: dict[str, Annotated[float, Field(gt=0.0, allow_inf_nan=False)]] = Field(default_factory=dict)
    agreement: Estimate
    kappa: Estimate
    equal: float
    people: Estimate | None
    people_kappa: Estimate | None
    annotators: tuple[str, ...]
    bias: Estimate
    corrected: Estimate
    judge_mean: float
    gain: float
    too_high: int
    too_low: int
    errors: tuple[JudgeDisagreement, ...]
    left_out: int = Field(description="labelled samples without a score in the run")

    def residuals(self) -> NDArray[np.float64]:
        """People minus judge, in the order of the ids, each times its weight: their mean is that of the whole run."""
        return np.array(
            [self.weights.get(i, 1.0) * (label - score) for i, (score, label) in sorted(self.pairs.items())],
            dtype=np.float64,
        )

    @property
    def reach(self) -> float:
        """The largest absolute value that `residuals` can have."""
        return max(self.weights.values(), default=1.0)

    def group_of_residuals(self) -> NDArray[np.int64] | None:
        """A label for each of `residuals`; None if no sample is in a group."""
        if not self.groups:
            return None
        # A sample without a group is its own group; the pairs keep the two kinds of names apart.
        names = [("group", self.groups[i]) if i in self.groups else ("sample", i) for i in sorted(self.pairs)]
        return np.unique([f"{kind} {name}" for kind, name in names], return_inverse=True)[1].astype(np.int64)


class Calibration(_Part):
    """The content of calibration.json. `judge` is None for plain score files."""

    schema_version: Literal[1] = 1
    judge: JudgeManifest | None
    metrics: dict[str, MetricCalibration] = Field(min_length=1)


def calibrate(run: RunScores, labels: Labels, *, confidence: float = 0.95, seed: int = 0) -> Calibration:
    """Compare the scores of `run` with `labels`, metric by metric.

    Assumes that the labelled samples were drawn at random from the run: with the probabilities of `labels`, if it has
    any, else all with the same one. Raises ConfigError for a metric that the run did not measure, or if no labelled
    sample has a score.
    """
    found = {}
    for metric in sorted(labels.by_metric):
        if metric not in run.metrics:
            raise ConfigError(
                f"the labels are for '{metric}', which this run did not measure.",
                where=run.label,
                hint=f"It measured: {', '.join(sorted(run.metrics))}.",
            )
        found[metric] = _metric(run, metric, labels, confidence, seed)
    return Calibration(judge=None if run.manifest is None else run.manifest.judge, metrics=found)


def _metric(run: RunScores, metric: str, labels: Labels, confidence: float, seed: int) -> MetricCalibration:
    scores, people = run.metrics[metric].values, labels.mean(metric)
    ids = sorted(scores.keys() & people.keys())
    if not ids:
        raise ConfigError(
            f"no labelled sample has a score of '{metric}'.",
            where=run.label,
            hint="Labels and run must have the same sample ids: is this the run whose answers were labelled?",
        )
    judge = np.array([scores[i] for i in ids], dtype=np.float64)
    human = np.array([people[i] for i in ids], dtype=np.float64)
    rest = np.array([scores[i] for i in sorted(scores.keys() - people.keys())], dtype=np.float64)
    alpha = krippendorff_alpha(np.vstack([judge, human]), level="interval", confidence=confidence, seed=seed)
    marks = (judge >= PASS_MARK).astype(np.float64), (human >= PASS_MARK).astype(np.float64)
    kappa = cohen_kappa(*marks, confidence=confidence, seed=seed)
    groups = group_labels(run, ids)
    shares = labels.probabilities
    weight = inverse_weights(np.array([shares[i] for i in ids])) if shares else np.ones(len(ids))
    weights = dict(zip(ids, weight.tolist(), strict=True)) if shares else {}
    reach = float(weight.max())
    bias = mean_interval(weight * (judge - human), confidence=confidence, bounds=(-reach, reach), groups=groups)
    if shares:
        every = np.array([scores[i] for i in sorted(scores)], dtype=np.float64)
        powered = weighted_powered_mean(human, judge, weight, every, confidence=confidence)
    else:
        powered = powered_mean(human, judge, rest, confidence=confidence)
    farthest = sorted(ids, key=lambda i: (-abs(scores[i] - people[i]), i))[:MAX_ERRORS]
    table = _ratings(labels, metric)
    return MetricCalibration(
        version=run.metrics[metric].version,
        pairs={i: (scores[i], people[i]) for i in ids},
        weights=weights,
        groups={i: name for i in ids if (name := run.samples[i].group) is not None},
        agreement=_estimate(alpha),
        kappa=_estimate(kappa),
        equal=kappa.equal,
        people=_among(table, confidence, seed),
        people_kappa=_two(table, confidence, seed),
        annotators=labels.annotators(metric),
        bias=Estimate(estimate=bias.estimate, low=bias.low, high=bias.high, confidence=confidence, method=bias.method),
        corrected=Estimate(
            estimate=powered.estimate,
            low=powered.low,
            high=powered.high,
            confidence=confidence,
            method=powered.method,
        ),
        judge_mean=float(np.mean(list(scores.values()))),
        gain=powered.gain,
        too_high=int(np.sum((marks[0] == 1.0) & (marks[1] == 0.0))),
        too_low=int(np.sum((marks[0] == 0.0) & (marks[1] == 1.0))),
        errors=tuple(
            JudgeDisagreement(sample_id=i, judge=scores[i], people=people[i])
            for i in farthest
            if scores[i] != people[i]
        ),
        left_out=len(people) - len(ids),
    )


def _ratings(labels: Labels, metric: str) -> NDArray[np.float64]:
    """(annotators, samples), NaN where there is no label."""
    names, rows = labels.annotators(metric), labels.by_metric[metric]
    return np.array([[rows[i].get(name, np.nan) for i in sorted(rows)] for name in names], dtype=np.float64)


def _among(table: NDArray[np.float64], confidence: float, seed: int) -> Estimate | None:
    if not np.any(np.sum(~np.isnan(table), axis=0) >= 2):
        return None
    return _estimate(krippendorff_alpha(table, level="interval", confidence=confidence, seed=seed))


def _two(table: NDArray[np.float64], confidence: float, seed: int) -> Estimate | None:
    both = table[:, ~np.isnan(table).any(axis=0)]
    if len(both) != 2 or both.shape[1] == 0:
        return None
    first, second = (both >= PASS_MARK).astype(np.float64)
    return _estimate(cohen_kappa(first, second, confidence=confidence, seed=seed))


def _estimate(found: Agreement) -> Estimate:
    return Estimate(
        estimate=found.estimate, low=found.low, high=found.high, confidence=found.confidence, method=found.method
    )


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Replace the calibration file `path` atomically. Raises ConfigError if it can't be written."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(calibration.model_dump_json(indent=1) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}.", where=str(path)) from None


def read_calibration(path: Path, *, where: str | None = None, within: Path | None = None) -> Calibration:
    """The calibration in `path`, inside `within`; `where` is the key with its name. Raises ConfigError."""
    hint = "Create it again: ragstone calibrate LABELS --run RUN --out FILE."
    try:
        return Calibration.model_validate_json(read_regular(path, within=within, limit=MAX_CALIBRATION_BYTES))
    except OSError as error:
        raise ConfigError(f"calibration file {path} can't be read: {error.strerror}.", where=where, hint=hint) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "document"
        raise ConfigError(f"not a calibration: {place}: {first['msg']}.", where=str(path), hint=hint) from None


def same_judge(calibration: Calibration, run: RunScores) -> bool:
    """Whether `calibration` is for the judge (and prompts) of `run`."""
    return calibration.judge == (None if run.manifest is None else run.manifest.judge)


def calibrated_version(calibration: Calibration, metric: str, run: RunScores) -> bool:
    """Whether `calibration` is for the formula with which `run` scored `metric`."""
    scores: Mapping[str, MetricCalibration] = calibration.metrics
    return metric in scores and metric in run.metrics and scores[metric].version == run.metrics[metric].version
