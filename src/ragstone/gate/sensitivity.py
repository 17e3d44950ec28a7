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
from ragstone.gate.bounds import BoundCheck, answer_table, answers_per_sample
from ragstone.gate.confirm import ASK, FAIL
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
    Questions,
    row_means,
    scores_by_row,
)
from ragstone.stats.score_model import ScoreModel, learn
from ragstone.stats.sensitivity import (
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

    def samples_needed(self, rule: LossRule, loss: float) -> int | None:
        """How many questions like these find `loss` in 4 of 5 runs; None: no number
        does."""
        rows = len(self.model.weights)
        needed = rows_needed(self.model, rule, loss)
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
        scores = known_scores(rule, run, size=size)
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
    return _loss_rule(
        rule.max_drop or 0.0,
        policy,
        run,
        number_of_tests(metrics, parts=True),
        runs=1,
        first=1 if run is None else answers_per_sample(run),
    )


def _loss_rule(
    allowed: float,
    policy: Policy,
    run: RunScores | None,
    tests: float,
    *,
    runs: int,
    first: int,
) -> LossRule:
    alpha = policy.alpha / tests
    fails = asks = FAIL * alpha
    answers = first
    if policy.gate.asks_again and (run is None or not is_recorded(run)):
        asks = ASK * alpha
        answers += policy.gate.confirm_repeats
    return LossRule(fails, asks, answers, allowed, runs, first)


def simulated_loss(drop: BoundCheck, evidence: Evidence, tests: float) -> float | None:
    """The smallest loss of a drop's metric that fails in 4 of 5 runs, by simulating the
    test; None: none at all.

    It is one of so many `tests` that share the error rate.
    """
    if drop.change is None:
        return None
    pairs = Questions(drop.change)
    then, now = pairs.then, pairs.now
    first = now.shape[1]
    if evidence.confirmed:
        first = max(1, first - evidence.policy.gate.confirm_repeats)
    rule = _loss_rule(
        0.0 - drop.bound,
        evidence.policy,
        evidence.current,
        tests,
        runs=then.shape[1],
        first=first,
    )
    model = _model(then.tobytes(), row_means(now).tobytes(), len(then))
    return visible_loss(model, rule)


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
    metrics = dict.fromkeys(policy.in_force, MetricScores({"sample": 1.0}))
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
        if rule.slice is None and rule.key in policy.in_force:
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
    rule: Rule, run: RunScores | None, *, size: GoldenSize | None = None
) -> KnownScores | None:
    """What is known of the scores of a metric; None if `run` has too few.

    It is learnt from several answers to each question, or from one answer each, of
    which a share TYPICAL_CHANGED is presumed to change. Without a run, questions with
    typical scores are assumed, as many as a golden set of this `size` has; those of one
    group count as one.
    """
    typical = np.tile(TYPICAL_SCORES, 5)
    typical_model = _model(typical.tobytes(), b"", len(typical))
    if run is None:
        if size is None or not size.groups:
            return KnownScores(rule.metric, typical_model, "typical scores assumed", 0)
        model = with_questions(typical_model, size.groups)
        return KnownScores(rule.metric, model, "typical scores assumed", size.samples)
    ids = tuple(sorted(run.scores_of(rule.metric).values))
    n = len(ids)
    if n < 2:
        return None
    labels = group_labels(run, ids)
    if labels is None:
        labels = np.arange(n)
    table = scores_by_row(answer_table(rule, ids, run), labels)
    if np.ptp(table) == 0.0:
        source = f"{counted(n, 'equal score')}, typical ones assumed"
        model = with_questions(typical_model, len(table))
        return KnownScores(rule.metric, model, source, n)
    answers = table.shape[1]
    source = f"{n} scores, {percent(TYPICAL_CHANGED)} assumed to change"
    if answers > 1:
        source = f"{counted(n, 'sample')} with {counted(answers, 'answer')} each"
    model = _model(table.tobytes(), b"", len(table))
    return KnownScores(rule.metric, model, source, n)


@lru_cache(maxsize=64)  # a run is decided several times with the same level
def _model(then: bytes, now: bytes, rows: int) -> ScoreModel:
    """The model of questions from their scores in the runs before (rows, runs), and,
    where that is one run, from those `now`, if there are any."""
    scores = np.frombuffer(then).reshape(rows, -1)
    if scores.shape[1] > 1:
        return learn(scores)
    if now:
        return model_of_pairs(scores[:, 0], np.frombuffer(now))
    return model_of_one_run(scores[:, 0])
