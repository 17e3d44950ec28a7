"""`ragstone calibrate --fit`: a judge fitted to a team's own labels, and graded on
labels that it has not seen."""

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
from ragstone.judge.fitted import FittedFile, FittedModel, Graded, features_of
from ragstone.judge.judgements import JudgementKind, StatementList, SupportTable
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.tools.judging.measures import Floats, auroc, brier, estimate
from ragstone.tools.judging.table import PASS_MARK, Labels

METRIC = "faithfulness"
"""The metric whose labels a judge is fitted to."""

MIN_LABELS = 30
"""Labels that a judge is fitted to, at least."""

MIN_OF_CLASS = 5
"""Of these, at least so many pass and so many fail, or there is nothing to tell
apart."""

PENALTY = 5.0
"""Half of this times the squared weight of a standardised feature is added to the loss.
The offline judge's own opinion is pulled to its weight there, so that few labels change
little."""

FOLDS = 10
_KINDS = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})


def fit_judge(run: RunDirectory, labels: Labels) -> FittedFile:
    """The judge fitted to `labels` of the answers of `run`.

    Raises ConfigError without labels of faithfulness, or for too few.
    """
    if METRIC not in labels.by_metric:
        named = ", ".join(sorted(labels.by_metric))
        raise ConfigError(
            f"a judge is fitted to labels of {METRIC}, and these are of {named}."
        )
    people = labels.mean(METRIC)
    records = run.find(sorted(people))
    judge = OfflineJudge()

    async def features() -> dict[str, dict[str, float]]:
        rows = {}
        for sample_id, record in sorted(records.items()):
            of_record = await features_of_record(judge, record)
            if of_record is not None:
                rows[sample_id] = of_record
        return rows

    rows = asyncio.run(features())
    groups = [records[name].sample.group or name for name in rows]
    means = [people[name] for name in rows]
    model = fit_model(list(rows.values()), means, groups)
    return FittedFile(offline=judge.identity.version, faithfulness=model)


async def features_of_record(
    judge: OfflineJudge, record: SampleRecord
) -> dict[str, float] | None:
    """The features of the answer in `record`; None if there is nothing to judge in
    it."""
    sample = record.sample
    response = record.response
    if response.failure is not None:
        return None
    call = Call(sample.id)
    judgements = await collect_judgements(judge, sample, response, _KINDS, call)
    statements = judgements.statements
    table = judgements.support
    if not isinstance(statements, StatementList) or not isinstance(table, SupportTable):
        return None
    return features_of(table, statements.statements, response.contexts)


def fit_model(
    rows: Sequence[Mapping[str, float]],
    people: Sequence[float],
    groups: Sequence[str],
) -> FittedModel:
    """The model of labels in [0, 1] by features, graded by cross-validation over
    `groups`. Raises ConfigError."""
    labels = np.array(people, dtype=np.float64)
    passes = (labels >= PASS_MARK).astype(np.float64)
    hint = "Label more answers: ragstone label RUN --by unsure finds passes and fails sooner."
    if len(passes) < MIN_LABELS:
        raise ConfigError(
            f"{len(passes)} labelled answers can be used; a judge is fitted to {MIN_LABELS} or more.",
            hint=hint,
        )
    passed = int(passes.sum())
    failed = len(passes) - passed
    for word, number in (("pass", passed), ("fail", failed)):
        if number < MIN_OF_CLASS:
            raise ConfigError(
                f"only {number} of the labelled answers that can be used are labelled {word}; "
                f"a judge is fitted to {MIN_OF_CLASS} or more of each.",
                hint=hint,
            )
    values = [list(row.values()) for row in rows]
    table = np.array(values, dtype=np.float64)
    held_out = cross_validated(table, labels, np.array(groups))

    def graded(probabilities: Floats) -> Graded:
        ranking = estimate(auroc, probabilities, passes, groups)
        return Graded(
            auroc=ranking.value,
            low=ranking.low,
            high=ranking.high,
            brier=brier(probabilities, labels),
        )

    bias, weights = _fitted(table, labels)
    weight_by_feature = dict(zip(rows[0], weights.tolist(), strict=True))
    opinions = expit(table[:, 0])
    distinct_groups = set(groups)
    return FittedModel(
        bias=bias,
        weights=weight_by_feature,
        labels=len(labels),
        passes=passed,
        groups=len(distinct_groups),
        cross_validated=graded(held_out),
        offline=graded(np.asarray(opinions)),
    )


def cross_validated(table: Floats, labels: Floats, groups: NDArray[np.str_]) -> Floats:
    """For each row, the probability by a model fitted without its fold; a group is
    never in two folds."""
    names, members = np.unique(groups, return_inverse=True)
    chance = np.random.default_rng(0)
    order = chance.permutation(len(names))
    fold_count = min(FOLDS, len(names))
    folds = order[members] % fold_count
    probabilities = np.zeros(len(labels))
    for fold in np.unique(folds):
        held_out = folds == fold
        training = ~held_out
        probabilities[held_out] = predicted(
            table[training], labels[training], table[held_out]
        )
    return probabilities


def predicted(table: Floats, labels: Floats, rows: Floats) -> Floats:
    """The probabilities of `rows` by a model fitted to `table` and `labels`."""
    bias, weights = _fitted(table, labels)
    return np.asarray(expit(bias + rows @ weights))


def _fitted(table: Floats, labels: Floats) -> tuple[float, Floats]:
    """Bias and weights of the penalised logistic regression; the first weight is pulled
    to 1."""
    mean = table.mean(axis=0)
    spread = table.std(axis=0)
    scale = np.where(spread > 1e-9, spread, 1.0)
    ones = np.ones((len(table), 1))
    standardised = (table - mean) / scale
    rows = np.hstack([ones, standardised])
    centre = np.zeros(rows.shape[1])
    centre[1] = scale[0]
    penalty = np.full(rows.shape[1], PENALTY)
    penalty[0] = 1e-3
    loss = _loss(rows, labels, centre, penalty)
    minimum = minimize(loss, centre, jac=True, method="L-BFGS-B")
    weights = np.asarray(minimum.x)
    slopes = weights[1:]
    bias = weights[0] - slopes @ (mean / scale)
    return float(bias), slopes / scale


def _loss(
    rows: Floats, labels: Floats, centre: Floats, penalty: Floats
) -> Callable[[Floats], tuple[float, Floats]]:
    """The loss of weights, and its gradient."""

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds = rows @ weights
        distance = weights - centre
        losses = np.logaddexp(0.0, odds) - labels * odds
        pull = penalty @ distance**2 / 2.0
        value = np.sum(losses) + pull
        errors = expit(odds) - labels
        gradient = rows.T @ errors + penalty * distance
        return float(value), gradient

    return loss
