"""The smallest loss that a golden set shows in 4 of 5 runs, found by simulating the test
for drops on its questions."""

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
    """What is known of the scores of one metric."""

    model: ScoreModel
    """The model of the scores, with one row for each group of related questions."""
    source: str
    """What the model was learnt from, in words."""
    n: int
    """The number of questions."""

    def samples_needed(self, rule: LossRule, loss: float) -> int | None:
        """The number of questions like these that finds `loss` in 4 of 5 runs; None if
        no number does."""
        rows = len(self.model.weights)
        needed = rows_needed(self.model, rule, loss)
        if needed is None:
            return None
        questions = max(self.n, rows)
        return math.ceil(needed * questions / rows)


class DetectableLoss(Struct, frozen=True):
    """The smallest loss that the samples of a run detect in one metric."""

    metric: str
    loss: float | None
    """The smallest loss that is detected in 4 of 5 runs; None if no loss is."""
    n: int
    """The number of samples."""


def detectable_losses(
    rules: Sequence[Rule],
    policy: Policy,
    run: RunScores | None,
    *,
    paired: Iterable[DetectableLoss] = (),
    size: GoldenSize | None = None,
) -> Iterator[DetectableLoss]:
    """The losses that the blocking drops over all samples can detect; if none blocks,
    those that warn.

    For a metric in `paired`, that one is returned, which is known from its pairs. For
    others, it is learnt from the scores of `run`; without a run, typical scores of a
    golden set of this `size` are assumed.
    """
    drops = drops_sharing_error_rate(rules)
    tests = number_of_tests(len(drops), parts=True)
    loss_of_pairs = {detectable.metric: detectable for detectable in paired}
    for rule in drops:
        if rule.metric in loss_of_pairs:
            yield loss_of_pairs[rule.metric]
            continue
        scores = known_scores(rule, run, size=size)
        if scores is not None:
            test = loss_rule(rule.max_drop or 0.0, policy, run, tests=tests)
            loss = visible_loss(scores.model, test)
            yield DetectableLoss(rule.metric, loss, scores.n)


def detectable_losses_of_pairs(
    action: Action, evidence: Evidence
) -> Iterator[DetectableLoss]:
    """The losses that the drops with this action can detect, from their pairs."""
    drops = evidence.drops_with(action)
    wholes = [drop for drop in drops if drop.rule.slice is None]
    has_parts = len(wholes) < len(drops)
    if action is Action.BLOCK:
        has_parts = has_parts or bool(drops_by_tag(drops, evidence))
    tests = number_of_tests(len(wholes), parts=has_parts)
    for drop in wholes:
        loss = simulated_loss(drop, evidence, tests)
        yield DetectableLoss(drop.rule.metric, loss, len(drop.samples))


def drops_sharing_error_rate(rules: Sequence[Rule]) -> list[Rule]:
    """The drops over all samples that share an error rate: those that block; if none
    does, those that warn."""
    drops = [rule for rule in rules if rule.max_drop is not None and rule.slice is None]
    return [rule for rule in drops if rule.drop_action is Action.BLOCK] or drops


def number_of_tests(metrics: int, *, parts: bool) -> float:
    """By how much the error rate is divided among the drops of so many metrics, which
    share it with their mean and, if there are `parts`, with slices and tags."""
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
    baseline_runs: int = 1,
    first_answers: int | None = None,
) -> LossRule:
    """The rule by which a loss of more than `allowed` fails.

    It is one of so many `tests` that share the error rate. The run is compared with
    `baseline_runs` runs, and has at first as many answers to each question as `run`, or
    `first_answers`.
    """
    gate = policy.gate
    alpha = policy.alpha / tests
    if first_answers is None:
        first_answers = 1 if run is None else answers_per_sample(run)
    max_p_to_fail = FAIL_SHARE * alpha
    max_p_to_ask = max_p_to_fail
    answers = first_answers
    can_ask_again = run is None or not is_recorded(run)
    if gate.asks_again and can_ask_again:
        max_p_to_ask = ASK_SHARE * alpha
        answers += gate.confirm_repeats
    return LossRule(
        max_p_to_fail, max_p_to_ask, answers, allowed, baseline_runs, first_answers
    )


def simulated_loss(drop: Drop, evidence: Evidence, tests: float) -> float | None:
    """Simulate the test of `drop`, one of so many `tests` that share the error rate, and
    return the smallest loss that fails in 4 of 5 runs; None if no loss does."""
    questions = Questions(drop.change)
    before = questions.before
    first_answers = questions.after.shape[1]
    if evidence.was_asked_again:
        repeats = evidence.policy.gate.confirm_repeats
        first_answers = max(1, first_answers - repeats)
    rule = loss_rule(
        0.0 - drop.bound,
        evidence.policy,
        evidence.current,
        tests=tests,
        baseline_runs=before.shape[1],
        first_answers=first_answers,
    )
    means_after = row_means(questions.after)
    model = _model(before.tobytes(), means_after.tobytes(), len(before))
    return visible_loss(model, rule)


def describe_losses(
    detectable: Iterable[DetectableLoss],
) -> tuple[str, float | None]:
    """One sentence on the loss that the golden set detects, empty if no drop is
    limited; and the loss that 4 of 5 runs find in any metric, None if there is none."""
    losses = []
    detected = []
    undetected = []
    for metric in detectable:
        if metric.loss is None:
            samples = counted(metric.n, "sample")
            undetected.append(f"{metric.metric} ({samples})")
        else:
            losses.append(metric.loss)
            detected.append(f"{metric.metric} {figure(metric.loss)}")
    if undetected:
        metrics = ", ".join(undetected)
        text = (
            f"This golden set is too small to detect a loss of any size in the mean of {metrics}; ragstone "
            "plan says how many samples are needed."
        )
        return text, None
    if not losses:
        return "", None
    worst = max(losses)
    drop = f"A drop of {figure(worst)} in a mean"
    by_metric = ", ".join(detected)
    return f"{drop} would be caught 4 times in 5 ({by_metric}).", worst


def sensitivity_findings(evidence: Evidence) -> Iterator[Finding]:
    """A fact on what this golden set could have shown, if drops need evidence."""
    rules = drops_sharing_error_rate(evidence.rules)
    if evidence.policy.gate.decision != "evidence" or not rules:
        return
    paired = detectable_losses_of_pairs(rules[0].drop_action, evidence)
    losses = detectable_losses(rules, evidence.policy, evidence.current, paired=paired)
    text, loss = describe_losses(losses)
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
    """The rules of `policy` for the metrics of `run`, or, without a run, for all metrics
    in force. `offline` is whether the offline judge will score them."""
    if run is None:
        metrics = dict.fromkeys(policy.rules_in_force, MetricScores({"sample": 1.0}))
        facts = SampleFacts(tags=tuple(policy.slices))
        run = RunScores("plan", metrics, {"sample": facts})
    rules = resolve_rules(policy, run, offline=offline)
    return tuple(rule for rule in rules if rule.metric in run.metrics)


def known_scores(
    rule: Rule, run: RunScores | None, *, size: GoldenSize | None = None
) -> KnownScores | None:
    """What is known of the scores of a metric; None if `run` has less than two.

    The model is learnt from the answers to each question. If there is one each, a share
    TYPICAL_CHANGED of them is assumed to change. Without a run, or if all scores are
    equal, typical scores are assumed, of as many groups of questions as the run or a
    golden set of this `size` has.
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
def _model(before: bytes, after: bytes, rows: int) -> ScoreModel:
    """The model of questions from their scores in the runs `before` (rows, runs); if
    that is one run, also from their scores `after`, unless these are empty."""
    scores = np.frombuffer(before).reshape(rows, -1)
    runs = scores.shape[1]
    if runs >= MIN_RUNS:
        return learn(scores, unexpected_answers=UNEXPECTED_NOW)
    if runs > 1:
        return learn(scores)
    if after:
        return model_of_pairs(scores[:, 0], np.frombuffer(after))
    return model_of_one_run(scores[:, 0])
