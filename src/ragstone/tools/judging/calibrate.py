"""`ragstone calibrate`: how well the judge of a run agrees with people, and whether its
scores may block a merge."""

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
from ragstone.tools.judging.label_table import (
    PASS_MARK,
    SETTLED,
    TEXTS,
    Labels,
    refuse_existing,
    write_table,
)
from ragstone.tools.judging.measures import (
    HAS_ALPHA,
    Floats,
    Measurement,
    alpha_of_people,
    cohen_kappa,
    krippendorff_alpha,
)
from ragstone.tools.judging.people_mean import PeopleMean, inverse_weights, people_mean

MIN_LABELS = 30
"""The fewest labelled answers with which a judge may block."""

MIN_AGREEMENT = 0.4
"""Krippendorff's alpha of judge and people from which a judge may block, unless the
policy says otherwise."""

_MIN_DISAGREEMENT = 0.5
"""Labels of one answer that differ by this much or more have to be settled."""

_FLOOR_STEP = 0.05
"""A floor is proposed as a multiple of this."""

_MAX_DIFFERENCES = 5
"""The most samples on which judge and people differ that the report shows."""

Pairs = dict[str, tuple[float, float]]
"""The judge's score and the mean human label, by sample id."""


class Difference(Struct, frozen=True, array_like=True):
    """A sample to which judge and people gave different values."""

    sample_id: str
    score: float
    label: float


class MetricReport(Struct, frozen=True):
    """How well judge and people agree on one metric."""

    metric: str
    labelled: int
    """How many samples have both a label and a score."""
    without_score: int
    """How many labelled samples have no score."""
    people_kappas: Mapping[str, Measurement | None]
    """Cohen's kappa on pass or fail of each two annotators, by their names, from their
    labels before any were settled."""
    people_alpha: Measurement | None
    """Krippendorff's alpha of all annotators; None if no answer has two labels, if all
    labels are the same, or if the library that computes it is missing."""
    agreement: Measurement | None
    """Krippendorff's alpha of judge and people; None if all scores and labels are the
    same."""
    kappa: Measurement | None
    """Cohen's kappa of judge and people on pass or fail; None if all are the same."""
    passes_too_many: int
    """How many samples the judge passes and people fail."""
    fails_too_many: int
    """How many samples the judge fails and people pass."""
    judge_mean: float
    people_mean: PeopleMean
    farthest: tuple[Difference, ...]
    """The samples on which judge and people differ most, the largest difference
    first."""

    def floor(self) -> float:
        """The highest multiple of `_FLOOR_STEP` that isn't above the confidence interval
        of the corrected mean."""
        rounding_error = 1e-9  # 0.15 / 0.05 is a little below 3
        steps = int(self.people_mean.low / _FLOOR_STEP + rounding_error)
        return max(0.0, steps * _FLOOR_STEP)

    def objection(self, min_agreement: float) -> str:
        """Why the judge may not block on this metric, as a clause; empty if it may."""
        alpha = self.agreement
        if alpha is None:
            return "all scores and labels are the same"
        if self.labelled < MIN_LABELS:
            labels = counted(self.labelled, "label")
            return f"only {labels}; at least {MIN_LABELS} are needed"
        if alpha.value < min_agreement:
            agreement = score(alpha.value)
            return f"its agreement with people is {agreement}, below {min_agreement:g}"
        if alpha.low is None or alpha.low <= 0.0:
            return "its agreement with people may be due to chance"
        return ""


class CalibrationReport(Struct, frozen=True):
    """What `ragstone calibrate` reports."""

    label: str
    """How the report calls the run."""
    calibration: Calibration
    """The content of the file for the gate."""
    metrics: tuple[MetricReport, ...]
    unsettled: Mapping[tuple[str, str], Mapping[str, float]]
    """The labels, by annotator, on which people disagree, by metric and sample id."""
    min_agreement: float = MIN_AGREEMENT

    def text(self) -> str:
        """The report for people."""
        return render_text_template(
            "calibration.txt.j2", __package__, report=self, has_alpha=HAS_ALPHA
        )

    def document(self) -> dict[str, object]:
        """The report for programs."""
        unsettled = [
            {"metric": metric, "id": sample_id, "labels": dict(labels)}
            for (metric, sample_id), labels in self.unsettled.items()
        ]
        metrics = {report.metric: to_builtins(report) for report in self.metrics}
        return {
            "metrics": metrics,
            "unsettled": unsettled,
            "conclusion": self.conclusion(),
        }

    def conclusion(self) -> str:
        """One sentence: may this judge block, and at which floor?"""
        blocking = []
        refused = []
        for report in self.metrics:
            objection = report.objection(self.min_agreement)
            if objection:
                refused.append(f"{report.metric} ({objection})")
            else:
                blocking.append(f"{report.metric} at a floor of {report.floor():.2f}")
        objections = "; ".join(refused)
        if not blocking:
            return f"This judge may not block yet: {objections}."
        exceptions = f", but not on {objections}" if refused else ""
        floors = " and ".join(blocking)
        return f'This judge may block on {floors} with [labels] estimate = "corrected"{exceptions}.'


def calibrate(
    run: RunScores, labels: Labels, *, min_agreement: float | None = None
) -> CalibrationReport:
    """Compare the scores of `run` with `labels`, metric by metric.

    Assumes that the labelled samples were drawn at random from the run: with the
    probabilities of `labels`, or all with the same one if there are none.
    `min_agreement` is the agreement from which the judge may block. Raises ConfigError
    if no labelled sample has a score.
    """
    reports = []
    calibrations = {}
    for metric in sorted(labels.by_metric):
        pairs = _pairs(run, labels, metric)
        weights = np.ones(len(pairs))
        unequal_weights: dict[str, float] = {}
        if labels.probabilities:
            probabilities = [labels.probabilities[sample_id] for sample_id in pairs]
            weights = inverse_weights(np.array(probabilities))
            unequal_weights = dict(zip(pairs, weights.tolist(), strict=True))
        report = _compare(run, metric, pairs, labels, weights)
        reports.append(report)
        groups = {sample_id: run.samples[sample_id].group for sample_id in pairs}
        calibrations[metric] = MetricCalibration(
            version=run.metrics[metric].version,
            pairs=pairs,
            weights=unequal_weights,
            groups={
                sample_id: group
                for sample_id, group in groups.items()
                if group is not None
            },
            agreement=_estimate(report.agreement),
        )
    judge = None if run.manifest is None else run.manifest.judge
    return CalibrationReport(
        label=run.label,
        calibration=Calibration(judge=judge, metrics=calibrations),
        metrics=tuple(reports),
        unsettled=_find_unsettled(labels),
        min_agreement=MIN_AGREEMENT if min_agreement is None else min_agreement,
    )


def _find_unsettled(labels: Labels) -> dict[tuple[str, str], Mapping[str, float]]:
    """Find the labels of each answer on which people disagree, by metric and sample
    id."""
    unsettled: dict[tuple[str, str], Mapping[str, float]] = {}
    for metric, by_sample in labels.by_metric.items():
        for sample_id, by_annotator in by_sample.items():
            values = by_annotator.values()
            disagreement = max(values) - min(values)
            if SETTLED not in by_annotator and disagreement >= _MIN_DISAGREEMENT:
                unsettled[metric, sample_id] = by_annotator
    return unsettled


def _estimate(alpha: Measurement | None) -> Estimate:
    """The agreement of judge and people as the gate reads it."""
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
    """The score and label of each sample that has both. Raises ConfigError if none
    has."""
    scores = run.metrics[metric].values
    means = labels.mean(metric)
    shared_ids = sorted(scores.keys() & means.keys())
    if not shared_ids:
        raise ConfigError(
            f"no labelled sample has a score of '{metric}'.",
            where=run.label,
            hint="Labels and run must have the same sample ids: is this the run whose answers were labelled?",
        )
    return {
        sample_id: (scores[sample_id], means[sample_id]) for sample_id in shared_ids
    }


def _compare(
    run: RunScores, metric: str, pairs: Pairs, labels: Labels, weights: Floats
) -> MetricReport:
    """Compare the judge with people on one metric. `weights` (n,) are of `pairs`."""
    table = np.array(list(pairs.values()), dtype=np.float64)
    judge, people = table.T
    judge_passes = _passes(judge)
    people_pass = _passes(people)
    scores = run.metrics[metric].values
    all_scores = np.array(list(scores.values()), dtype=np.float64)
    people_kappas, people_alpha = _agreement_of_people(labels, metric)
    differences = [
        Difference(sample_id, judge_score, label)
        for sample_id, (judge_score, label) in pairs.items()
        if judge_score != label
    ]
    differences.sort(key=lambda row: -abs(row.score - row.label))
    mean = people_mean(
        people,
        judge,
        weights,
        all_scores,
        groups=group_labels(run, list(pairs)),
        all_groups=group_labels(run, list(scores)),
    )
    return MetricReport(
        metric=metric,
        labelled=len(pairs),
        without_score=len(labels.by_metric[metric]) - len(pairs),
        people_kappas=people_kappas,
        people_alpha=people_alpha,
        agreement=krippendorff_alpha(judge, people),
        kappa=cohen_kappa(judge_passes, people_pass),
        passes_too_many=int(np.sum(judge_passes > people_pass)),
        fails_too_many=int(np.sum(judge_passes < people_pass)),
        judge_mean=float(np.mean(all_scores)),
        people_mean=mean,
        farthest=tuple(differences[:_MAX_DIFFERENCES]),
    )


def _passes(values: Floats) -> Floats:
    """1 for each of `values` that counts as a pass, 0 for each other."""
    return (values >= PASS_MARK).astype(np.float64)


def _agreement_of_people(
    labels: Labels, metric: str
) -> tuple[dict[str, Measurement | None], Measurement | None]:
    """How well the annotators of `metric` agree: `people_kappas` and `people_alpha` of
    the report."""
    annotators = labels.annotators(metric)
    by_sample = labels.by_metric[metric]
    rows = [
        [by_sample[sample_id].get(name, np.nan) for sample_id in sorted(by_sample)]
        for name in annotators
    ]
    values = np.array(rows, dtype=np.float64)
    # Without annotators, the array has one dimension.
    table = values.reshape(len(annotators), len(by_sample))
    is_labelled = ~np.isnan(table)
    kappas = {}
    for first, second in combinations(range(len(annotators)), 2):
        by_both = is_labelled[first] & is_labelled[second]
        if by_both.any():
            first_passes = _passes(table[first, by_both])
            second_passes = _passes(table[second, by_both])
            names = f"{annotators[first]} and {annotators[second]}"
            kappas[names] = cohen_kappa(first_passes, second_passes)
    if not kappas or not HAS_ALPHA:
        return kappas, None
    return kappas, alpha_of_people(table)


def write_disagreements(path: Path, report: CalibrationReport, labels: Labels) -> None:
    """Write a table of the answers on which people disagree, without the annotators'
    names. Once filled in, it is read with the other tables.

    Raises ConfigError if the file exists, or is not called settled.csv.
    """
    if path.name != f"{SETTLED}.csv":
        raise ConfigError(
            f"the table must be called {SETTLED}.csv: only labels in a file of this name settle disagreements.",
            where=str(path),
        )
    refuse_existing(
        path,
        "To use its labels, pass it with the other tables. To write it anew, remove it first.",
    )
    metrics = sorted(labels.by_metric)
    rows: dict[str, dict[str, str]] = {}
    for metric, sample_id in sorted(report.unsettled):
        by_annotator = report.unsettled[metric, sample_id]
        texts = labels.texts.get(sample_id, {})
        row = rows.setdefault(sample_id, {"id": sample_id, "disagreement": "", **texts})
        words = sorted(_label_text(label) for label in by_annotator.values())
        row["disagreement"] += f"{metric}: {', '.join(words)}\n"
        if sample_id in labels.probabilities:
            row["probability"] = repr(labels.probabilities[sample_id])
    columns = ("id", *metrics, "comment", "disagreement", *TEXTS, "probability")
    write_table(path, columns, rows.values())


def _label_text(label: float) -> str:
    """A label as people write it: pass, fail or a number."""
    return {1.0: "pass", 0.0: "fail"}.get(label, score(label))
