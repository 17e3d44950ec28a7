"""The verdict: three ways, one family, and an exit code for each end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.confirm import doubts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, GateVerdict, Status
from ragstone.metrics.score import Failed, FailedBy
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest

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


def right(count: int, n: int) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


@pytest.mark.parametrize(
    ("scores", "minimum", "gate", "status", "code", "says"),
    [
        pytest.param(HIGH, 0.85, {}, "pass", 0, "not below the floor of 0.85", id="above"),
        pytest.param(LOW, 0.85, {}, "fail", 1, "0.45 on 60 samples, below the floor of 0.85", id="below"),
        pytest.param(MIDDLING, 0.86, {}, "fail", 1, "below the floor of 0.86", id="a little below"),
        pytest.param(right(10, 20), 0.5, {}, "pass", 0, "not below the floor of 0.50", id="equal"),
        pytest.param(HIGH, 0.85, {"decision": "assured"}, "pass", 0, "must reach it as a whole", id="assured above"),
        pytest.param(MIDDLING, 0.84, {"decision": "assured"}, "fail", 1, "must reach it as a whole", id="assured near"),
        pytest.param(MIDDLING, 0.85, {"decision": "point"}, "pass", 0, "not below", id="point equal"),
        pytest.param(MIDDLING, 0.86, {"decision": "point"}, "fail", 1, "below the floor of 0.86", id="point below"),
    ],
)
def test_a_floor(scores: list[float], minimum: float, gate: Any, status: str, code: int, says: str) -> None:
    verdict = decide_gate(run({"faithfulness": scores}), None, floor(minimum, **gate))
    check = only(verdict, CheckKind.FLOOR)
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert says in check.reason
    assert check.estimate == pytest.approx(sum(scores) / len(scores))
    assert check.interval is not None
    assert (check.reason in verdict.reason) is (check.status is Status.FAIL)


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        pytest.param([[0.7, 0.9]] * 12, "pass", id="above"),
        pytest.param([[0.4, 1.0]] * 12, "inconclusive", id="below, within the noise of the answers"),
        pytest.param([[0.6, 0.65]] * 12, "fail", id="below by more"),
        pytest.param([[0.7, 0.7]] * 12, "fail", id="the same each time"),
    ],
)
def test_a_mean_of_answers_that_vary_is_below_its_floor_by_more_than_their_noise(answers: Any, status: str) -> None:
    now = run({"faithfulness": answers}, manifest=manifest(answers=2))
    assert decide_gate(now, None, floor(0.75)).status == status


def test_a_first_answer_below_the_floor_is_asked_again_and_recorded_noise_of_the_baseline_counts() -> None:
    low = run({"faithfulness": [0.7] * 12})
    first = only(decide_gate(low, None, floor(0.75)), CheckKind.FLOOR)
    assert (first.status, first.unsettled) == (Status.FAIL, True)
    steady = replace(low, rounds=RoundFacts(confirm=ConfirmFacts(steady=True)))
    assert not only(decide_gate(steady, None, floor(0.75)), CheckKind.FLOOR).unsettled
    varied = run({"faithfulness": [[0.5, 1.0]] * 12})
    assert only(decide_gate(low, varied, floor(0.72)), CheckKind.FLOOR).status is Status.INCONCLUSIVE


def test_a_floor_that_nobody_wrote_fails_only_where_other_questions_would_be_below_it_too() -> None:
    near, low = right(16, 20), right(8, 20)
    statuses = [
        only(decide_gate(run({"faithfulness": scores}, manifest=manifest()), None, policy()), CheckKind.FLOOR).status
        for scores in (near, low)
    ]
    assert statuses == [Status.INCONCLUSIVE, Status.FAIL]
    written = decide_gate(run({"faithfulness": near}, manifest=manifest()), None, floor(0.85))
    assert only(written, CheckKind.FLOOR).status is Status.FAIL


@pytest.mark.parametrize(("before", "status"), [(0.7, "inconclusive"), (0.8, "fail")])
def test_a_run_whose_baseline_is_below_the_same_floor_fails_only_for_what_it_adds(before: float, status: str) -> None:
    verdict = decide_gate(run({"faithfulness": [0.7] * 12}), run({"faithfulness": [before] * 12}), floor(0.75))
    check = only(verdict, CheckKind.FLOOR)
    assert verdict.status == check.status == status
    assert ("as the baseline is (0.70)" in check.reason) is (before < 0.75)


@pytest.mark.parametrize(
    ("before", "after", "allowed", "status", "says"),
    [
        pytest.param(
            [0.5, 0.6, 0.7, 0.8] * 5, [0.4, 0.7, 0.4, 0.9] * 5, 0.02, "pass", "no more than chance", id="chance"
        ),
        pytest.param([0.6, 0.7] * 20, [0.5, 0.7] * 20, 0.04, "fail", "0.05 from the baseline on 40", id="larger"),
        pytest.param([0.6, 0.7] * 20, [0.5, 0.7] * 20, 0.06, "pass", "a drop of 0.06 is allowed", id="allowed"),
        pytest.param(HIGH, [value - 0.01 for value in HIGH], 0.15, "pass", "0.15 is allowed", id="each a little"),
        pytest.param([1.0] * 50, right(47, 50), 0.02, "inconclusive", "by 3 questions that broke", id="3 lost"),
        pytest.param([1.0] * 50, right(46, 50), 0.02, "inconclusive", "dropped by 0.08", id="4 lost, one run before"),
        pytest.param([1.0] * 50, right(44, 50), 0.02, "fail", "dropped by 0.12", id="6 lost"),
        pytest.param(
            [1.0, 0.0] * 25, [0.0, 1.0] * 8 + [1.0, 0.0] * 15 + [0.0, 0.0] * 2, 0.02, "pass", "0.04", id="trade places"
        ),
        # The mean is higher than the baseline's, but each sample that both hold got worse.
        pytest.param([0.8] * 40, [0.5, 0.6] * 20 + [1.0] * 200, 0.02, "fail", "dropped by 0.25", id="on the same"),
        pytest.param([1.0], [0.0], 0.02, "inconclusive", "too few to show even a collapse", id="too few"),
    ],
)
def test_a_drop(before: list[float], after: list[float], allowed: float, status: str, says: str) -> None:
    verdict = decide_gate(run({"faithfulness": after}), run({"faithfulness": before}), drop(allowed))
    check = only(verdict, CheckKind.DROP)
    assert verdict.status == check.status == status
    assert says in check.reason
    n = len(before)
    assert (check.n, check.threshold) == (n, -allowed)
    assert (check.baseline, check.current) == pytest.approx((sum(before) / n, sum(after[:n]) / n))
    assert check.estimate == pytest.approx((sum(after[:n]) - sum(before)) / n)


def test_a_collapse_of_one_group_is_inconclusive_and_no_pass() -> None:
    groups = {f"s{index}": "one" for index in range(60)}
    before, after = (run({"faithfulness": [score] * 60}, groups=groups) for score in (1.0, 0.0))
    check = only(decide_gate(after, before, drop(0.02)), CheckKind.DROP)
    assert check.status is Status.INCONCLUSIVE
    assert "too few to show even a collapse" in check.reason


@pytest.mark.parametrize("tag", ["billing", "x" * 600])
def test_a_tag_that_lost_half_is_found_without_a_rule_of_its_own(tag: str) -> None:
    tags = {f"s{index}": (tag,) if index < 12 else ("other",) for index in range(100)}
    before = run({"faithfulness": [1.0] * 100}, tags=tags)
    after = run({"faithfulness": [0.5] * 12 + [1.0] * 88}, tags=tags)
    verdict = decide_gate(after, before, drop(0.1))
    drops = [check for check in verdict.checks if check.kind is CheckKind.DROP and check.status is Status.FAIL]
    failed = [(check.slice, check.n, check.estimate) for check in drops]
    assert failed == ([("billing", 12, -0.5)] if tag == "billing" else [])  # a long one is not looked at
    # Tags that lost nothing are no checks, and no tag is one where the whole set fell.
    assert {check.slice for check in verdict.checks} <= {None, "billing"}
    everything = decide_gate(run({"faithfulness": [0.5] * 100}, tags=tags), before, drop(0.1))
    assert {check.slice for check in everything.checks} == {None}


def test_a_slice_of_three_does_not_make_a_run_inconclusive() -> None:
    tags = {f"s{index}": ("small",) for index in range(3)}
    slices = {"small": {"metrics": {"faithfulness": {"max_drop": 0.02}}}}
    rules = policy(metrics={"faithfulness": {"min": 0.5, "max_drop": 0.02}}, slices=slices)
    before = run({"faithfulness": [1.0, 0.5, 0.5, *HIGH]}, tags=tags)
    after = run({"faithfulness": [0.5, 0.5, 0.5, *HIGH]}, tags=tags)
    assert decide_gate(after, before, rules).status is Status.PASS


@pytest.mark.parametrize("after", [[0.5, 0.5], [0.5, 1.0]], ids=["the same", "better"])
@pytest.mark.parametrize("decision", ["evidence", "assured", "point"])
def test_a_run_in_which_no_sample_got_worse_never_fails_a_drop(after: list[float], decision: str) -> None:
    verdict = decide_gate(run({"faithfulness": after}), run({"faithfulness": [0.5, 0.5]}), drop(0.0, decision=decision))
    assert verdict.status is only(verdict, CheckKind.DROP).status is Status.PASS


def test_a_warning_never_blocks() -> None:
    rules = policy(metrics={"faithfulness": {"min": 0.85, "action": "warn"}})
    verdict = decide_gate(run({"faithfulness": LOW}), None, rules)
    assert only(verdict, CheckKind.FLOOR).status is Status.FAIL
    assert (verdict.status, verdict.exit_code) == (Status.PASS, 0)
    assert "1 check that only warns did not pass." in verdict.reason


def failed(count: int, by: FailedBy = "judge", why: str = "the reply was cut off") -> dict[str, dict[str, Failed]]:
    return {"faithfulness": {f"s{index}": Failed(by, why) for index in range(count)}}


GOOD = run({"faithfulness": HIGH})
FLOOR = floor(0.85)


@pytest.mark.parametrize(
    ("current", "rules", "code", "says"),
    [
        pytest.param(
            run({"faithfulness": HIGH}, failed=failed(9)), FLOOR, 5, "9 of 60 samples have no score", id="coverage"
        ),
        pytest.param(
            run({"faithfulness": HIGH}, not_applicable={"faithfulness": {f"x{at}": "so" for at in range(30)}}),
            FLOOR,
            0,
            "",
            id="what a metric does not apply to",
        ),
        pytest.param(run({"faithfulness": [1.0] * 3}, failed=failed(3, "system")), FLOOR, 5, "", id="no score"),
        pytest.param(
            run({"faithfulness": [1.0] * 3}, failed=failed(3, "system")), default_policy(), 5, "", id="by default"
        ),
        pytest.param(run({}), default_policy(), 5, "", id="no metric"),
        pytest.param(run({}, manifest=manifest()), default_policy(), 5, "", id="no sample of a finished run"),
        pytest.param(
            run({}, manifest=manifest(state="stopped"), system_failures={"s0": "time-out"}),
            default_policy(),
            5,
            "did not finish",
            id="unfinished and crashed",
        ),
        pytest.param(
            run({}, manifest=manifest(), system_failures={"s0": "time-out"}),
            default_policy(),
            4,
            "failed on all of 1 sample: time-out",
            id="crashed",
        ),
        pytest.param(
            GOOD,
            policy(metrics={"faithfulness": {"min": 0.5}, "context_recall": {"min": 0.5}}),
            5,
            "context_recall: the policy names it, but this run did not measure it",
            id="named and not measured",
        ),
        pytest.param(
            run({"faithfulness": HIGH}, tags={"s1": ("billing",)}),
            policy(slices={"biling": {"metrics": {"faithfulness": {"min": 0.8}}}}),
            5,
            "Did you mean 'billing'?",
            id="a slice without samples",
        ),
        pytest.param(
            run({"faithfulness": HIGH}, manifest=manifest(state="stopped")), FLOOR, 5, "did not finish", id="unfinished"
        ),
    ],
)
def test_what_nothing_can_be_decided_on_is_an_error(current: RunScores, rules: Policy, code: int, says: str) -> None:
    verdict = decide_gate(current, None, rules)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR if code else Status.PASS, code)
    assert says in verdict.reason


@pytest.mark.parametrize(
    ("current", "noted"),
    [
        ({"not_applicable": {f"s{at}": "there is no reference" for at in range(60)}}, True),
        (
            {
                "failed": {f"s{at}": Failed("system", "time-out") for at in range(3)},
                "not_applicable": {f"s{at}": "there is no reference" for at in range(3, 60)},
            },
            False,
        ),
    ],
    ids=["nowhere", "where it applies it failed"],
)
def test_a_metric_that_the_defaults_name_and_that_applies_to_nothing_is_a_note(current: Any, noted: bool) -> None:
    given: dict[str, Any] = {key: {"context_recall": value} for key, value in current.items()}
    verdict = decide_gate(run({"faithfulness": HIGH, "context_recall": []}, **given), None, default_policy())
    found = [note for note in verdict.notes if "context_recall applies to no sample" in note]
    assert bool(found) is noted
    assert not noted or "there is no reference" in found[0]
    # Of a family in two halves, one is empty in any golden set.
    names = ("context_precision", "context_precision_no_reference")
    excused = {names[1]: {f"s{index}": "the sample has a reference" for index in range(60)}}
    one = run({names[0]: HIGH, names[1]: []}, not_applicable=excused)
    assert not any("applies to no sample" in note for note in decide_gate(one, None, default_policy()).notes)


def test_a_metric_that_nobody_knows_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="unknown metric 'faithfulnes'"):
        decide_gate(run({"faithfulness": HIGH}), None, policy(metrics={"faithfulnes": {"min": 0.5}}))


def test_without_a_word_from_the_user_scores_of_another_evaluator_are_held_to_a_drop() -> None:
    baseline, current = run({"politeness": HIGH}), run({"politeness": LOW})
    assert decide_gate(current, baseline, default_policy()).exit_code == 1
    first = decide_gate(current, None, default_policy())
    assert (first.status, first.exit_code) == (Status.INCONCLUSIVE, 0), "nothing is checked, so nothing passed"
    assert "nothing to decide: the policy checks none of its metrics (politeness)" in first.reason
    assert "There is no baseline, so no drop was checked." in first.warnings
    floored = decide_gate(current, None, policy(metrics={"politeness": {"min": 0.1}}))
    assert floored.status is Status.PASS


def test_a_required_baseline_that_is_missing_or_of_another_golden_set_ends_with_6() -> None:
    verdict = decide_gate(GOOD, None, floor(0.85), baseline_required=True)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    other = decide_gate(GOOD, run({"faithfulness": HIGH}, offset=1000), drop(0.02), baseline_required=True)
    assert other.exit_code == 6
    assert "a different golden set" in other.reason


@pytest.mark.parametrize(
    ("rule", "status", "code"), [("pass", "pass", 0), ("warn", "inconclusive", 0), ("fail", "error", 6)]
)
def test_a_missing_baseline_does_what_the_policy_says(rule: str, status: str, code: int) -> None:
    rules = policy(gate={"on_no_baseline": rule}, metrics={"faithfulness": {"min": 0.5, "max_drop": 0.02}})
    verdict = decide_gate(run({"faithfulness": HIGH}), None, rules)
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert "There is no baseline, so no drop was checked." in verdict.warnings


def test_a_rule_that_is_skipped_is_warned_of_once() -> None:
    names = ["faithfulness", "answer_relevancy"]
    then, now = (run(dict.fromkeys([*names, "recall@5"], HIGH), manifest=manifest(model=m)) for m in ("old", "new"))
    rules = policy(metrics={name: {"max_drop": 0.02} for name in [*names, "recall@5"]})
    (said,) = decide_gate(now, then, rules).warnings
    assert "from openai old to openai new" in said
    (said,) = decide_gate(run({"faithfulness": HIGH}, offset=1000), then, drop(0.02)).warnings
    assert "a different golden set" in said
    # A difference that no rule asks about is no warning.
    assert decide_gate(run({"faithfulness": HIGH, "tone": HIGH}), GOOD, drop(0.02)).warnings == ()


def test_metrics_that_the_policy_does_not_name_keep_their_defaults_unless_it_says_otherwise() -> None:
    now = run({"faithfulness": HIGH, "context_recall": MIDDLING, "mrr": LOW})
    then = run({"faithfulness": HIGH, "context_recall": HIGH, "mrr": HIGH})

    def decided(metrics: Any, **gate: Any) -> tuple[Status, set[str | None]]:
        verdict = decide_gate(now, then, policy(metrics=metrics, gate=gate))
        return verdict.status, {check.metric for check in verdict.checks if check.kind is CheckKind.DROP}

    named, warns = {"faithfulness": {"min": 0.5}}, {"action": "warn"}
    # What is written about a metric is all that is checked of it.
    assert decided(named) == (Status.FAIL, {"context_recall", "mrr"})
    assert decided(named, only_named=True) == (Status.PASS, set())
    assert decided({"mrr": warns | {"max_drop": 0.02}, "context_recall": warns})[0] is Status.PASS


def test_a_slice_is_held_to_its_own_rule() -> None:
    values = HIGH + LOW
    tags = {f"s{index}": ("billing",) for index in range(60, 120)}
    rules = policy(
        metrics={"faithfulness": {"min": 0.5}}, slices={"billing": {"metrics": {"faithfulness": {"min": 0.8}}}}
    )
    verdict = decide_gate(run({"faithfulness": values}, tags=tags), None, rules)
    check = next(check for check in verdict.checks if check.slice and check.kind is CheckKind.FLOOR)
    assert (check.status, check.n, check.slice) == (Status.FAIL, 60, "billing")
    assert verdict.exit_code == 1


def test_the_default_policy_lets_the_offline_judge_block_on_few_drops_only() -> None:
    offline = manifest(provider="offline")
    names = ["faithfulness", "answer_relevancy", "context_recall", "context_precision"]
    baseline, current = (run(dict.fromkeys(names, values), manifest=offline) for values in (HIGH, LOW))
    verdict = decide_gate(current, baseline, default_policy())
    blocking = {check.name for check in verdict.checks if check.action is Action.BLOCK and check.status is Status.FAIL}
    assert blocking == {"questions.broken", "faithfulness.drop", "context_recall.drop"}
    assert verdict.exit_code == 1
    written = policy(metrics={"answer_relevancy": {"min": 0.8}})
    assert decide_gate(current, None, written).exit_code == 1, "what the user wrote wins over caution"


def test_a_rule_for_context_precision_covers_samples_without_a_reference() -> None:
    rules = policy(metrics={"context_precision": {"min": 0.7}})
    excused = {f"s{index}": "the sample has no reference" for index in range(60)}
    one = run(
        {"context_precision": [], "context_precision_no_reference": LOW}, not_applicable={"context_precision": excused}
    )
    verdict = decide_gate(one, None, rules)
    assert only(verdict, CheckKind.FLOOR).metric == "context_precision_no_reference"
    assert verdict.exit_code == 1


def test_the_smallest_drop_that_is_seen_is_said_once() -> None:
    baseline = run({"faithfulness": [1.0, 0.9, 0.8, 1.0] * 100})
    current = run({"faithfulness": [0.9, 1.0, 0.9, 0.9] * 100})
    verdict = decide_gate(current, baseline, drop(0.02))
    detectable = only(verdict, CheckKind.DROP).detectable_drop
    assert detectable is not None
    assert verdict.sensitivity is not None
    assert f"A drop of {detectable:.2f} in a mean would be caught 4 times in 5" in verdict.sensitivity.text
    assert verdict.warnings == ()
    first = decide_gate(run({"faithfulness": HIGH * 10}), None, drop(0.02))
    assert first.sensitivity is not None
    assert "A drop of 0.0" in first.sensitivity.text


def test_a_loss_of_the_run_itself_does_not_enter_what_it_could_have_shown() -> None:
    before = run({"faithfulness": [0.9, 0.8] * 30})
    noisy = [0.9, 0.8, 0.95, 0.75] * 15
    losses = []
    for lost in (0, 12, 30):
        after = run({"faithfulness": [score - 0.4 for score in noisy[:lost]] + noisy[lost:]})
        seen = decide_gate(after, before, drop(0.02)).sensitivity
        assert seen is not None
        losses.append(seen.data.loss)
    assert losses == sorted(losses, reverse=True)


def test_what_is_said_to_show_is_never_less_than_the_questions_that_fail_a_run() -> None:
    right_or_wrong = run({"faithfulness": [1.0] * 15})
    seen = decide_gate(right_or_wrong, right_or_wrong, drop(0.02)).sensitivity
    assert seen is not None
    assert seen.data.broken == 8, "of scores that can't be asked for again, by a sign test"
    assert seen.data.loss >= 8 / 15


def test_a_golden_set_that_can_show_no_loss_of_a_mean_says_so() -> None:
    few = run({"faithfulness": [1.0] * 3})
    seen = decide_gate(few, few, drop(0.02)).sensitivity
    assert seen is not None
    assert "too small to detect a loss of any size" in seen.text
    assert (seen.data.loss, seen.data.broken) == (None, None)


def test_a_slice_without_a_pair_is_warned_of() -> None:
    slices = {"new": {"metrics": {"faithfulness": {"max_drop": 0.02}}}}
    rules = policy(metrics={"faithfulness": {"max_drop": 0.02}}, slices=slices)
    baseline = run({"faithfulness": HIGH * 3})
    current = run({"faithfulness": [*HIGH * 3, 1.0]}, tags={"s180": ("new",)})
    assert (
        "faithfulness on 'new': no sample has a score in both runs, so its drop was not checked."
        in decide_gate(current, baseline, rules).warnings
    )


def test_a_suspicion_about_a_tag_is_a_check_so_that_it_is_asked_about_again() -> None:
    tags = {f"s{index}": ("billing",) if index < 10 else ("other",) for index in range(100)}
    before = run({"faithfulness": [0.6] * 100}, tags=tags)

    def fallen(lost: int) -> GateVerdict:
        after = [0.35] * lost + [0.6] * (10 - lost) + [0.2, 1.0] * 20 + [0.6] * 50
        return decide_gate(run({"faithfulness": after}, tags=tags), before, drop(0.02))

    verdicts = [fallen(lost) for lost in range(4, 11)]
    suspected = [one for one in verdicts if {check.slice for check in doubts(one, 0.05)} == {"billing"}]
    assert any(verdict.status is Status.INCONCLUSIVE for verdict in suspected)


def test_what_was_asked_about_again_is_suspected_for_longer() -> None:
    then = run({"faithfulness": right(20, 40)})
    lost_and_won = [0.55] * 8 + [1.0] * 12 + [0.45] + [0.0] * 19  # no question broke
    now = run({"faithfulness": lost_and_won}, manifest=manifest())
    again = replace(now, rounds=RoundFacts(confirm=ConfirmFacts(asked_again=True)))
    assert decide_gate(now, then, drop(0.02)).status is Status.PASS
    assert decide_gate(again, then, drop(0.02)).status is Status.INCONCLUSIVE


def test_scores_that_the_history_rounded_are_no_losses() -> None:
    exact, stored = 6 / 11, 1375 / 2520  # rounded up
    baseline = run({"faithfulness": [[stored, stored]] * 40})
    assert decide_gate(run({"faithfulness": [exact] * 40}), baseline, drop(0.0)).status is Status.PASS


def test_a_tag_of_few_samples_is_no_reason_to_call_a_run_inconclusive() -> None:
    tags = {f"s{index}": (f"t{index // 5}",) for index in range(100)}
    before = run({"faithfulness": [1.0] * 50 + [0.0] * 50}, tags=tags)
    after = run({"faithfulness": [0.0] * 3 + [1.0] * 47 + [1.0] * 3 + [0.0] * 47}, tags=tags)
    assert decide_gate(after, before, drop(0.02)).status is Status.PASS
