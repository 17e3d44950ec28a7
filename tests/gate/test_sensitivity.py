"""What the model of a metric's scores is learnt from, which rule a loss is simulated by, and what a best run is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.confirm import ASK_SHARE, FAIL_SHARE
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.rehearsal import perfect_run
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.sensitivity import (
    DetectableLoss,
    describe_losses,
    detectable_losses,
    drops_sharing_error_rate,
    expected_rules,
    known_scores,
    loss_rule,
    number_of_tests,
)
from ragstone.gate.verdict import Action
from ragstone.golden.sample import GoldenSet, GoldenSize, Origin, Sample
from ragstone.metrics.registry import select_metrics
from ragstone.system.response import Response, TokenUsage
from tests.gate.conftest import build_run, make_manifest

POLICY = policy_from_mapping({"metrics": {"mrr": {"max_drop": 0.02}}})
MIXED = [(0.4, 0.6)] * 10 + [(0.9, 1.0)] * 10
ONE_OR_THE_OTHER = [0.0, 1.0] * 20


def rule_of(run: RunScores, policy: Policy = POLICY) -> Rule:
    return next(rule for rule in resolve_rules(policy, run) if rule.metric == "mrr")


@pytest.mark.parametrize(
    ("scores", "source"),
    [
        pytest.param(ONE_OR_THE_OTHER, "40 scores, 40 % assumed to change", id="scores"),
        pytest.param([0.5] * 40, "typical scores assumed", id="no score differs"),
        pytest.param([0.5, 1.0], "2 scores, 40 % assumed to change", id="two scores"),
        pytest.param(MIXED, "20 samples with 2 answers each", id="several answers"),
        pytest.param([(0.5, 0.5)] * 20, "typical scores assumed", id="answers that agree"),
    ],
)
def test_what_the_model_is_learnt_from(scores: Sequence[Any], source: str) -> None:
    answers = 1 if isinstance(scores[0], float) else len(scores[0])
    run = build_run({"mrr": scores}, manifest=make_manifest(answers=answers))
    known = known_scores(rule_of(run), run)
    assert known is not None
    assert known.source == source
    assert known.n == len(known.model.weights) == len(scores)


def test_without_a_run_typical_scores_are_assumed_and_one_score_says_nothing() -> None:
    run = build_run({"mrr": [1.0]})
    assumed = known_scores(rule_of(run), None, size=GoldenSize(7, 4))
    assert assumed is not None
    assert (assumed.n, len(assumed.model.weights)) == (7, 4)
    assert known_scores(rule_of(run), run) is None


def test_related_samples_count_as_one_and_more_of_them_are_needed() -> None:
    scores = [0.0] * 4 + [1.0] * 36
    run = build_run({"mrr": scores}, groups={f"s{index}": f"g{index // 4}" for index in range(40)})
    rule = loss_rule(0.02, POLICY, run, tests=number_of_tests(1, parts=True))
    known, alone = (known_scores(rule_of(one), one) for one in (run, build_run({"mrr": scores})))
    assert known is not None
    assert alone is not None
    assert (known.n, len(known.model.weights)) == (40, 10)
    assert (known.samples_needed(rule, 0.1) or 0) > 2 * (alone.samples_needed(rule, 0.1) or 1e9)
    assert known.samples_needed(rule, 0.02) is None, "no number shows what is allowed"


ASKED = build_run({"mrr": [0.5, 1.0]}, manifest=make_manifest())
THRICE = build_run({"mrr": [(0.5, 1.0, 0.5)] * 2}, manifest=make_manifest(answers=3))


@pytest.mark.parametrize(
    ("gate", "run", "first", "answers", "shares"),
    [
        ({}, None, 1, 6, (FAIL_SHARE, ASK_SHARE)),
        ({}, ASKED, 1, 6, (FAIL_SHARE, ASK_SHARE)),
        ({"confirm_repeats": 2}, THRICE, 3, 5, (FAIL_SHARE, ASK_SHARE)),
        ({"confirm": False}, ASKED, 1, 1, (FAIL_SHARE, FAIL_SHARE)),
        ({}, build_run({"mrr": [0.5, 1.0]}), 1, 1, (FAIL_SHARE, FAIL_SHARE)),  # it can't be asked again
    ],
)
def test_the_rule_that_a_loss_is_simulated_by(gate: Any, run: Any, first: int, answers: int, shares: Any) -> None:
    policy = policy_from_mapping({"gate": gate, "metrics": {"mrr": {"max_drop": 0.1}}})
    tests = number_of_tests(1, parts=True)
    rule = loss_rule(0.1, policy, run, tests=tests)
    alpha = policy.alpha / tests
    assert (rule.first_answers_per_question, rule.answers_per_question, rule.allowed) == (first, answers, 0.1)
    assert (rule.max_p_to_fail, rule.max_p_to_ask) == pytest.approx((shares[0] * alpha, shares[1] * alpha))
    assert loss_rule(0.1, policy, run, tests=4 * tests).max_p_to_fail < rule.max_p_to_fail


@pytest.mark.parametrize(("metrics", "parts"), [(1, False), (1, True), (2, False)])
def test_more_metrics_and_parts_share_the_error_rate(metrics: int, parts: bool) -> None:
    tests = number_of_tests(metrics, parts=parts)
    assert (tests == metrics) is (metrics == 1 and not parts)
    assert tests >= metrics


def test_the_drops_that_are_watched_block_or_else_warn() -> None:
    run = build_run({"mrr": ONE_OR_THE_OTHER, "tone": ONE_OR_THE_OTHER}, tags={"s0": ("x",)})
    warns = {"max_drop": 0.02, "action": "warn"}
    part = {"x": {"metrics": {"tone": {"max_drop": 0.1}}}}

    def watched(**metrics: Any) -> list[str]:
        policy = policy_from_mapping({"metrics": metrics, "slices": part, "gate": {"only_named": True}})
        return [rule.metric for rule in drops_sharing_error_rate(resolve_rules(policy, run))]

    assert watched(mrr={"max_drop": 0.02}, tone=warns) == ["mrr"]
    assert watched(mrr=warns, tone={"min": 0.5}) == ["mrr"]
    rules = resolve_rules(POLICY, run)
    assert next(detectable_losses(rules, POLICY, run, paired=[DetectableLoss("mrr", 0.3, 9)])) == DetectableLoss(
        "mrr", 0.3, 9
    )
    assert next(detectable_losses(rules, POLICY, run)).n == 40


@pytest.mark.parametrize(
    ("losses", "says", "seen"),
    [
        ([], "", None),
        ([0.1, 0.25], "A drop of 0.25 in a mean would be caught 4 times in 5 (m0 0.10, m1 0.25).", 0.25),
        ([0.1, None], "too small to detect a loss of any size in the mean of m1 (9 samples);", None),
    ],
)
def test_what_a_golden_set_detects(losses: list[float | None], says: str, seen: float | None) -> None:
    watched = [DetectableLoss(f"m{at}", loss, 9) for at, loss in enumerate(losses)]
    text, loss = describe_losses(watched)
    assert says in text
    assert bool(text) is bool(watched)
    assert loss == seen


@pytest.mark.parametrize(("offline", "action"), [(True, Action.WARN), (False, Action.BLOCK)])
def test_a_run_that_is_yet_to_be_judged_has_the_rules_of_its_judge(offline: bool, action: Action) -> None:
    rules = {rule.metric: rule for rule in expected_rules(default_policy(), None, offline=offline)}
    assert rules["answer_relevancy"].drop_action is action
    measured = expected_rules(default_policy(), build_run({"faithfulness": [1.0]}), offline=offline)
    assert [rule.metric for rule in measured] == ["faithfulness"]


# -- the best run that there could be ----------------------------------------------------------------------------------

GOLDEN = GoldenSet(
    (
        Sample(id="full", question="How far?", reference="Far.", origin=Origin("golden.jsonl", 1)),
        Sample(id="bare", question="How near?", reference=None, origin=Origin("golden.jsonl", 2)),
    )
)


@pytest.mark.parametrize(("answers", "compared"), [(1, {}), (2, {"full": 1.0, "bare": 1.0})])
def test_a_metric_has_its_best_score_where_it_applies(answers: int, compared: dict[str, float]) -> None:
    metrics = select_metrics(["faithfulness", "token_f1", "answer_stability", "hallucination"])
    manifest = make_manifest(answers=answers, state="running")
    run = perfect_run(GOLDEN, metrics, manifest, Response("How far?", "Far."))
    assert run.metrics["faithfulness"].values == {"full": 1.0, "bare": 1.0}
    assert run.metrics["hallucination"].values == {"full": 0.0, "bare": 0.0}
    assert run.metrics["token_f1"].values == {"full": 1.0}
    assert run.metrics["token_f1"].not_applicable.keys() == {"bare"}
    assert run.metrics["answer_stability"].values == compared
    assert (run.system.latencies_s, run.system.usage) == ({}, {})
    assert run.manifest is not None
    assert run.manifest.state == "finished"
    reported = perfect_run(GOLDEN, metrics, manifest, Response("?", "!", latency_s=3.0, usage=TokenUsage(1, 2)))
    assert reported.system.latencies_s == {"full": 0.0, "bare": 0.0}
    assert reported.system.usage["bare"] == TokenUsage(1, 2)
