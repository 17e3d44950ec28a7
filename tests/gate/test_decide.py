"""The verdict: three ways, one family, and an exit code for each end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores
from ragstone.gate.confirm import doubts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, GateVerdict, Status
from ragstone.metrics.score import Failed

MakeRun = Callable[..., RunScores]

HIGH = [1.0, 0.9, 0.95, 1.0] * 15
MIDDLING = [1.0, 0.8, 0.6, 1.0] * 15
LOW = [0.5, 0.3, 0.6, 0.4] * 15


def policy(**tables: Any) -> Policy:
    return policy_from_mapping(tables)


def floor(minimum: float, **gate: Any) -> Policy:
    return policy(gate={"only_named": True, **gate}, metrics={"faithfulness": {"min": minimum}})


def drop(allowed: float, **gate: Any) -> Policy:
    return policy(gate={"only_named": True, **gate}, metrics={"faithfulness": {"max_drop": allowed}})


def only(verdict: GateVerdict, kind: CheckKind) -> Check:
    found = [check for check in verdict.checks if check.kind is kind]
    assert len(found) == 1, found
    return found[0]


def test_a_mean_that_is_shown_to_be_above_its_floor_passes(run: MakeRun) -> None:
    verdict = decide_gate(run({"faithfulness": HIGH}), None, floor(0.85))
    check = only(verdict, CheckKind.FLOOR)
    assert (verdict.status, verdict.exit_code, check.status) == (Status.PASS, 0, Status.PASS)
    assert check.interval is not None
    assert check.interval.low > 0.85
    assert "the floor of 0.85 holds" in check.reason


def test_a_mean_that_is_shown_to_be_below_its_floor_fails(run: MakeRun) -> None:
    verdict = decide_gate(run({"faithfulness": LOW}), None, floor(0.85))
    check = only(verdict, CheckKind.FLOOR)
    assert (verdict.status, verdict.exit_code, check.status) == (Status.FAIL, 1, Status.FAIL)
    assert check.interval is not None
    assert check.interval.high < 0.85
    assert check.estimate == pytest.approx(0.45)
    assert verdict.reason.startswith("faithfulness is 0.45 on 60 samples")


@pytest.mark.parametrize(
    ("inconclusive", "status", "code"), [("pass", "pass", 0), ("warn", "inconclusive", 0), ("fail", "inconclusive", 8)]
)
def test_what_can_be_told_neither_way_is_inconclusive_and_does_what_the_policy_says(
    run: MakeRun, inconclusive: str, status: str, code: int
) -> None:
    verdict = decide_gate(run({"faithfulness": MIDDLING}), None, floor(0.88, inconclusive=inconclusive))
    check = only(verdict, CheckKind.FLOOR)
    assert check.status is Status.INCONCLUSIVE
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert check.n_more is not None
    assert check.n_more > 0
    assert "below the floor of 0.88, but not shown to be; about" in check.reason
    assert "more samples would settle it" in check.reason


def test_a_mean_near_its_floor_passes_since_nothing_is_held_against_it(run: MakeRun) -> None:
    verdict = decide_gate(run({"faithfulness": MIDDLING}), None, floor(0.84))
    assert (verdict.status, verdict.warnings) == (Status.PASS, ())
    assert only(verdict, CheckKind.FLOOR).reason.endswith("not below the floor of 0.84.")


def test_a_mean_below_its_floor_by_no_more_than_chance_passes_with_a_warning(run: MakeRun) -> None:
    # 11 of 20 where 12 were asked for: a system exactly at the floor does no better in two of five runs.
    verdict = decide_gate(run({"faithfulness": [1.0] * 11 + [0.0] * 9}), None, floor(0.6))
    check = only(verdict, CheckKind.FLOOR)
    assert (verdict.status, check.status) == (Status.PASS, Status.PASS)
    assert verdict.warnings == (check.reason,)
    assert check.reason.endswith("below the floor of 0.60, but not by more than chance explains.")
    assert check.n_more
    nine = decide_gate(run({"faithfulness": [1.0] * 9 + [0.0] * 11}), None, floor(0.6))
    assert nine.status is Status.INCONCLUSIVE


def test_a_drop_that_chance_explains_passes_and_says_so(run: MakeRun) -> None:
    baseline = run({"faithfulness": [0.5, 0.6, 0.7, 0.8] * 5})
    current = run({"faithfulness": [0.4, 0.7, 0.4, 0.9] * 5})
    check = only(decide_gate(current, baseline, drop(0.02)), CheckKind.DROP)
    assert check.status is Status.PASS
    assert check.interval is not None
    assert check.interval.low < -0.02
    assert "on 20 paired samples, no more than chance explains; a drop of 0.02 is allowed" in check.reason


def test_a_drop_fails_if_it_is_shown_to_be_one_and_estimated_larger_than_allowed(run: MakeRun) -> None:
    baseline = run({"faithfulness": [0.5, 0.6, 0.7, 0.8] * 10})
    current = run({"faithfulness": [0.4, 0.6, 0.6, 0.8] * 10})
    verdict = decide_gate(current, baseline, drop(0.04))
    check = only(verdict, CheckKind.DROP)
    assert verdict.status is check.status is Status.FAIL
    assert check.reason.startswith(
        "faithfulness dropped by 0.05 from the baseline on 40 paired samples; a drop of 0.04"
    )
    # The same drop, no larger than what is allowed, is none that counts.
    assert only(decide_gate(current, baseline, drop(0.06)), CheckKind.DROP).status is Status.PASS


def test_a_loss_of_a_few_samples_is_suspected(run: MakeRun) -> None:
    baseline = run({"faithfulness": [1.0] * 50})
    assert _lost(run, baseline, 3) is Status.PASS
    assert _lost(run, baseline, 5) is Status.INCONCLUSIVE
    assert _lost(run, baseline, 6) is Status.FAIL  # six lost and none won: 1 in 64


@pytest.mark.parametrize("groups", [None, "one"])
def test_a_collapse_of_too_few_samples_is_inconclusive_and_no_pass(run: MakeRun, groups: str | None) -> None:
    n = 3 if groups is None else 60
    more = {} if groups is None else {"groups": {f"s{index}": "one" for index in range(n)}}
    before, after = (run({"faithfulness": [score] * n}, **more) for score in (1.0, 0.0))
    check = only(decide_gate(after, before, drop(0.02)), CheckKind.DROP)
    assert check.status is Status.INCONCLUSIVE
    assert "too few to show even a collapse" in check.reason
    low = only(decide_gate(after, None, floor(0.6)), CheckKind.FLOOR)
    assert low.status is Status.INCONCLUSIVE


def test_a_tag_that_lost_half_is_found_without_a_rule_of_its_own(run: MakeRun) -> None:
    tags = {f"s{index}": ("billing",) if index < 12 else ("other",) for index in range(100)}
    before = run({"faithfulness": [1.0] * 100}, tags=tags)
    after = run({"faithfulness": [0.5] * 12 + [1.0] * 88}, tags=tags)
    verdict = decide_gate(after, before, drop(0.1))
    assert verdict.status is Status.FAIL
    (failed,) = [check for check in verdict.checks if check.status is Status.FAIL]
    assert (failed.slice, failed.n, failed.estimate) == ("billing", 12, -0.5)
    # Tags that lost nothing are no checks, and no tag is one where the whole set fell.
    assert all(check.slice in (None, "billing") for check in verdict.checks)
    everything = decide_gate(run({"faithfulness": [0.5] * 100}, tags=tags), before, drop(0.1))
    assert {check.slice for check in everything.checks} == {None}


def test_samples_that_trade_places_are_no_loss(run: MakeRun) -> None:
    before = run({"faithfulness": [1.0, 0.0] * 25})
    after = run({"faithfulness": [0.0, 1.0] * 8 + [1.0, 0.0] * 15 + [0.0, 0.0] * 2})
    check = only(decide_gate(after, before, drop(0.02)), CheckKind.DROP)
    assert check.estimate == pytest.approx(-0.04)
    assert check.status is Status.PASS


def _lost(run: MakeRun, baseline: RunScores, count: int) -> Status:
    current = run({"faithfulness": [0.0] * count + [1.0] * (50 - count)})
    return only(decide_gate(current, baseline, drop(0.02)), CheckKind.DROP).status


def test_a_slice_of_three_does_not_make_a_run_inconclusive(run: MakeRun) -> None:
    tags = {f"s{index}": ("small",) for index in range(3)}
    slices = {"small": {"metrics": {"faithfulness": {"min": 0.6, "max_drop": 0.02}}}}
    rules = policy(metrics={"faithfulness": {"min": 0.5, "max_drop": 0.02}}, slices=slices)
    before = run({"faithfulness": [1.0, 0.5, 0.5, *HIGH]}, tags=tags)
    after = run({"faithfulness": [0.5, 0.5, 0.5, *HIGH]}, tags=tags)
    assert decide_gate(after, before, rules).status is Status.PASS


def test_assured_fails_what_is_not_shown_to_hold(run: MakeRun) -> None:
    verdict = decide_gate(run({"faithfulness": MIDDLING}), None, floor(0.84, decision="assured"))
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert "not shown to reach the floor" in only(verdict, CheckKind.FLOOR).reason
    assert decide_gate(run({"faithfulness": HIGH}), None, floor(0.85, decision="assured")).status is Status.PASS


@pytest.mark.parametrize(("minimum", "status"), [(0.84, Status.PASS), (0.85, Status.PASS), (0.86, Status.FAIL)])
def test_point_compares_the_bare_means(run: MakeRun, minimum: float, status: Status) -> None:
    verdict = decide_gate(run({"faithfulness": MIDDLING}), None, floor(minimum, decision="point"))
    assert verdict.status is status


def test_a_drop_is_measured_on_the_same_samples(run: MakeRun) -> None:
    # The mean is higher than the baseline's, but each sample that both hold got worse.
    baseline = run({"faithfulness": [0.8] * 40})
    current = run({"faithfulness": [0.5, 0.6] * 20 + [1.0] * 200})
    check = only(decide_gate(current, baseline, drop(0.02)), CheckKind.DROP)
    assert check.status is Status.FAIL
    assert check.n == 40
    assert check.baseline == pytest.approx(0.8)
    assert check.current == pytest.approx(0.55)
    assert check.estimate == pytest.approx(-0.25)
    assert check.threshold == pytest.approx(-0.02)
    assert "dropped by 0.25" in check.reason


@pytest.mark.parametrize("allowed", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("decision", ["evidence", "assured", "point"])
def test_a_run_held_against_itself_never_fails_a_drop(run: MakeRun, allowed: float, decision: str) -> None:
    one = run({"faithfulness": MIDDLING[:3]})
    verdict = decide_gate(one, one, drop(allowed, decision=decision))
    assert only(verdict, CheckKind.DROP).status is Status.PASS
    assert verdict.status is Status.PASS


@pytest.mark.parametrize("decision", ["evidence", "assured", "point"])
def test_a_run_in_which_no_sample_got_worse_never_fails_a_drop(run: MakeRun, decision: str) -> None:
    baseline, current = run({"faithfulness": [0.5, 0.5]}), run({"faithfulness": [0.5, 1.0]})
    check = only(decide_gate(current, baseline, drop(0.0, decision=decision)), CheckKind.DROP)
    assert check.status is Status.PASS
    assert check.reason.endswith("no sample got worse.")


def test_a_small_loss_within_the_allowed_drop_is_no_failure(run: MakeRun) -> None:
    baseline = run({"faithfulness": HIGH})
    current = run({"faithfulness": [value - 0.01 for value in HIGH]})
    assert only(decide_gate(current, baseline, drop(0.15)), CheckKind.DROP).status is Status.PASS


def test_a_warning_never_blocks(run: MakeRun) -> None:
    rules = policy(metrics={"faithfulness": {"min": 0.85, "action": "warn"}})
    verdict = decide_gate(run({"faithfulness": LOW}), None, rules)
    assert only(verdict, CheckKind.FLOOR).status is Status.FAIL
    assert (verdict.status, verdict.exit_code) == (Status.PASS, 0)
    assert "1 check that only warns did not pass." in verdict.reason


def test_too_little_coverage_is_an_error_whatever_the_scores_say(run: MakeRun) -> None:
    broken = {f"s{index}": Failed("judge", "the reply was cut off") for index in range(9)}
    verdict = decide_gate(run({"faithfulness": HIGH}, failed={"faithfulness": broken}), None, floor(0.85))
    check = only(verdict, CheckKind.COVERAGE)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 5)
    assert check.estimate == pytest.approx(0.85)
    assert "9 of 60 samples have no score (the judge failed on 9: the reply was cut off)" in check.reason


def test_samples_that_a_metric_does_not_apply_to_do_not_count_against_coverage(run: MakeRun) -> None:
    excused = {f"x{index}": "the sample is unanswerable" for index in range(30)}
    one = run({"faithfulness": HIGH}, not_applicable={"faithfulness": excused})
    assert decide_gate(one, None, floor(0.85)).status is Status.PASS


def test_a_run_without_any_score_is_an_error(run: MakeRun) -> None:
    broken = {f"s{index}": Failed("system", "time-out") for index in range(3)}
    empty = run({"faithfulness": [1.0] * 3}, failed={"faithfulness": broken})
    for rules in (floor(0.85), default_policy()):
        verdict = decide_gate(empty, None, rules)
        assert (verdict.status, verdict.exit_code) == (Status.ERROR, 5)
    assert decide_gate(run({}), None, default_policy()).exit_code == 5


def test_a_metric_that_the_user_named_and_nobody_measured_is_an_error(run: MakeRun) -> None:
    rules = policy(metrics={"faithfulness": {"min": 0.5}, "context_recall": {"min": 0.5}})
    verdict = decide_gate(run({"faithfulness": HIGH}), None, rules)
    assert verdict.status is Status.ERROR
    assert "context_recall: the policy names it, but this run did not measure it." in verdict.reason


def test_a_metric_that_the_defaults_name_and_that_applies_to_nothing_is_a_note(run: MakeRun) -> None:
    excused = {f"s{index}": "the sample has no reference" for index in range(60)}
    one = run({"faithfulness": HIGH, "context_recall": []}, not_applicable={"context_recall": excused})
    verdict = decide_gate(one, None, default_policy())
    assert verdict.status is Status.PASS
    assert "context_recall applies to no sample, most often because the sample has no reference." in verdict.notes


def test_a_metric_that_failed_where_it_applies_is_not_said_to_apply_to_nothing(run: MakeRun) -> None:
    broken = {f"s{index}": Failed("system", "time-out") for index in range(3)}
    excused = {f"s{index}": "the sample has no reference" for index in range(3, 60)}
    recall = "context_recall"
    one = run({"faithfulness": HIGH, recall: []}, failed={recall: broken}, not_applicable={recall: excused})
    assert not any("applies to no sample" in note for note in decide_gate(one, None, default_policy()).notes)


def test_half_of_a_family_that_no_sample_counts_to_is_no_news(run: MakeRun) -> None:
    excused = {f"s{index}": "the sample has a reference" for index in range(60)}
    one = run(
        {"context_precision": HIGH, "context_precision_no_reference": []},
        not_applicable={"context_precision_no_reference": excused},
    )
    assert not any("applies to no sample" in note for note in decide_gate(one, None, default_policy()).notes)


def test_a_metric_that_nobody_knows_is_a_configuration_error(run: MakeRun) -> None:
    with pytest.raises(ConfigError, match="unknown metric 'faithfulnes'"):
        decide_gate(run({"faithfulness": HIGH}), None, policy(metrics={"faithfulnes": {"min": 0.5}}))


def test_without_a_word_from_the_user_scores_of_another_evaluator_are_held_to_a_drop(run: MakeRun) -> None:
    baseline, current = run({"politeness": HIGH}), run({"politeness": LOW})
    assert decide_gate(current, baseline, default_policy()).exit_code == 1
    first = decide_gate(current, None, default_policy())
    assert first.exit_code == 0
    assert "There is no baseline, so no drop was checked." in first.warnings


def test_a_required_baseline_that_is_missing_ends_with_6(run: MakeRun) -> None:
    verdict = decide_gate(run({"faithfulness": HIGH}), None, floor(0.85), baseline_required=True)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)


def test_a_required_baseline_of_another_golden_set_ends_with_6(run: MakeRun) -> None:
    other = run({"faithfulness": HIGH}, offset=1000)
    verdict = decide_gate(run({"faithfulness": HIGH}), other, drop(0.02), baseline_required=True)
    assert verdict.exit_code == 6
    assert "a different golden set" in verdict.reason


@pytest.mark.parametrize(
    ("rule", "status", "code"), [("pass", "pass", 0), ("warn", "inconclusive", 0), ("fail", "error", 6)]
)
def test_a_missing_baseline_does_what_the_policy_says(run: MakeRun, rule: str, status: str, code: int) -> None:
    rules = policy(gate={"on_no_baseline": rule}, metrics={"faithfulness": {"min": 0.5, "max_drop": 0.02}})
    verdict = decide_gate(run({"faithfulness": HIGH}), None, rules)
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert "There is no baseline, so no drop was checked." in verdict.warnings


def test_a_rule_that_is_skipped_is_warned_of_once(run: MakeRun, manifest: Callable[..., Manifest]) -> None:
    names = ["faithfulness", "answer_relevancy"]
    baseline = run(dict.fromkeys([*names, "recall@5"], HIGH), manifest=manifest(model="old"))
    current = run(dict.fromkeys([*names, "recall@5"], HIGH), manifest=manifest(model="new"))
    rules = policy(metrics={name: {"max_drop": 0.02} for name in [*names, "recall@5"]})
    verdict = decide_gate(current, baseline, rules)
    assert verdict.warnings == (
        "the judge changed from openai old to openai new: metrics that use the judge are not compared.",
    )
    other = decide_gate(run({"faithfulness": HIGH}, offset=1000), baseline, drop(0.02))
    wanted = "No drop was checked: the baseline has a different golden set: no sample has the same id."
    assert other.warnings == (wanted,)


def test_a_difference_that_no_rule_asks_about_is_no_warning(run: MakeRun) -> None:
    baseline, current = run({"faithfulness": HIGH}), run({"faithfulness": HIGH, "tone": HIGH})
    assert decide_gate(current, baseline, drop(0.02)).warnings == ()


def test_metrics_that_the_policy_does_not_name_keep_their_defaults_unless_it_says_otherwise(run: MakeRun) -> None:
    rules: dict[str, Any] = {"faithfulness": {"min": 0.5}}
    now = run({"faithfulness": HIGH, "context_recall": MIDDLING, "mrr": LOW})
    then = run({"faithfulness": HIGH, "context_recall": HIGH, "mrr": HIGH})
    found = {
        check.name for check in decide_gate(now, then, policy(metrics=rules)).checks if check.kind is CheckKind.DROP
    }
    assert {"context_recall.drop", "mrr.drop"} <= found
    assert "faithfulness.drop" not in found, "what is written about a metric is all that is checked of it"
    assert decide_gate(now, then, policy(metrics=rules)).status is Status.FAIL
    alone = decide_gate(now, then, policy(metrics=rules, gate={"only_named": True}))
    assert alone.status is Status.PASS
    assert {check.metric for check in alone.checks if check.kind is CheckKind.DROP} == set()
    warns = {"action": "warn"}
    assert (
        decide_gate(now, then, policy(metrics={"mrr": warns | {"max_drop": 0.02}, "context_recall": warns})).status
        is Status.PASS
    )


def test_a_must_pass_sample_is_held_to_the_floors_that_the_policy_names(run: MakeRun) -> None:
    now = run({"faithfulness": HIGH, "context_recall": [0.5, *HIGH[1:]]})
    named = policy(metrics={"faithfulness": {"min": 0.5}}, must_pass=["s0"])
    assert decide_gate(now, None, named).status is Status.PASS
    assert decide_gate(now, None, policy(must_pass=["s0"])).status is Status.FAIL


def test_a_slice_is_held_to_its_own_rule(run: MakeRun) -> None:
    values = HIGH + LOW
    tags = {f"s{index}": ("billing",) for index in range(60, 120)}
    rules = policy(
        metrics={"faithfulness": {"min": 0.5}}, slices={"billing": {"metrics": {"faithfulness": {"min": 0.8}}}}
    )
    verdict = decide_gate(run({"faithfulness": values}, tags=tags), None, rules)
    check = next(check for check in verdict.checks if check.slice and check.kind is CheckKind.FLOOR)
    assert (check.status, check.n, check.slice) == (Status.FAIL, 60, "billing")
    assert verdict.exit_code == 1


def test_a_slice_that_no_sample_is_in_is_an_error_with_a_suggestion(run: MakeRun) -> None:
    rules = policy(slices={"biling": {"metrics": {"faithfulness": {"min": 0.8}}}})
    verdict = decide_gate(run({"faithfulness": HIGH}, tags={"s1": ("billing",)}), None, rules)
    assert verdict.exit_code == 5
    assert "Did you mean 'billing'?" in verdict.reason


def test_one_block_of_samples_counts_as_one(run: MakeRun) -> None:
    # Sixty answers about two documents are two observations, not sixty.
    groups = {f"s{index}": f"document {index // 30}" for index in range(60)}
    alone = decide_gate(run({"faithfulness": LOW}), None, floor(0.6))
    grouped = decide_gate(run({"faithfulness": LOW}, groups=groups), None, floor(0.6))
    assert only(alone, CheckKind.FLOOR).status is Status.FAIL
    assert only(grouped, CheckKind.FLOOR).status is Status.PASS


def test_the_default_policy_lets_the_offline_judge_block_on_few_drops_only(
    run: MakeRun, manifest: Callable[..., Manifest]
) -> None:
    offline = manifest(provider="offline")
    names = ["faithfulness", "answer_relevancy", "context_recall", "context_precision"]
    baseline = run(dict.fromkeys(names, HIGH), manifest=offline)
    current = run(dict.fromkeys(names, LOW), manifest=offline)
    verdict = decide_gate(current, baseline, default_policy())
    blocking = {check.name for check in verdict.checks if check.action is Action.BLOCK and check.status is Status.FAIL}
    assert blocking == {"faithfulness.drop", "context_recall.drop"}
    assert verdict.exit_code == 1


def test_what_the_user_wrote_wins_over_the_caution_about_the_offline_judge(
    run: MakeRun, manifest: Callable[..., Manifest]
) -> None:
    rules = policy(metrics={"answer_relevancy": {"min": 0.8}})
    verdict = decide_gate(run({"answer_relevancy": LOW}, manifest=manifest(provider="offline")), None, rules)
    assert verdict.exit_code == 1


def test_a_rule_for_context_precision_covers_samples_without_a_reference(run: MakeRun) -> None:
    rules = policy(metrics={"context_precision": {"min": 0.7}})
    excused = {f"s{index}": "the sample has no reference" for index in range(60)}
    one = run(
        {"context_precision": [], "context_precision_no_reference": LOW}, not_applicable={"context_precision": excused}
    )
    verdict = decide_gate(one, None, rules)
    assert only(verdict, CheckKind.FLOOR).metric == "context_precision_no_reference"
    assert verdict.exit_code == 1


def test_the_smallest_drop_that_is_seen_is_said_once(run: MakeRun) -> None:
    baseline = run({"faithfulness": [1.0, 0.9, 0.8, 1.0] * 100})
    current = run({"faithfulness": [0.9, 1.0, 0.9, 0.9] * 100})
    verdict = decide_gate(current, baseline, drop(0.02))
    detectable = only(verdict, CheckKind.DROP).detectable_drop
    assert detectable is not None
    assert verdict.resolution == f"This golden set detects a drop of {detectable:.2f} in 4 of 5 runs (faithfulness)."
    assert verdict.warnings == ()


def test_a_golden_set_that_sees_no_small_drop_is_warned_of(run: MakeRun) -> None:
    baseline = run({"faithfulness": [1.0, 0.0, 0.5, 1.0] * 5})
    current = run({"faithfulness": [0.0, 1.0, 1.0, 0.5] * 5})
    verdict = decide_gate(current, baseline, drop(0.02))
    assert verdict.resolution is None
    assert verdict.warnings[0].startswith("Of this golden set, only a drop of 0.")
    assert "ragstone plan says" in verdict.warnings[0]
    three = decide_gate(run({"faithfulness": [1.0] * 3}), run({"faithfulness": [1.0] * 3}), drop(0.02))
    assert three.warnings[0].startswith(
        "This golden set is too small to detect a drop of any size in faithfulness (3 samples)"
    )


def test_what_a_first_run_could_see_is_told_by_how_its_scores_vary(run: MakeRun) -> None:
    verdict = decide_gate(run({"faithfulness": HIGH * 10}), None, drop(0.02))
    assert verdict.resolution is not None
    assert verdict.resolution.startswith("This golden set detects a drop of 0.0")


def test_rules_that_so_few_samples_can_never_break_are_named(run: MakeRun) -> None:
    tags = {f"s{index}": ("small",) for index in range(3)}
    slices = {"small": {"metrics": {"faithfulness": {"min": 0.6, "max_drop": 0.02}}}}
    rules = policy(metrics={"faithfulness": {"min": 0.5, "max_drop": 0.02}}, slices=slices)
    one = run({"faithfulness": HIGH * 3}, tags=tags)
    assert decide_gate(one, one, rules).warnings == (
        "These checks can never fail with so few samples: the floor of faithfulness on 'small' (3 samples), "
        "the drop of faithfulness on 'small' (3 samples).",
    )


def test_a_slice_without_a_pair_is_warned_of(run: MakeRun) -> None:
    slices = {"new": {"metrics": {"faithfulness": {"max_drop": 0.02}}}}
    rules = policy(metrics={"faithfulness": {"max_drop": 0.02}}, slices=slices)
    baseline = run({"faithfulness": HIGH * 3})
    current = run({"faithfulness": [*HIGH * 3, 1.0]}, tags={"s180": ("new",)})
    assert (
        "faithfulness on 'new': no sample has a score in both runs, so its drop was not checked."
        in decide_gate(current, baseline, rules).warnings
    )


def test_what_holds_without_a_policy_is_said(run: MakeRun, manifest: Callable[..., Manifest]) -> None:
    judged = decide_gate(run({"faithfulness": HIGH}), None, default_policy())
    assert "There is no policy file: the default rules apply. ragstone init writes one." in judged.warnings
    offline = decide_gate(run({"faithfulness": HIGH}, manifest=manifest(provider="offline")), None, default_policy())
    assert (
        "There is no policy file: the default rules apply, and with the offline judge their floors only warn. "
        "ragstone init writes one." in offline.warnings
    )


def test_a_run_that_did_not_finish_is_an_error(run: MakeRun, manifest: Callable[..., Manifest]) -> None:
    verdict = decide_gate(run({"faithfulness": HIGH}, manifest=manifest(state="stopped")), None, floor(0.5))
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 5)
    assert "did not finish" in verdict.reason


def test_answers_that_say_more_than_their_contexts_are_counted(run: MakeRun, manifest: Callable[..., Manifest]) -> None:
    scores = {"faithfulness": [1.0] * 10, "hallucination": [1.0] * 3 + [0.4] * 7}
    said = "Something that the contexts don't say is in 3 of 10 answers."
    assert said in decide_gate(run(scores), None, floor(0.5)).notes
    offline = run(scores, manifest=manifest(provider="offline"))
    assert said not in decide_gate(offline, None, floor(0.5)).notes


@pytest.mark.parametrize(("generated", "said"), [(5, False), (6, True)])
def test_generated_questions_say_what_they_can_decide(
    run: MakeRun, manifest: Callable[..., Manifest], generated: int, said: bool
) -> None:
    made = manifest()
    made = made.model_copy(update={"golden": made.golden.model_copy(update={"generated": generated})})
    scores = {"faithfulness": [1.0] * 10, "recall@5": [1.0] * 10}
    notes = decide_gate(run(scores, manifest=made), None, floor(0.5)).notes
    found = [note for note in notes if "generated and not reviewed" in note]
    assert [note.startswith("6 of 10 questions") and "drops of faithfulness deserve" in note for note in found] == (
        [True] if said else []
    )


def test_answers_that_stopped_claiming_anything_are_pointed_out(run: MakeRun) -> None:
    silent = {f"s{index}": "the answer abstains, so it claims nothing" for index in range(50, 60)}
    baseline = run({"faithfulness": HIGH})
    current = run({"faithfulness": HIGH[:50]}, not_applicable={"faithfulness": silent})
    notes = decide_gate(current, baseline, drop(0.02)).notes
    assert any("no longer applies to 10 of 60 samples" in note and "abstains" in note for note in notes)


def test_a_suspicion_about_a_tag_is_a_check_so_that_it_is_asked_about_again(run: MakeRun) -> None:
    tags = {f"s{index}": ("billing",) if index < 10 else ("other",) for index in range(100)}
    before = run({"faithfulness": [0.6] * 100}, tags=tags)

    def fallen(lost: int) -> GateVerdict:
        after = [0.2] * lost + [0.6] * (10 - lost) + [0.2, 1.0] * 20 + [0.6] * 50
        return decide_gate(run({"faithfulness": after}, tags=tags), before, drop(0.02))

    verdicts = [fallen(lost) for lost in range(4, 11)]
    suspected = [one for one in verdicts if {check.slice for check in doubts(one, 0.05)} == {"billing"}]
    assert any(verdict.status is Status.PASS for verdict in suspected)


def lost_and_won(run: MakeRun, lost: int, won: int, **current: Any) -> tuple[RunScores, RunScores]:
    """A run of 40 answers and its baseline: some right answers are wrong now, and some wrong ones right."""
    before = [1.0] * 20 + [0.0] * 20
    after = [0.0] * lost + [1.0] * (20 - lost) + [1.0] * won + [0.0] * (20 - won)
    return run({"faithfulness": after}, **current), run({"faithfulness": before})


def test_what_was_asked_about_again_is_suspected_for_longer(run: MakeRun, manifest: Callable[..., Manifest]) -> None:
    once = manifest()
    status = [
        decide_gate(*lost_and_won(run, 6, 1, manifest=once.model_copy(update={"confirmed": again})), drop(0.02)).status
        for again in (False, True)
    ]  # 8 in 128 by chance
    assert status == [Status.PASS, Status.INCONCLUSIVE]


def test_scores_that_the_history_rounded_are_no_losses(run: MakeRun) -> None:
    exact, stored = 6 / 11, 1375 / 2520  # rounded up
    baseline = run({"faithfulness": [[stored, stored]] * 40})
    verdict = decide_gate(run({"faithfulness": [0.0] * 5 + [exact] * 35}), baseline, drop(0.02))
    assert verdict.status is Status.INCONCLUSIVE  # 1 in 32


def test_floors_have_a_part_of_the_error_rate_beside_drops(run: MakeRun) -> None:
    rules = {"faithfulness": {"min": 0.9}}, {"faithfulness": {"min": 0.9, "max_drop": 0.02}}
    scores = run({"faithfulness": [1.0] * 44 + [0.0] * 11})  # .80, shown at .05 and not at .0075
    statuses = [only(decide_gate(scores, scores, policy(metrics=one)), CheckKind.FLOOR).status for one in rules]
    assert statuses == [Status.FAIL, Status.INCONCLUSIVE]


def test_a_tag_of_few_samples_is_no_reason_to_call_a_run_inconclusive(run: MakeRun) -> None:
    tags = {f"s{index}": (f"t{index // 5}",) for index in range(100)}
    before = run({"faithfulness": [1.0] * 50 + [0.0] * 50}, tags=tags)
    after = run({"faithfulness": [0.0] * 3 + [1.0] * 47 + [1.0] * 3 + [0.0] * 47}, tags=tags)
    assert decide_gate(after, before, drop(0.02)).status is Status.PASS


def test_a_long_tag_is_not_looked_at_by_itself(run: MakeRun) -> None:
    tags = {f"s{index}": ("x" * 600,) if index < 12 else ("other",) for index in range(100)}
    before = run({"faithfulness": [1.0] * 100}, tags=tags)
    after = run({"faithfulness": [0.5] * 12 + [1.0] * 88}, tags=tags)
    assert all(check.slice is None for check in decide_gate(after, before, drop(0.1)).checks)
