"""Which loss a golden set shows in 4 of 5 runs, found by simulating the test for drops
on its questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import counted, figure, percent
from ragstone.gate.bounds import BoundCheck, answer_table, answers_per_sample, questions
from ragstone.gate.comparability import Pairing
from ragstone.gate.confirm import LAST, ONCE
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Finding, Level
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.question_changes import is_recorded, least_that_fails
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import CHANGES, Action, Check, CheckKind, Sensitivity
from ragstone.golden.sample import GoldenSize
from ragstone.stats.losses import (
    MEAN_WEIGHT,
    PARTS_SHARE,
    Floats,
    Ints,
    row_means,
    scores_by_row,
)
from ragstone.stats.score_model import ScoreModel, learn
from ragstone.stats.sensitivity import (
    POWER,
    TYPICAL_CHANGED,
    TYPICAL_SCORES,
    LossRule,
    model_of_one_run,
    model_of_pairs,
    rows_needed,
    visible_loss,
    with_questions,
)


@dataclass(frozen=True, slots=True)
class KnownScores:
    """The model of the scores of one metric. Related questions count as one of the
    model's."""

    metric: str
    model: ScoreModel
    source: str
    """What it was learnt from."""
    n: int
    """The number of questions."""

    def samples_needed(
        self, rule: LossRule, loss: float, *, power: float = POWER
    ) -> int | None:
        """How many questions like these find `loss` with `power`; None: no number
        does."""
        rows = len(self.model.weights)
        needed = rows_needed(self.model, rule, loss, power=power)
        if needed is None:
            return None
        return math.ceil(needed * max(self.n, rows) / rows)


@dataclass(frozen=True, slots=True)
class Sight:
    """What the samples of a run detect in one metric."""

    metric: str
    loss: float | None
    """The smallest loss that is detected in 4 of 5 runs; None: none at all."""
    n: int
    """The number of samples."""


def sights(
    rules: Sequence[Rule],
    policy: Policy,
    run: RunScores | None,
    *,
    checks: Sequence[Check] = (),
    size: GoldenSize | None = None,
) -> list[Sight]:
    """What the blocking drop rules over all samples can detect; if none blocks, those
    that warn.

    For a checked drop (`checks`), it is known from its pairs. Without a baseline, it is
    learnt from the scores of `run`; without a run, typical scores of a golden set of
    this `size` are assumed.
    """
    drops = watched_drops(rules)
    checked = {
        check.metric: check
        for check in checks
        if check.kind in CHANGES and check.slice is None
    }
    watched = []
    for rule in drops:
        if rule.metric in checked:
            check = checked[rule.metric]
            watched.append(Sight(rule.metric, check.detectable_drop, check.n))
            continue
        scores = known_scores(rule, run, None, size=size)
        if scores is not None:
            loss = visible_loss(
                scores.model, loss_rule(rule, policy, run, metrics=len(drops))
            )
            watched.append(Sight(rule.metric, loss, scores.n))
    return watched


def watched_drops(rules: Sequence[Rule]) -> list[Rule]:
    """The drops over all samples that share an error rate: those that block; if none
    does, those that warn."""
    drops = [rule for rule in rules if rule.max_drop is not None and rule.slice is None]
    return [rule for rule in drops if rule.drop_action is Action.BLOCK] or drops


def number_of_tests(metrics: int, *, parts: bool) -> float:
    """Who shares the error rate with the drop of one of so many metrics: their mean,
    and the parts."""
    tests = float(metrics)
    if metrics > 1:
        tests += MEAN_WEIGHT
    if parts:
        tests /= 1.0 - PARTS_SHARE
    return tests


def loss_rule(
    rule: Rule, policy: Policy, run: RunScores | None, *, metrics: int
) -> LossRule:
    """When a loss beyond `rule`, which is one of so many `metrics`, fails a run with as
    many answers as `run`."""
    answers = 1 if run is None else answers_per_sample(run)
    tests = number_of_tests(metrics, parts=True)
    is_asked_again = policy.gate.asks_again and (run is None or not is_recorded(run))
    return _look_rule(
        policy,
        tests,
        rule.max_drop or 0.0,
        runs=1,
        first=answers,
        is_asked_again=is_asked_again,
    )


def _look_rule(
    policy: Policy,
    tests: float,
    allowed: float,
    *,
    runs: int,
    first: int,
    is_asked_again: bool,
) -> LossRule:
    alpha = policy.alpha / tests
    if not is_asked_again:
        return LossRule(
            ONCE.fail * alpha, ONCE.fail * alpha, first, allowed, runs, first
        )
    return LossRule(
        LAST.fail * alpha,
        ONCE.ask * alpha,
        first + policy.gate.confirm_repeats,
        allowed,
        runs,
        first,
    )


def simulated_loss(
    drop: BoundCheck, evidence: Evidence, labels: Ints | None, tests: float
) -> float | None:
    """The smallest loss of a drop's metric that fails in 4 of 5 runs, by simulating the
    test; None: none at all.

    It is one of so many `tests` that share the error rate; `labels` are the groups of
    all samples.
    """
    if drop.change is None:
        return None
    gate = evidence.policy.gate
    then = scores_by_row(drop.change.then, drop.change.units, labels)
    now = scores_by_row(drop.change.now, drop.change.units, labels)
    answers = now.shape[1]
    if evidence.confirmed:
        answers -= gate.confirm_repeats
    rule = _look_rule(
        evidence.policy,
        tests,
        0.0 - drop.bound,
        runs=then.shape[1],
        first=max(1, answers),
        is_asked_again=gate.asks_again and not is_recorded(evidence.current),
    )
    return visible_loss(_model_of_pairs(then, now), rule)


def resolution(watched: Sequence[Sight]) -> str | None:
    """One sentence on what the golden set detects; None if no drop is limited."""
    if not watched:
        return None
    blind = [
        f"{sight.metric} ({counted(sight.n, 'sample')})"
        for sight in watched
        if sight.loss is None
    ]
    if blind:
        return (
            f"This golden set is too small to detect a loss of any size in the mean of {', '.join(blind)}; "
            "ragstone plan says how many samples are needed."
        )
    losses = ", ".join(
        f"{sight.metric} {figure(sight.loss or 0.0)}" for sight in watched
    )
    worst = figure(visible(watched) or 0.0)
    return f"A drop of {worst} in a mean would be caught 4 times in 5 ({losses})."


def sensitivity_findings(evidence: Evidence) -> Iterator[Finding]:
    """What this golden set could have shown, where drops need evidence."""
    if evidence.policy.gate.decision != "evidence":
        return
    watched = sights(
        evidence.rules, evidence.policy, evidence.current, checks=evidence.decided
    )
    text = resolution(watched)
    if text is None:
        return
    loss = visible(watched)
    broken = least_that_fails(evidence)
    if loss is not None and broken is not None and evidence.compared is not None:
        loss = max(loss, broken / len(evidence.compared.samples))
    yield Finding("sensitivity", Level.FACT, text, data=Sensitivity(loss, broken))


def visible(watched: Sequence[Sight]) -> float | None:
    """The loss that 4 of 5 runs find in each metric; None if in some none is found, or
    none is watched."""
    losses = [sight.loss for sight in watched if sight.loss is not None]
    if losses and len(losses) == len(watched):
        return max(losses)
    return None


def imagined_run(policy: Policy) -> RunScores:
    """A run that measured the metrics in the policy, for resolving its rules."""
    metrics = dict.fromkeys(policy.metrics, MetricScores({"sample": 1.0}))
    return RunScores(
        "plan", metrics, {"sample": SampleFacts(tags=tuple(policy.slices))}
    )


def as_judged(
    rules: Sequence[Rule], policy: Policy, *, offline: bool
) -> tuple[Rule, ...]:
    """`rules` for a run that is yet to be judged: what blocks can depend on whether the
    judge is the offline one."""
    judged = []
    for rule in rules:
        if rule.slice is None and rule.key in policy.metrics:
            floor_action = policy.action_for(
                rule.key, CheckKind.FLOOR, offline_judge=offline
            )
            drop_action = policy.action_for(
                rule.key, CheckKind.DROP, offline_judge=offline
            )
            rule = replace(rule, floor_action=floor_action, drop_action=drop_action)
        judged.append(rule)
    return tuple(judged)


def expected_rules(
    policy: Policy, run: RunScores | None, *, offline: bool
) -> tuple[Rule, ...]:
    """The rules of `policy` for the metrics of `run`; without one, for a run that is
    yet to be judged."""
    measured = imagined_run(policy) if run is None else run
    rules = resolve_rules(policy, measured)
    if run is None:
        rules = as_judged(rules, policy, offline=offline)
    return tuple(rule for rule in rules if rule.metric in measured.metrics)


def known_scores(
    rule: Rule,
    run: RunScores | None,
    pairing: Pairing | None,
    *,
    size: GoldenSize | None = None,
) -> KnownScores | None:
    """What is known of the scores of a metric; None if `run` has too few.

    It is learnt from the differences between two runs, from several answers to each
    question, or from one answer each, of which a share TYPICAL_CHANGED is presumed to
    change. Without a run, questions with typical scores are assumed, as many as a
    golden set of this `size` has; those of one group count as one.
    """
    if run is None:
        size = size or GoldenSize(0, 0)
        return KnownScores(
            rule.metric, _typical(size.groups), "typical scores assumed", size.samples
        )
    if pairing is not None:
        paired = _from_pairs(rule, run, pairing)
        if paired is not None:
            return paired
    ids = tuple(sorted(run.scores_of(rule.metric).values))
    n = len(ids)
    if n < 2:
        return None
    units = np.arange(n, dtype=np.int64)
    table = scores_by_row(answer_table(rule, ids, run), units, group_labels(run, ids))
    if np.ptp(table) == 0.0:
        source = f"{counted(n, 'equal score')}, typical ones assumed"
        return KnownScores(rule.metric, _typical(len(table)), source, n)
    answers = table.shape[1]
    source = f"{n} scores, {percent(TYPICAL_CHANGED)} assumed to change"
    if answers > 1:
        source = f"{counted(n, 'sample')} with {counted(answers, 'answer')} each"
    return KnownScores(rule.metric, _model(table), source, n)


def _from_pairs(rule: Rule, run: RunScores, pairing: Pairing) -> KnownScores | None:
    """From the differences between two runs; None if there are none: identical runs
    tell nothing."""
    drop = next(
        (
            check
            for check in questions(run, pairing, [rule])
            if check.kind is CheckKind.DROP
        ),
        None,
    )
    if drop is None or drop.change is None or not drop.values.any():
        return None
    labels = group_labels(run, drop.ids)
    then = scores_by_row(drop.change.then, drop.change.units, labels)
    now = scores_by_row(drop.change.now, drop.change.units, labels)
    questions_compared = len(drop.units)
    source = counted(questions_compared, "paired sample")
    return KnownScores(
        rule.metric, _model_of_pairs(then, now), source, questions_compared
    )


def _typical(count: int) -> ScoreModel:
    """The model of typical scores of `count` questions; if that is 0, of as many as it
    was learnt from."""
    model = _model(np.tile(TYPICAL_SCORES, 5)[:, None])
    if not count:
        return model
    return with_questions(model, count)


def _model_of_pairs(then: Floats, now: Floats) -> ScoreModel:
    """The model of questions with scores of some runs `then` (n, k), or of one and of
    `now`."""
    if then.shape[1] > 1:
        return _model(then)
    return _learnt(then.tobytes(), row_means(now).tobytes(), then.shape)


def _model(table: Floats) -> ScoreModel:
    """The model of questions from their scores (n, k)."""
    return _learnt(table.tobytes(), b"", table.shape)


@lru_cache(maxsize=64)  # a run is decided several times with the same level
def _learnt(scores: bytes, next_scores: bytes, shape: tuple[int, int]) -> ScoreModel:
    table = np.frombuffer(scores, dtype=np.float64).reshape(shape)
    if next_scores:
        return model_of_pairs(table[:, 0], np.frombuffer(next_scores, dtype=np.float64))
    if shape[1] > 1:
        return learn(table)
    return model_of_one_run(table[:, 0])
