"""Which loss a golden set shows in 4 of 5 runs, found by simulating the test for drops
on its questions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.formatting import counted, figure, percent
from ragstone.gate.bounds import Drop, answer_table, answers_per_sample
from ragstone.gate.checks.drops import drops_by_tag
from ragstone.gate.confirm import ASK_SHARE, FAIL_SHARE
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import SENSITIVITY, Finding, Level
from ragstone.gate.grouping import group_labels
from ragstone.gate.policy import Policy
from ragstone.gate.question_changes import is_recorded, least_that_fails
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import Action, Sensitivity
from ragstone.golden.sample import GoldenSize
from ragstone.stats.losses import (
    MEAN_WEIGHT,
    MIN_RUNS,
    PARTS_SHARE,
    Questions,
    row_means,
    scores_by_row,
)
from ragstone.stats.score_model import UNEXPECTED_NOW, ScoreModel, learn
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


class KnownScores(Struct, frozen=True):
    """The model of the scores of one metric. Related questions count as one of the
    model's."""

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
        questions = max(self.n, rows)
        return math.ceil(needed * questions / rows)


class Sight(Struct, frozen=True):
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
    paired: Iterable[Sight] = (),
    size: GoldenSize | None = None,
) -> Iterator[Sight]:
    """What the blocking drop rules over all samples can detect; if none blocks, those
    that warn.

    Of a metric in `paired`, it is known from its pairs. Without a baseline, it is
    learnt from the scores of `run`; without a run, typical scores of a golden set of
    this `size` are assumed.
    """
    drops = watched_drops(rules)
    tests = number_of_tests(len(drops), parts=True)
    paired_sight = {sight.metric: sight for sight in paired}
    for rule in drops:
        if rule.metric in paired_sight:
            yield paired_sight[rule.metric]
            continue
        scores = known_scores(rule, run, size=size)
        if scores is not None:
            allowed = rule.max_drop or 0.0
            looks = loss_rule(allowed, policy, run, tests=tests)
            loss = visible_loss(scores.model, looks)
            yield Sight(rule.metric, loss, scores.n)


def paired_sights(action: Action, evidence: Evidence) -> Iterator[Sight]:
    """What the drops that block (or warn) can detect, of those that have pairs."""
    family = evidence.drops_with(action)
    wholes = [drop for drop in family if drop.rule.slice is None]
    parts = len(wholes) < len(family)
    if action is Action.BLOCK:
        parts = parts or bool(drops_by_tag(family, evidence))
    tests = number_of_tests(len(wholes), parts=parts)
    for drop in wholes:
        loss = simulated_loss(drop, evidence, tests)
        yield Sight(drop.rule.metric, loss, len(drop.samples))


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
    allowed: float,
    policy: Policy,
    run: RunScores | None,
    *,
    tests: float,
    runs: int = 1,
    first: int | None = None,
) -> LossRule:
    """When a loss of more than `allowed` fails a run with as many answers as `run`, or
    with `first` answers, beside a level of so many `runs`.

    It is one of so many `tests` that share the error rate.
    """
    gate = policy.gate
    alpha = policy.alpha / tests
    if first is None:
        first = 1 if run is None else answers_per_sample(run)
    fails = FAIL_SHARE * alpha
    asks = fails
    answers = first
    can_ask_again = run is None or not is_recorded(run)
    if gate.asks_again and can_ask_again:
        asks = ASK_SHARE * alpha
        answers += gate.confirm_repeats
    return LossRule(fails, asks, answers, allowed, runs, first)


def simulated_loss(drop: Drop, evidence: Evidence, tests: float) -> float | None:
    """The smallest loss of a drop's metric that fails in 4 of 5 runs, by simulating the
    test; None: none at all.

    It is one of so many `tests` that share the error rate.
    """
    pairs = Questions(drop.change)
    then = pairs.before
    now = pairs.after
    first = now.shape[1]
    if evidence.was_asked_again:
        repeats = evidence.policy.gate.confirm_repeats
        first = max(1, first - repeats)
    rule = loss_rule(
        0.0 - drop.bound,
        evidence.policy,
        evidence.current,
        tests=tests,
        runs=then.shape[1],
        first=first,
    )
    means_now = row_means(now)
    rows = len(then)
    model = _model(then.tobytes(), means_now.tobytes(), rows)
    return visible_loss(model, rule)


def resolution(watched: Iterable[Sight]) -> tuple[str, float | None]:
    """One sentence on what the golden set detects, empty if no drop is limited; and the
    loss that 4 of 5 runs find in each metric, None if in some none is found."""
    losses = []
    visible = []
    blind = []
    for sight in watched:
        if sight.loss is None:
            samples = counted(sight.n, "sample")
            blind.append(f"{sight.metric} ({samples})")
        else:
            losses.append(sight.loss)
            visible.append(f"{sight.metric} {figure(sight.loss)}")
    if blind:
        metrics = ", ".join(blind)
        text = (
            f"This golden set is too small to detect a loss of any size in the mean of {metrics}; ragstone "
            "plan says how many samples are needed."
        )
        return text, None
    if not losses:
        return "", None
    worst = max(losses)
    drop = f"A drop of {figure(worst)} in a mean"
    by_metric = ", ".join(visible)
    return f"{drop} would be caught 4 times in 5 ({by_metric}).", worst


def sensitivity_findings(evidence: Evidence) -> Iterator[Finding]:
    """What this golden set could have shown, where drops need evidence."""
    rules = watched_drops(evidence.rules)
    if evidence.policy.gate.decision != "evidence" or not rules:
        return
    paired = paired_sights(rules[0].drop_action, evidence)
    watched = sights(rules, evidence.policy, evidence.current, paired=paired)
    text, loss = resolution(watched)
    if not text:
        return
    broken = least_that_fails(evidence)
    if loss is not None and broken is not None:
        paired_samples = len(evidence.compared.samples)
        loss = max(loss, broken / paired_samples)
    sensitivity = Sensitivity(loss, broken)
    yield Finding(SENSITIVITY, Level.FACT, text, data=sensitivity)


def expected_rules(
    policy: Policy, run: RunScores | None, *, offline: bool
) -> tuple[Rule, ...]:
    """The rules of `policy` for the metrics of `run`, or else for all metrics in the
    policy; `offline` is whether the offline judge will score them."""
    if run is None:
        metrics = dict.fromkeys(policy.rules_in_force, MetricScores({"sample": 1.0}))
        facts = SampleFacts(tags=tuple(policy.slices))
        run = RunScores("plan", metrics, {"sample": facts})
    rules = resolve_rules(policy, run, offline=offline)
    return tuple(rule for rule in rules if rule.metric in run.metrics)


def known_scores(
    rule: Rule, run: RunScores | None, *, size: GoldenSize | None = None
) -> KnownScores | None:
    """What is known of the scores of a metric; None if `run` has too few.

    It is learnt from several answers to each question, or from one answer each, of
    which a share TYPICAL_CHANGED is presumed to change. Without a run, or where all
    scores are equal, typical scores are assumed, of as many questions as the run or a
    golden set of this `size` has; those of one group count as one.
    """
    n = 0
    rows = 0
    if size is not None:
        n = size.sample_count
        rows = size.group_count
    if run is not None:
        ids = tuple(sorted(run.scores_of(rule.metric).values))
        n = len(ids)
        if n < 2:
            return None
        labels = group_labels(run, ids)
        if labels is None:
            labels = np.arange(n)
        scores = answer_table(rule, ids, run)
        table = scores_by_row(scores, labels)
        rows, answers = table.shape
        if np.ptp(table) > 0.0:
            changed = percent(TYPICAL_CHANGED)
            source = f"{n} scores, {changed} assumed to change"
            if answers > 1:
                samples = counted(n, "sample")
                answers_each = counted(answers, "answer")
                source = f"{samples} with {answers_each} each"
            model = _model(table.tobytes(), b"", rows)
            return KnownScores(model, source, n)
    typical = np.tile(TYPICAL_SCORES, 5)
    model = _model(typical.tobytes(), b"", len(typical))
    if rows:
        model = with_questions(model, rows)
    return KnownScores(model, "typical scores assumed", n)


@lru_cache(maxsize=64)  # a run is decided several times with the same level
def _model(then: bytes, now: bytes, rows: int) -> ScoreModel:
    """The model of questions from their scores in the runs before (rows, runs), and,
    where that is one run, from those `now`, if there are any."""
    scores = np.frombuffer(then).reshape(rows, -1)
    runs = scores.shape[1]
    if runs >= MIN_RUNS:
        return learn(scores, unexpected_answers=UNEXPECTED_NOW)
    if runs > 1:
        return learn(scores)
    if now:
        return model_of_pairs(scores[:, 0], np.frombuffer(now))
    return model_of_one_run(scores[:, 0])
