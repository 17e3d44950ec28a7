"""`ragstone calibrate`: how well the judge agrees with people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from ragstone.app.compare import read_compare_policy, read_side
from ragstone.commands.options import FORMAT, PATH, POLICY, SEED, option
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError
from ragstone.gate.calibration import Calibration, Estimate, JudgeDisagreement, MetricCalibration
from ragstone.gate.grouping import group_labels
from ragstone.report.escape import terminal
from ragstone.report.templates import render_text_template
from ragstone.run.files import replace_text
from ragstone.run.score_files import read_rows
from ragstone.run.scores import RunScores
from ragstone.stats.agreement import Agreement, cohen_kappa, krippendorff_alpha
from ragstone.stats.estimate import Estimate as MeanEstimate
from ragstone.stats.intervals import mean_interval
from ragstone.stats.ppi import PoweredMean, inverse_weights, powered_mean, weighted_powered_mean

PASS_MARK = 0.5
"""From this value on, a score or label counts as a pass when the two are compared as pass or fail."""

MAX_ERRORS = 10


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
        bias=_estimate(bias),
        corrected=_estimate(powered),
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


def _estimate(found: Agreement | MeanEstimate | PoweredMean) -> Estimate:
    return Estimate(
        estimate=found.estimate, low=found.low, high=found.high, confidence=found.confidence, method=found.method
    )


_EXPECTED = 'Expected lines such as {"id": "q1", "metric": "faithfulness", "label": "pass"}, or CSV with that header.'
_WORDS = {
    **dict.fromkeys(("pass", "true", "yes", "good", "correct"), 1.0),
    **dict.fromkeys(("fail", "false", "no", "bad", "wrong"), 0.0),
}


@dataclass(frozen=True, slots=True)
class Labels:
    """Human labels: metric → sample id → annotator → label in [0, 1].

    `probabilities` are those with which labelled samples were drawn, by id; empty if all had the same.
    """

    by_metric: Mapping[str, Mapping[str, Mapping[str, float]]]
    probabilities: Mapping[str, float] = field(default_factory=dict)

    def mean(self, metric: str) -> dict[str, float]:
        """The mean over annotators, by sample id."""
        return {i: sum(each.values()) / len(each) for i, each in self.by_metric[metric].items()}

    def annotators(self, metric: str) -> tuple[str, ...]:
        """The sorted names of everyone who labelled `metric`."""
        return tuple(sorted({name for each in self.by_metric[metric].values() for name in each}))


def read_labels(path: str | Path, *, metric: str | None = None, scale: tuple[float, float] = (0.0, 1.0)) -> Labels:
    """The labels in `path`.

    A label is a number within `scale` (mapped to [0, 1]), true or false, or one of pass/fail, yes/no, good/bad,
    correct/wrong. `metric` is for lines that name none. Raises ConfigError with the line.
    """
    low, high = scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"a scale must go from the worst to the best value, got {low:g} to {high:g}.")
    found: dict[str, dict[str, dict[str, float]]] = {}
    shares: dict[str, float] = {}
    first = ""
    for where, row in read_rows(Path(path), required=("id", "label"), expected=_EXPECTED):
        label = _label(row["label"], low, high, where)
        if label is None:
            continue
        name = _name(row, "metric", metric, where)
        sample_id = _name(row, "id", None, where)
        annotator = _name(row, "annotator", "", where)
        each = found.setdefault(name, {}).setdefault(sample_id, {})
        if annotator in each:
            who = f" by {annotator}" if annotator else ""
            raise ConfigError(
                f"duplicate label of '{sample_id}' for '{name}'{who}.",
                where=where,
                hint="If there were several annotators, name them in a field 'annotator'.",
            )
        each[annotator] = label
        first = first or where
        share = _probability(row.get("probability"), where)
        if share is not None and shares.setdefault(sample_id, share) != share:
            raise ConfigError(f"two different probabilities for '{sample_id}'.", where=where)
    labelled = {sample_id for by_id in found.values() for sample_id in by_id}
    if shares and labelled - shares.keys():
        raise ConfigError(
            f"'{min(labelled - shares.keys())}' has no probability, but other samples have.",
            where=first,
            hint="Give the probability of being drawn for every sample, or for none.",
        )
    if not found:
        raise ConfigError("contains no labels.", where=str(path), hint=_EXPECTED)
    return Labels(found, {} if len(set(shares.values())) < 2 else shares)


def _probability(value: object, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not 0.0 < share <= 1.0:
        raise ConfigError(
            f"a probability of being drawn is above 0 and at most 1, found {str(value)[:80]!r}.", where=where
        )
    return share


def _name(row: Mapping[str, object], field: str, default: str | None, where: str) -> str:
    value = row.get(field)
    if value is None or value == "":
        if default is None:
            hint = "Name the metric in each line, or use --metric." if field == "metric" else _EXPECTED
            raise ConfigError(f"'{field}' is missing.", where=where, hint=hint)
        return default
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigError(f"'{field}' must be a string, found {str(value)[:80]!r}.", where=where)
    return str(value)


def _label(value: object, low: float, high: float, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number) and low <= number <= high:
        return (number - low) / (high - low)
    hint = "For another scale, use --scale WORST BEST, for example --scale 1 5."
    raise ConfigError(
        f"a label must be a number from {low:g} to {high:g}, or pass or fail, found {str(value)[:80]!r}.",
        where=where,
        hint=hint,
    )


@click.command(name="calibrate")
@click.argument("labels", type=PATH)
@option(
    "--run", type=PATH, default=Path(Settings().run.out), help="The run whose answers were labelled, or a score file."
)
@option("--metric", value="NAME", help="The labelled metric, if the lines don't name it.")
@option("--scale", value="WORST BEST", type=(float, float), default=(0.0, 1.0), help="Scale of numeric labels.")
@option("--out", value="FILE", help="Write the calibration for the gate.")
@POLICY
@SEED
@FORMAT
def command(
    labels: Path,
    run: Path,
    metric: str | None,
    scale: tuple[float, float],
    out: Path | None,
    thresholds: Path | None,
    seed: int,
    form: str,
) -> int:
    """Compare the judge of a run with human LABELS.

    LABELS is JSON Lines, or CSV with a header, with id, label, metric and, if there were several people, annotator.
    A label is a number from 0 to 1 (or on --scale), or pass or fail. Label samples drawn at random, or give the
    probability of each: `ragstone label` draws them and makes pages for labelling.

    Reports how well judge and people agree, where the judge errs, and an estimate of the mean that people would have
    given to all samples.

    \b
    Example:
      ragstone calibrate labels.csv --run ragstone-run --metric faithfulness --out calibration.json
    """
    scores = read_side(run).scores
    found = calibrate(scores, read_labels(labels, metric=metric, scale=scale), seed=seed)
    if out is not None:
        replace_text(out, found.model_dump_json(indent=1) + "\n")
    if form == "json":
        click.echo(found.model_dump_json(indent=2))
    else:
        required = read_compare_policy(thresholds, calibration=False).labels.min_agreement
        values = {"calibration": found, "label": scores.label, "required": required, "file": out}
        click.echo(terminal(render_text_template("calibration.txt.j2", __package__, **values)))
    return 0
