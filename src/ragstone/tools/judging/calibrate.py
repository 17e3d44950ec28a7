"""`ragstone calibrate`: how well the judge of a run agrees with people, and whether it
may block."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
from msgspec import Struct, to_builtins

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, score
from ragstone.gate.calibration import Calibration, Estimate, MetricCalibration
from ragstone.gate.grouping import group_labels
from ragstone.report.templates import render_text_template
from ragstone.tools.judging.measures import (
    HAS_ALPHA,
    Floats,
    Measured,
    cohen_kappa,
    krippendorff_alpha,
    people_alpha,
)
from ragstone.tools.judging.people_mean import PeopleMean, inverse_weights, people_mean
from ragstone.tools.judging.table import (
    PASS_MARK,
    SETTLED,
    TEXTS,
    Labels,
    refuse_existing,
    write_table,
)

MIN_LABELS = 30
"""Labelled answers from which a judge may block."""

MIN_AGREEMENT = 0.4
"""Krippendorff's alpha of judge and people from which a judge may block, unless the
policy says otherwise."""

_DISAGREE = 0.5
"""From this difference on, labels of one answer have to be settled."""
_FLOOR_STEP = 0.05
_MAX_FARTHEST = 5

Pairs = dict[str, tuple[float, float]]
"""Score and label by sample id."""


class MetricReport(Struct, frozen=True):
    """Judge and people on one metric, on `labelled` answers."""

    metric: str
    labelled: int
    without_score: int
    """Labelled samples that have no score."""
    people_kappas: Mapping[str, Measured | None]
    """Cohen's kappas on pass or fail of each two people, by their names, before
    anything was settled."""
    people_alpha: Measured | None
    """Krippendorff's of all; None if no answer has two labels, if all are alike, or
    without its library."""
    agreement: Measured | None
    """Krippendorff's alpha of judge and people on the scores; None if all are the
    same."""
    kappa: Measured | None
    """Cohen's of judge and people on pass or fail."""
    passes_too_many: int
    fails_too_many: int
    judge_mean: float
    people_mean: PeopleMean
    farthest: tuple[tuple[str, float, float], ...]
    """The samples on which judge and people differ most: id, score and label."""

    def floor(self) -> float:
        """A floor on the corrected mean that the labelled version keeps."""
        steps = int(self.people_mean.low / _FLOOR_STEP + 1e-9)
        return max(0.0, steps * _FLOOR_STEP)

    def objection(self, required: float) -> str:
        """Why the judge may not block on this metric, as a clause; empty if it may."""
        alpha = self.agreement
        if alpha is None:
            return "all scores and labels are the same"
        if self.labelled < MIN_LABELS:
            labels = counted(self.labelled, "label")
            return f"{labels}, and it takes {MIN_LABELS}"
        if alpha.value < required:
            return (
                f"its agreement with people is {score(alpha.value)}, below {required:g}"
            )
        if alpha.low is None or alpha.low <= 0.0:
            return "its agreement with people may be chance"
        return ""


class CalibrationReport(Struct, frozen=True):
    """What `ragstone calibrate` says: `calibration` is the file for the gate,
    `unsettled` maps metric and sample id to the labels that differ.
    """

    label: str
    calibration: Calibration
    metrics: tuple[MetricReport, ...]
    unsettled: Mapping[tuple[str, str], Mapping[str, float]]
    required: float = MIN_AGREEMENT

    def text(self) -> str:
        return render_text_template(
            "calibration.txt.j2", __package__, report=self, has_alpha=HAS_ALPHA
        )

    def document(self) -> dict[str, object]:
        """The report for programs."""
        unsettled = [
            {"metric": metric, "id": sample_id, "labels": dict(labels)}
            for (metric, sample_id), labels in self.unsettled.items()
        ]
        metrics = {metric.metric: to_builtins(metric) for metric in self.metrics}
        return {
            "metrics": metrics,
            "unsettled": unsettled,
            "conclusion": self.conclusion(),
        }

    def conclusion(self) -> str:
        """One sentence: may this judge block, and at which floor?"""
        may = []
        may_not = []
        for metric in self.metrics:
            objection = metric.objection(self.required)
            if objection:
                may_not.append(f"{metric.metric} ({objection})")
            else:
                floor = metric.floor()
                may.append(f"{metric.metric} at a floor of {floor:.2f}")
        objections = "; ".join(may_not)
        if not may:
            return f"This judge may not block yet: {objections}."
        refused = f", but not on {objections}" if may_not else ""
        metrics = " and ".join(may)
        return f'This judge may block on {metrics} with [labels] estimate = "corrected"{refused}.'


def calibrate(
    run: RunScores, labels: Labels, *, required: float | None = None
) -> CalibrationReport:
    """Compare the scores of `run` with `labels`, metric by metric.

    Assumes that the labelled samples were drawn at random from the run: with the
    probabilities of `labels`, if it has any, else all with the same one. `required` is
    the agreement from which the judge may block. Raises ConfigError if no labelled
    sample has a score.
    """
    reports = []
    calibrated = {}
    for metric in sorted(labels.by_metric):
        pairs = _pairs(run, labels, metric)
        weights = np.ones(len(pairs))
        own_weights: dict[str, float] = {}
        if labels.probabilities:
            # Inversely proportional to the probabilities of being drawn.
            drawn = [labels.probabilities[name] for name in pairs]
            weights = inverse_weights(np.array(drawn))
            own_weights = dict(zip(pairs, weights.tolist(), strict=True))
        report = _report(run, metric, pairs, labels, weights)
        reports.append(report)
        groups = {name: run.samples[name].group for name in pairs}
        calibrated[metric] = MetricCalibration(
            version=run.metrics[metric].version,
            pairs=pairs,
            weights=own_weights,
            groups={name: group for name, group in groups.items() if group is not None},
            agreement=_estimate(report.agreement),
        )
    unsettled: dict[tuple[str, str], Mapping[str, float]] = {}
    for metric, by_sample in labels.by_metric.items():
        for sample_id, by_annotator in by_sample.items():
            values = by_annotator.values()
            difference = max(values) - min(values)
            if SETTLED not in by_annotator and difference >= _DISAGREE:
                unsettled[metric, sample_id] = by_annotator
    identity = None if run.manifest is None else run.manifest.judge
    calibration = Calibration(judge=identity, metrics=calibrated)
    return CalibrationReport(
        label=run.label,
        calibration=calibration,
        metrics=tuple(reports),
        unsettled=unsettled,
        required=MIN_AGREEMENT if required is None else required,
    )


def _estimate(alpha: Measured | None) -> Estimate:
    """The agreement of judge and people, for the gate."""
    value = low = high = None
    if alpha is not None:
        value, low, high = alpha.value, alpha.low, alpha.high
    return Estimate(
        estimate=value,
        low=low,
        high=high,
        confidence=0.95,
        method="Krippendorff's alpha (interval), bootstrap over units",
    )


def _pairs(run: RunScores, labels: Labels, metric: str) -> Pairs:
    """Score and label of each sample that has both. Raises ConfigError if none has."""
    scores = run.metrics[metric].values
    people = labels.mean(metric)
    shared = sorted(scores.keys() & people.keys())
    pairs = {name: (scores[name], people[name]) for name in shared}
    if not pairs:
        raise ConfigError(
            f"no labelled sample has a score of '{metric}'.",
            where=run.label,
            hint="Labels and run must have the same sample ids: is this the run whose answers were labelled?",
        )
    return pairs


def _report(
    run: RunScores, metric: str, pairs: Pairs, labels: Labels, weights: Floats
) -> MetricReport:
    rows = list(pairs.values())
    table = np.array(rows, dtype=np.float64)
    judge, people = table.T
    judge_marks = _marks(judge)
    people_marks = _marks(people)
    scores = run.metrics[metric].values
    all_scores = list(scores.values())
    values = np.array(all_scores, dtype=np.float64)
    kappas, among_people = _among_people(labels, metric)
    apart = [
        (name, judge_score, label)
        for name, (judge_score, label) in pairs.items()
        if judge_score != label
    ]
    apart.sort(key=lambda row: -abs(row[1] - row[2]))
    mean = people_mean(
        people,
        judge,
        weights,
        values,
        groups=group_labels(run, list(pairs)),
        all_groups=group_labels(run, list(scores)),
    )
    return MetricReport(
        metric=metric,
        labelled=len(pairs),
        without_score=len(labels.by_metric[metric]) - len(pairs),
        people_kappas=kappas,
        people_alpha=among_people,
        agreement=krippendorff_alpha(judge, people),
        kappa=cohen_kappa(judge_marks, people_marks),
        passes_too_many=int(np.sum(judge_marks > people_marks)),
        fails_too_many=int(np.sum(judge_marks < people_marks)),
        judge_mean=float(np.mean(values)),
        people_mean=mean,
        farthest=tuple(apart[:_MAX_FARTHEST]),
    )


def _marks(values: Floats) -> Floats:
    return (values >= PASS_MARK).astype(np.float64)


def _among_people(
    labels: Labels, metric: str
) -> tuple[dict[str, Measured | None], Measured | None]:
    """How well the annotators of `metric` agree: the kappa of each two, by their names,
    and the alpha of all."""
    names = labels.annotators(metric)
    by_sample = labels.by_metric[metric]
    rows = [
        [by_sample[sample_id].get(name, np.nan) for sample_id in sorted(by_sample)]
        for name in names
    ]
    values = np.array(rows, dtype=np.float64)
    table = values.reshape(len(names), len(by_sample))
    is_labelled = ~np.isnan(table)
    kappas = {}
    for first, second in combinations(range(len(names)), 2):
        both = is_labelled[first] & is_labelled[second]
        if both.any():
            first_marks = _marks(table[first, both])
            second_marks = _marks(table[second, both])
            people = f"{names[first]} and {names[second]}"
            kappas[people] = cohen_kappa(first_marks, second_marks)
    if not kappas or not HAS_ALPHA:
        return kappas, None
    return kappas, people_alpha(table)


def write_disagreements(path: Path, report: CalibrationReport, labels: Labels) -> None:
    """Write a table of the answers on which people disagree, without names, to be
    filled in and read with the others.

    Raises ConfigError rather than overwrite one.
    """
    if path.stem != SETTLED:
        raise ConfigError(
            f"must be called {SETTLED}.csv, so that its labels decide.", where=str(path)
        )
    refuse_existing(path, "Name it among LABELS, or remove it.")
    metrics = sorted(labels.by_metric)
    rows: dict[str, dict[str, str]] = {}
    for metric, sample_id in sorted(report.unsettled):
        values = report.unsettled[metric, sample_id].values()
        texts = labels.texts.get(sample_id, {})
        row = rows.setdefault(sample_id, {"id": sample_id, "disagreement": "", **texts})
        words = ", ".join(sorted(map(_word, values)))
        row["disagreement"] += f"{metric}: {words}\n"
        if sample_id in labels.probabilities:
            row["probability"] = repr(labels.probabilities[sample_id])
    columns = ("id", *metrics, "comment", "disagreement", *TEXTS, "probability")
    write_table(path, columns, rows.values())


def _word(label: float) -> str:
    return {1.0: "pass", 0.0: "fail"}.get(label, score(label))
