"""`ragstone calibrate --fit`: a judge fitted to a team's own labels, and graded on labels that it has not seen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.record import SampleRecord
from ragstone.judge.collect import collect_judgements
from ragstone.judge.fitted import FittedFile, FittedModel, Graded, features_of
from ragstone.judge.judgements import JudgementKind, StatementList, SupportTable
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.tools.judging.labels import PASS_MARK, Labels
from ragstone.tools.judging.measures import auroc, estimate

Floats = NDArray[np.float64]

METRIC = "faithfulness"
"""The metric whose labels a judge is fitted to."""

MIN_OF_CLASS = 10
"""Samples (or groups) with labels of each class that are needed."""

PENALTY = 5.0
"""Half of this times the squared weight of a standardised feature is added to the loss. The offline judge's own opinion
is pulled to its weight there, so that few labels change little."""

FOLDS = 10
_STEPS = 100
_KINDS = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})


def fit_judge(run: RunDirectory, labels: Labels, *, seed: int = 0) -> FittedFile:
    """The judge fitted to `labels` of the answers of `run`.

    Raises ConfigError without labels of faithfulness, or for too few of one class.
    """
    if METRIC not in labels.by_metric:
        named = ", ".join(sorted(labels.by_metric))
        raise ConfigError(f"a judge is fitted to labels of {METRIC}, and these are of {named}.")
    people = labels.mean(METRIC)
    records = run.find(sorted(people))
    judge = OfflineJudge()

    async def features() -> dict[str, dict[str, float]]:
        found = {name: await features_of_record(judge, records[name]) for name in sorted(records)}
        return {name: row for name, row in found.items() if row is not None}

    rows = asyncio.run(features())
    groups = [records[name].sample.group or name for name in rows]
    model = fit_model(list(rows.values()), [people[name] for name in rows], groups, seed=seed)
    return FittedFile(offline=judge.identity.version, faithfulness=model)


async def features_of_record(judge: OfflineJudge, record: SampleRecord) -> dict[str, float] | None:
    """The features of the answer in `record`; None if there is nothing to judge in it."""
    if record.response.failure is not None:
        return None
    call = Call(record.sample.id)
    found = await collect_judgements(judge, record.sample, record.response, _KINDS, call)
    statements, table = found.statements, found.support
    if not isinstance(statements, StatementList) or not isinstance(table, SupportTable):
        return None
    return features_of(table, statements.statements, record.response.contexts)


def fit_model(
    rows: Sequence[dict[str, float]], people: Sequence[float], groups: Sequence[str], *, seed: int = 0
) -> FittedModel:
    """The model of labels in [0, 1] by features, graded by cross-validation over `groups`. Raises ConfigError."""
    labels, names = np.array(people, dtype=np.float64), np.array(groups)
    passes = labels >= PASS_MARK
    for word, one in (("pass", passes), ("fail", ~passes)):
        if (found := len(np.unique(names[one]))) < MIN_OF_CLASS:
            raise ConfigError(
                f"only {found} samples or groups with the label {word} can be used; a judge is fitted to "
                f"{MIN_OF_CLASS} or more of each class.",
                hint="Label more answers: ragstone label draw RUN --by uncertainty finds both classes sooner.",
            )
    table = np.array([list(row.values()) for row in rows], dtype=np.float64)
    opinions = cross_validated(table, labels, names, seed=seed), table[:, 0]
    graded = [estimate(auroc, one, passes.astype(np.float64), groups, seed=seed) for one in opinions]
    fitted, offline = (Graded(auroc=one.value, low=one.low, high=one.high) for one in graded)
    bias, weights = _fitted(table, labels)
    return FittedModel(
        bias=bias,
        weights=dict(zip(rows[0], weights.tolist(), strict=True)),
        labels=len(labels),
        passes=int(passes.sum()),
        groups=len(np.unique(names)),
        cross_validated=fitted,
        offline=offline,
    )


def cross_validated(table: Floats, labels: Floats, groups: NDArray[np.str_], *, seed: int = 0) -> Floats:
    """For each row, the probability by a model fitted without its fold; a group is never in two folds."""
    names, members = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(seed).permutation(len(names))[members] % min(FOLDS, len(names))
    found = np.zeros(len(labels))
    for one in np.unique(fold):
        out = fold == one
        found[out] = predicted(table[~out], labels[~out], table[out])
    return found


def predicted(table: Floats, labels: Floats, others: Floats) -> Floats:
    """The probabilities of the rows `others` by a model fitted to `table` and `labels`."""
    bias, weights = _fitted(table, labels)
    return _logistic(bias + others @ weights)


def _fitted(table: Floats, labels: Floats) -> tuple[float, Floats]:
    """Bias and weights of the penalised logistic regression, by Newton's method; the first weight is pulled to 1."""
    mean, spread = table.mean(axis=0), table.std(axis=0)
    sd = np.where(spread > 1e-9, spread, 1.0)
    rows = np.hstack([np.ones((len(table), 1)), (table - mean) / sd])
    centre, penalty = np.zeros(rows.shape[1]), np.full(rows.shape[1], PENALTY)
    centre[1], penalty[0] = sd[0], 1e-3

    def loss(weights: Floats) -> float:
        z = rows @ weights
        return float(np.sum(np.logaddexp(0.0, z) - labels * z) + penalty @ (weights - centre) ** 2 / 2)

    weights = centre.copy()
    for _ in range(_STEPS):
        chance = _logistic(rows @ weights)
        slope = rows.T @ (chance - labels) + penalty * (weights - centre)
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        while loss(weights - step) > loss(weights) and float(np.abs(step).max()) > 1e-9:
            step = step / 2
        weights = weights - step
        if float(np.abs(step).max()) < 1e-9:
            break
    return float(weights[0] - weights[1:] @ (mean / sd)), weights[1:] / sd


def _logistic(z: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -40.0, 40.0))))
