"""What the model of a metric's scores is learnt from, and which rule a loss is simulated by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.gate.comparability import pair_runs
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.sensitivity import known_scores, loss_rule
from ragstone.golden.sample import GoldenSize
from tests.gate.conftest import build_run, make_manifest

POLICY = policy_from_mapping({"metrics": {"mrr": {"max_drop": 0.02}}})
STEADY = [(0.5, 0.5)] * 20
MIXED = [(0.4, 0.6)] * 10 + [(0.9, 1.0)] * 10
ONE_OR_THE_OTHER = [0.0, 1.0] * 20


def rule_of(run: Any) -> Rule:
    return next(rule for rule in resolve_rules(POLICY, run).rules if rule.metric == "mrr")


@pytest.mark.parametrize(
    ("now", "then", "source"),
    [
        pytest.param(ONE_OR_THE_OTHER, [1.0] * 40, "40 paired samples", id="pairs"),
        pytest.param(ONE_OR_THE_OTHER, ONE_OR_THE_OTHER, "40 scores, 40 % assumed to change", id="identical runs"),
        pytest.param(ONE_OR_THE_OTHER, None, "40 scores, 40 % assumed to change", id="scores"),
        pytest.param([0.5] * 40, None, "40 equal scores, typical ones assumed", id="no score differs"),
        pytest.param(MIXED, None, "20 samples with 2 answers each", id="several answers"),
        pytest.param(STEADY, None, "20 equal scores, typical ones assumed", id="several answers that agree"),
    ],
)
def test_what_the_model_is_learnt_from(now: Sequence[Any], then: Sequence[Any] | None, source: str) -> None:
    answers = 1 if isinstance(now[0], float) else len(now[0])
    run = build_run({"mrr": now}, manifest=make_manifest(answers=answers))
    pairing = None if then is None else pair_runs(run, build_run({"mrr": then}, manifest=run.manifest))
    known = known_scores(rule_of(run), run, pairing)
    assert known is not None
    assert known.source == source
    assert known.n == len(known.model.weights) == len(now)


def test_without_a_run_typical_scores_are_assumed_and_one_score_says_nothing() -> None:
    run = build_run({"mrr": [1.0]})
    rule = rule_of(run)
    assumed = known_scores(rule, None, None, size=GoldenSize(samples=7, groups=4))
    assert assumed is not None
    assert (assumed.n, len(assumed.model.weights)) == (7, 4)
    assert known_scores(rule, run, None) is None


def test_related_samples_count_as_one_and_more_of_them_are_needed() -> None:
    scores = [0.0] * 4 + [1.0] * 36
    groups = {f"s{index}": f"g{index // 4}" for index in range(40)}
    run = build_run({"mrr": scores}, groups=groups)
    known, alone = known_scores(rule_of(run), run, None), known_scores(rule_of(run), build_run({"mrr": scores}), None)
    assert known is not None
    assert alone is not None
    assert (known.n, len(known.model.weights)) == (40, 10)
    rule = loss_rule(rule_of(run), POLICY, run, metrics=1)
    grouped, single = known.samples_needed(rule, 0.1), alone.samples_needed(rule, 0.1)
    assert grouped is not None
    assert single is not None
    assert grouped > 2 * single


def test_more_metrics_share_the_error_rate_and_more_answers_are_the_first_look() -> None:
    run = build_run({"mrr": [0.5, 1.0]})
    one, four = (loss_rule(rule_of(run), POLICY, None, metrics=metrics) for metrics in (1, 4))
    assert four.fails < one.fails < one.asks
    assert (one.first, one.answers) == (1, 1 + POLICY.gate.confirm_repeats)
    thrice = build_run({"mrr": [(0.5, 1.0, 0.5)] * 2}, manifest=make_manifest(answers=3))
    three = loss_rule(rule_of(run), POLICY, thrice, metrics=1)
    assert (three.first, three.answers) == (3, 3 + POLICY.gate.confirm_repeats)


def test_without_asking_again_the_first_look_decides() -> None:
    run = build_run({"mrr": [0.5, 1.0]})
    policy = policy_from_mapping({"gate": {"confirm": False}, "metrics": {"mrr": {"max_drop": 0.02}}})
    rule = loss_rule(rule_of(run), policy, None, metrics=1)
    assert (rule.answers, rule.first) == (1, 1)
    assert rule.fails == rule.asks
