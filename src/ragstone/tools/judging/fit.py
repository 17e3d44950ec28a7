"""`ragstone calibrate --fit`: fit a judge to a team's labels, and grade it on labels
that it was not fitted to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.record import SampleRecord
from ragstone.judge.collect import collect_judgements
from ragstone.judge.fitted import (
    FittedFile,
    FittedModel,
    PredictionQuality,
    features_of,
)
from ragstone.judge.judgements import JudgementKind, StatementList, SupportTable
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.tools.judging.label_table import PASS_MARK, Labels
from ragstone.tools.judging.measures import Floats, auroc, brier, estimate

METRIC = "faithfulness"
"""The metric whose labels a judge is fitted to."""

MIN_LABELS = 30
"""The fewest labelled answers that a judge is fitted to."""

MIN_LABELS_OF_CLASS = 5
"""The fewest passes, and the fewest fails, among the labels: with fewer, the model
can't learn to tell them apart."""

MIN_GROUPS = 2
"""The fewest groups that the answers are of: cross-validation leaves out whole groups,
and needs one to fit to."""

FEATURE_PENALTY = 5.0
"""The loss grows by half of this, times the squared distance of each weight from where
it starts, so that few labels change the offline judge little. Weights are of
standardised features."""

_BIAS_PENALTY = 1e-3
"""The penalty of the bias, which labels may move freely. It isn't 0, because the bias
would be infinite if all labels that a fold is fitted to were passes."""

MAX_FOLDS = 10
"""The most parts that answers are divided into for cross-validation."""

_JUDGEMENT_KINDS = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})
"""What the features are computed from."""


def fit_judge(run: RunDirectory, labels: Labels) -> FittedFile:
    """Fit a judge to `labels` of the answers of `run`.

    Raises ConfigError without labels of faithfulness, or for too few.
    """
    if METRIC not in labels.by_metric:
        labelled_metrics = ", ".join(sorted(labels.by_metric)) or "no metric"
        raise ConfigError(
            f"a judge is fitted to labels of {METRIC}, but these are of {labelled_metrics}.",
            hint=f"Draw answers to label: ragstone label RUN --metrics {METRIC}",
        )
    label_by_id = labels.mean(METRIC)
    judge = OfflineJudge()
    records = run.find(sorted(label_by_id))
    features = asyncio.run(_features_by_id(judge, records))
    model = fit_model(
        rows=list(features.values()),
        labels=[label_by_id[sample_id] for sample_id in features],
        groups=[records[sample_id].sample.group or sample_id for sample_id in features],
    )
    return FittedFile(offline=judge.identity.version, faithfulness=model)


async def _features_by_id(
    judge: OfflineJudge, records: Mapping[str, SampleRecord]
) -> dict[str, dict[str, float]]:
    """Compute the features of each answer that has something to judge, by sample id."""
    features_by_id = {}
    for sample_id, record in sorted(records.items()):
        features = await _features(judge, record)
        if features is not None:
            features_by_id[sample_id] = features
    return features_by_id


async def _features(
    judge: OfflineJudge, record: SampleRecord
) -> dict[str, float] | None:
    """Compute the features of the answer in `record`; None if the system failed, or if
    the answer has no statements or contexts to judge."""
    sample = record.sample
    response = record.response
    if response.failure is not None:
        return None
    judgements = await collect_judgements(
        judge, sample, response, _JUDGEMENT_KINDS, Call(sample.id)
    )
    statements = judgements.statements
    support = judgements.support
    if not isinstance(statements, StatementList):
        return None
    if not isinstance(support, SupportTable):
        return None
    return features_of(support, statements.statements, response.contexts)


def fit_model(
    rows: Sequence[Mapping[str, float]],
    labels: Sequence[float],
    groups: Sequence[str],
) -> FittedModel:
    """Fit a model that predicts the label of an answer from its features, and grade it
    by cross-validation.

    `rows` are the features by name, of which the first is the offline judge's opinion
    in log-odds. `labels` are in [0, 1]. Answers of one group are never in both the part
    that a model is fitted to and the part that it is graded on. Raises ConfigError for
    too few labels.
    """
    label_values = np.array(labels, dtype=np.float64)
    passes = (label_values >= PASS_MARK).astype(np.float64)
    group_count = len(set(groups))
    _check_labels(passes, group_count)
    table = np.array([list(row.values()) for row in rows], dtype=np.float64)

    def grade(probabilities: Floats) -> PredictionQuality:
        ranking = estimate(auroc, probabilities, passes, groups)
        return PredictionQuality(
            auroc=ranking.value,
            low=ranking.low,
            high=ranking.high,
            brier=brier(probabilities, label_values),
        )

    bias, weights = _fit_regression(table, label_values)
    offline_opinions = np.asarray(expit(table[:, 0]))
    held_out_opinions = cross_validate(table, label_values, np.array(groups))
    return FittedModel(
        bias=bias,
        weights=dict(zip(rows[0], weights.tolist(), strict=True)),
        labels=len(labels),
        passes=int(passes.sum()),
        groups=group_count,
        cross_validated=grade(held_out_opinions),
        offline=grade(offline_opinions),
    )


def _check_labels(passes: Floats, group_count: int) -> None:
    """Raise ConfigError if a model can't be fitted to labels of these `passes` (n,),
    which are 0 or 1."""
    hint = "Label more answers: ragstone label RUN --by unsure finds passes and fails sooner."
    if len(passes) < MIN_LABELS:
        raise ConfigError(
            f"only {len(passes)} labelled answers can be used, and a judge is fitted to {MIN_LABELS} or more.",
            hint=hint,
        )
    passed = int(passes.sum())
    failed = len(passes) - passed
    for word, count in (("pass", passed), ("fail", failed)):
        if count < MIN_LABELS_OF_CLASS:
            raise ConfigError(
                f"only {count} of the labelled answers that can be used are labelled {word}, "
                f"and a judge is fitted to {MIN_LABELS_OF_CLASS} or more.",
                hint=hint,
            )
    if group_count < MIN_GROUPS:
        raise ConfigError(
            "all labelled answers that can be used are of one group, and a judge can't be graded on another.",
            hint=f"Label answers of at least {MIN_GROUPS} groups or conversations.",
        )


def cross_validate(table: Floats, labels: Floats, groups: NDArray[np.str_]) -> Floats:
    """Predict the label of each row of `table` by a model that is fitted to the other
    folds. A group is never in two folds."""
    distinct_groups, group_numbers = np.unique(groups, return_inverse=True)
    generator = np.random.default_rng(0)
    shuffled = generator.permutation(len(distinct_groups))
    fold_count = min(MAX_FOLDS, len(distinct_groups))
    folds = shuffled[group_numbers] % fold_count
    probabilities = np.zeros(len(labels))
    for fold in range(fold_count):
        is_held_out = folds == fold
        probabilities[is_held_out] = predict(
            table[~is_held_out], labels[~is_held_out], table[is_held_out]
        )
    return probabilities


def predict(table: Floats, labels: Floats, unlabelled: Floats) -> Floats:
    """Fit a model to `table` and `labels`, and predict the labels of the rows of
    `unlabelled`."""
    bias, weights = _fit_regression(table, labels)
    return np.asarray(expit(bias + unlabelled @ weights))


def _fit_regression(table: Floats, labels: Floats) -> tuple[float, Floats]:
    """Fit a penalised logistic regression: its bias, and a weight for each column of
    `table`.

    Without labels, it would repeat the offline judge: the penalty pulls the weight of
    the first column, its log-odds, to 1, and all others to 0.
    """
    mean = table.mean(axis=0)
    deviation = table.std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, 1.0)  # a constant column has none
    ones = np.ones((len(table), 1))
    standardised = (table - mean) / scale
    design = np.hstack([ones, standardised])
    start = np.zeros(design.shape[1])
    start[1] = scale[0]
    penalties = np.full(design.shape[1], FEATURE_PENALTY)
    penalties[0] = _BIAS_PENALTY
    loss = _penalised_loss(design, labels, start, penalties)
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B")
    coefficients = np.asarray(minimum.x)
    slopes = coefficients[1:]
    bias = coefficients[0] - slopes @ (mean / scale)
    return float(bias), slopes / scale


def _penalised_loss(
    design: Floats, labels: Floats, start: Floats, penalties: Floats
) -> Callable[[Floats], tuple[float, Floats]]:
    """Return a function of the coefficients that gives the loss and its gradient: the
    log loss of all labels, and the penalties for the distance from `start`."""

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        log_odds = design @ coefficients
        distance = coefficients - start
        log_losses = np.logaddexp(0.0, log_odds) - labels * log_odds
        penalty = penalties @ distance**2 / 2.0
        value = np.sum(log_losses) + penalty
        errors = expit(log_odds) - labels
        gradient = design.T @ errors + penalties * distance
        return float(value), gradient

    return loss
