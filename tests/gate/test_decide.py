"""The verdict: floors and drops decided three ways, one family, and an exit code for each end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ragstone.evaluation.round_facts import ConfirmFacts, RoundFacts
from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.findings import SENSITIVITY, Finding
from ragstone.gate.policy import default_policy, policy_from_mapping
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import Action, CheckKind, GateVerdict, Status
from tests.gate.conftest import ONLY_NAMED, check_of, checks_of, decide, evidence_of, failed, named
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest

HIGH = [1.0, 0.9, 0.95, 1.0] * 15
MIDDLING = [1.0, 0.8, 0.6, 1.0] * 15
LOW = [0.5, 0.3, 0.6, 0.4] * 15
TWICE = manifest(answers=2)


def one(scores: Sequence[Any], **more: Any) -> RunScores:
    return run({"faithfulness": scores}, **more)


def right(count: int, n: int) -> list[float]:
    return [1.0] * count + [0.0] * (n - count)


def held(now: RunScores, then: RunScores | None = None, rule: Any = None, **gate: Any) -> GateVerdict:
    """The verdict under one rule for faithfulness alone."""
    return decide(now, then, metrics={"faithfulness": rule}, gate=ONLY_NAMED | gate)


# -- floors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "minimum", "status", "says"),
    [
        pytest.param(LOW, 0.85, "fail", "0.45 on 60 samples, below the floor of 0.85", id="below"),
        pytest.param(right(10, 20), 0.5, "pass", "not below the floor of 0.50", id="equal"),
    ],
)
def test_a_floor(scores: list[float], minimum: float, status: str, says: str) -> None:
    verdict = held(one(scores), rule={"min": minimum})
    check = check_of(verdict, CheckKind.FLOOR)
    assert (verdict.status, verdict.exit_code) == (status, int(status == "fail"))
    assert says in check.reason
    assert check.estimate == pytest.approx(sum(scores) / len(scores))
    assert check.interval is not None
    assert (check.reason in verdict.reason) is (status == "fail")


STEADY = replace(one([0.7] * 12), rounds=RoundFacts(confirm=ConfirmFacts(steady=True)))


@pytest.mark.parametrize(
    ("now", "then", "minimum", "status", "unsettled"),
    [
        pytest.param(one([[0.4, 1.0]] * 12, manifest=TWICE), None, 0.75, "inconclusive", True, id="within the noise"),
        pytest.param(one([[0.6, 0.65]] * 12, manifest=TWICE), None, 0.75, "fail", False, id="below by more"),
        pytest.param(one([[0.7, 0.7]] * 12, manifest=TWICE), None, 0.75, "fail", False, id="the same each time"),
        pytest.param(one([[0.7, None]] * 12, manifest=TWICE), None, 0.75, "fail", False, id="one score each"),
        pytest.param(one([0.7] * 12), None, 0.75, "fail", True, id="a first answer is asked again"),
        pytest.param(STEADY, None, 0.75, "fail", False, id="a system that says the same is not"),
        pytest.param(one([0.7] * 12), one([[0.5, 1.0]] * 12), 0.72, "inconclusive", True, id="noise of the baseline"),
        pytest.param(one([0.7] * 12), one([[0.74, 0.75]] * 12), 0.72, "fail", True, id="less noise"),
        # What was below the same floor before is not brought about by the change.
        pytest.param(one([0.7] * 12), one([0.7] * 12), 0.75, "inconclusive", False, id="the baseline was below too"),
        pytest.param(one([0.7] * 12), one([0.75] * 12), 0.75, "fail", True, id="the baseline was at the floor"),
        pytest.param(one([0.7] * 12), one([0.7] * 12, offset=50), 0.75, "fail", True, id="another baseline"),
    ],
)
def test_a_mean_below_its_floor(now: RunScores, then: Any, minimum: float, status: str, unsettled: bool) -> None:
    check = check_of(held(now, then, {"min": minimum}), CheckKind.FLOOR)
    assert (check.status, check.unsettled) == (status, unsettled)


def test_a_floor_that_nobody_wrote_fails_only_where_other_questions_would_be_below_it_too() -> None:
    near, low = one(right(16, 20), manifest=manifest()), one(right(8, 20), manifest=manifest())
    assert [check_of(decide(each), CheckKind.FLOOR).status for each in (near, low)] == ["inconclusive", "fail"]
    assert check_of(held(near, rule={"min": 0.85}), CheckKind.FLOOR).status is Status.FAIL


def test_a_slice_is_held_to_its_own_rule() -> None:
    tags = dict.fromkeys(named(60, 60), ("billing",))
    part = {"billing": {"metrics": {"faithfulness": {"min": 0.8}}}}
    verdict = decide(one(HIGH + LOW, tags=tags), metrics={"faithfulness": {"min": 0.5}}, slices=part)
    found = [(check.slice, check.status, check.n) for check in checks_of(verdict, CheckKind.FLOOR)]
    assert found == [(None, "pass", 120), ("billing", "fail", 60)]
    assert verdict.exit_code == 1


def test_a_rule_for_context_precision_covers_samples_without_a_reference() -> None:
    excused = {"context_precision": dict.fromkeys(named(60), "the sample has no reference")}
    now = run({"context_precision": [], "context_precision_no_reference": LOW}, not_applicable=excused)
    verdict = decide(now, metrics={"context_precision": {"min": 0.7}})
    assert check_of(verdict, CheckKind.FLOOR).metric == "context_precision_no_reference"
    assert verdict.exit_code == 1
    both = run({"context_precision": HIGH, "context_precision_no_reference": LOW})
    own = {"context_precision": {"min": 0.7}, "context_precision_no_reference": {"min": 0.2}}
    assert [check.status for check in checks_of(decide(both, metrics=own), CheckKind.FLOOR)] == ["pass", "pass"]


BLOCK, WARN = Action.BLOCK, Action.WARN


@pytest.mark.parametrize(
    ("floor", "drop", "actions", "expected"),
    [
        (0.5, None, (BLOCK, WARN), BLOCK),
        (None, 0.1, (BLOCK, WARN), WARN),
        (None, 0.1, (WARN, BLOCK), BLOCK),
        (0.5, None, (WARN, BLOCK), WARN),
        (0.5, 0.1, (WARN, WARN), WARN),
    ],
)
def test_a_rule_blocks_if_one_of_its_checks_does(floor: Any, drop: Any, actions: Any, expected: Action) -> None:
    floor_action, drop_action = actions
    assert Rule("mrr", "mrr", floor, drop, floor_action, drop_action, written=True).action is expected


# -- drops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "allowed", "status", "says"),
    [
        pytest.param([0.5, 0.6, 0.7, 0.8] * 5, [0.4, 0.7, 0.4, 0.9] * 5, 0.02, "pass", "than chance", id="chance"),
        pytest.param([0.6, 0.7] * 20, [0.5, 0.7] * 20, 0.04, "fail", "0.05 from the baseline on 40", id="larger"),
        pytest.param([0.6, 0.7] * 20, [0.5, 0.7] * 20, 0.05, "pass", "a drop of 0.05 is allowed", id="just allowed"),
        pytest.param(HIGH, [value - 0.01 for value in HIGH], 0.15, "pass", "0.15 is allowed", id="each a little"),
        pytest.param([1.0] * 50, right(46, 50), 0.02, "inconclusive", "by −0.08", id="4 lost, one run before"),
        pytest.param([1.0] * 50, right(44, 50), 0.02, "fail", "by −0.12", id="6 lost"),
        pytest.param(
            [1.0, 0.0] * 25, [0.0, 1.0] * 8 + [1.0, 0.0] * 15 + [0.0, 0.0] * 2, 0.02, "pass", "0.04", id="trade places"
        ),
        # The mean is higher than the baseline's, but each sample that both hold got worse.
        pytest.param([0.8] * 40, [0.5, 0.6] * 20 + [1.0] * 200, 0.02, "fail", "by −0.25", id="on the same"),
        pytest.param([1.0], [0.0], 0.02, "inconclusive", "too few questions to tell it from chance", id="too few"),
        pytest.param(
            [1.0], [0.5], 0.02, "inconclusive", "too few questions to tell it from chance", id="half is a collapse"
        ),
        pytest.param([1.0], [0.51], 0.02, "pass", "no more than chance", id="less is none"),
        pytest.param([0.5, 0.5], [0.5, 0.5], 0.0, "pass", "changed by 0 from the baseline on 2", id="the same"),
    ],
)
def test_a_drop(before: list[float], after: list[float], allowed: float, status: str, says: str) -> None:
    verdict = held(one(after), one(before), {"max_drop": allowed})
    check = check_of(verdict, CheckKind.DROP)
    assert verdict.status == check.status == status
    assert says in check.reason
    n = len(before)
    assert (check.n, check.threshold) == (n, -allowed)
    assert (check.baseline, check.current) == pytest.approx((sum(before) / n, sum(after[:n]) / n))
    assert check.estimate == pytest.approx((sum(after[:n]) - sum(before)) / n)


@pytest.mark.parametrize(
    ("after", "allowed", "status", "says"),
    [
        ([0.9] * 10, 0.12, "fail", "a larger drop can't be ruled out for other questions"),
        ([0.9] * 10, 0.6, "pass", "is allowed"),
        ([1.0] * 10, 0.0, "pass", "changed by 0 "),
    ],
)
def test_a_drop_that_must_be_ruled_out(after: list[float], allowed: float, status: str, says: str) -> None:
    check = check_of(held(one(after), one([1.0] * 10), {"max_drop": allowed}, decision="assured"), CheckKind.DROP)
    assert check.status == status
    assert says in check.reason


@pytest.mark.parametrize(("scores", "minimum", "status"), [(HIGH, 0.85, "pass"), (MIDDLING, 0.84, "fail")])
def test_a_floor_that_the_whole_interval_must_reach(scores: list[float], minimum: float, status: str) -> None:
    check = check_of(held(one(scores), rule={"min": minimum}, decision="assured"), CheckKind.FLOOR)
    assert check.status == status
    assert "which its whole interval must reach" in check.reason


def test_a_collapse_of_one_group_is_inconclusive_and_no_pass() -> None:
    groups = dict.fromkeys(named(60), "one")
    before, after = (one([score] * 60, groups=groups) for score in (1.0, 0.0))
    check = check_of(held(after, before, {"max_drop": 0.02}), CheckKind.DROP)
    assert check.status is Status.INCONCLUSIVE
    assert "too few questions to tell it from chance" in check.reason


TAGGED = {name: ("billing",) if i < 12 else ("other",) for i, name in enumerate(named(100))}


@pytest.mark.parametrize(
    ("tag", "lost", "rules", "found"),
    [
        ("billing", 12, {}, [("billing", 12, -0.5)]),
        ("x" * 200, 12, {}, [("x" * 200, 12, -0.5)]),
        ("x" * 201, 12, {}, []),  # a long one is not looked at
        ("billing", 4, {}, []),  # nor one of few samples
        ("billing", 12, {"metrics": {"faithfulness": {"max_drop": 0.1, "action": "warn"}}}, []),
        ("billing", 100, {}, [(None, 100, -0.5)]),  # no tag is a check where the whole set fell
    ],
)
def test_a_tag_that_lost_half_is_found_without_a_rule_of_its_own(tag: str, lost: int, rules: Any, found: Any) -> None:
    tags = {name: (tag,) if i < min(lost, 12) else ("other",) for i, name in enumerate(named(100))}
    after = one([0.5] * lost + [1.0] * (100 - lost), tags=tags)
    tables = {"metrics": {"faithfulness": {"max_drop": 0.1}}, "gate": {}, **rules}
    verdict = decide(after, one([1.0] * 100), **{**tables, "gate": ONLY_NAMED | tables["gate"]})
    drops = checks_of(verdict, CheckKind.DROP)
    assert [(check.slice, check.n, check.estimate) for check in drops if not check.passed] == found
    assert {check.slice for check in drops} <= {None, tag}, "tags that lost nothing are no checks"


def test_a_tag_of_all_samples_is_none_and_only_the_largest_are_looked_at() -> None:
    def failing(tags: Mapping[str, tuple[str, ...]]) -> set[str | None]:
        verdict = held(one([0.5] * 12 + [1.0] * 88, tags=tags), one([1.0] * 100), {"max_drop": 0.1})
        return {check.slice for check in checks_of(verdict, CheckKind.DROP) if check.failed}

    everything = {name: (*tags, "all") for name, tags in TAGGED.items()}
    assert failing(everything) == {"billing"}
    more = {name: (*tags, *(f"t{number:02}" for number in range(50))) for name, tags in TAGGED.items()}
    more["s99"] = ("other",)
    assert failing(more) == set()


def test_small_slices_and_tags_do_not_make_a_run_inconclusive() -> None:
    part = {"small": {"metrics": {"faithfulness": {"max_drop": 0.02}}}}
    tags = dict.fromkeys(named(3), ("small",))
    before, after = one([1.0, 0.5, 0.5, *HIGH], tags=tags), one([0.5, 0.5, 0.5, *HIGH], tags=tags)
    rules = {"faithfulness": {"min": 0.5, "max_drop": 0.02}}
    assert decide(after, before, metrics=rules, slices=part).status is Status.PASS
    tags = {name: (f"t{index // 5}",) for index, name in enumerate(named(100))}
    before = one(right(50, 100), tags=tags)
    after = one([0.0] * 3 + [1.0] * 47 + [1.0] * 3 + [0.0] * 47, tags=tags)
    assert held(after, before, {"max_drop": 0.02}).status is Status.PASS


SEVERAL = [f"metric_{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("lost", "gate", "allowed", "mean"),
    [
        (0.04, {}, 0.02, "fail"),
        (0.04, {}, 0.05, None),
        (0.0, {}, 0.02, None),
        (0.3, {}, 0.02, None),  # where metrics fail by themselves, their mean is no check
    ],
)
def test_small_losses_are_shown_by_their_mean(lost: float, gate: Any, allowed: float, mean: str | None) -> None:
    random = np.random.default_rng(4)
    before, after = {}, {}
    for name in SEVERAL:
        level = np.clip(random.normal(0.7, 0.1, (30, 1)) + random.normal(0.0, 0.1, (30, 6)), 0.0, 1.0)
        before[name] = level.tolist()
        now = level.mean(axis=1) - lost + random.normal(0.0, 0.1, 30)
        after[name] = np.clip(now - (now - level.mean(axis=1)).mean() - lost, 0.0, 1.0).tolist()
    rules = {name: {"max_drop": allowed} for name in SEVERAL}
    verdict = decide(run(after), run(before), metrics=rules, gate=ONLY_NAMED | gate)
    checks = {check.name: check for check in checks_of(verdict, CheckKind.DROP)}
    assert ("mean.drop" in checks) is (mean is not None)
    if mean is not None:
        assert (checks["mean.drop"].status, checks["mean.drop"].n) == (mean, 30)
        assert checks["mean.drop"].estimate == pytest.approx(-lost, abs=0.005)
        suspects = {check.status for name, check in checks.items() if name != "mean.drop"}
        assert suspects <= {Status.INCONCLUSIVE}, "what is beyond its limit may be why"


def test_what_was_asked_about_again_is_suspected_for_longer() -> None:
    lost_and_won = [0.55] * 8 + [1.0] * 12 + [0.45] + [0.0] * 19  # no question broke
    now = one(lost_and_won, manifest=manifest())
    again = replace(now, rounds=RoundFacts(confirm=ConfirmFacts(asked_again=True)))
    statuses = [held(each, one(right(20, 40)), {"max_drop": 0.02}).status for each in (now, again)]
    assert statuses == [Status.PASS, Status.INCONCLUSIVE]


def test_scores_that_the_history_rounded_are_no_losses() -> None:
    exact, stored = 6 / 11, 1375 / 2520  # rounded up
    assert held(one([exact] * 40), one([[stored, stored]] * 40), {"max_drop": 0.0}).status is Status.PASS


# -- what is not decided -----------------------------------------------------------------------------------------------

FLOOR = {"metrics": {"faithfulness": {"min": 0.85}}, "gate": ONLY_NAMED}
NO_SCORE = one([1.0] * 3, failed={"faithfulness": failed(named(3), "system")})
EXCUSED = {"faithfulness": {f"x{at}": "so" for at in range(30)}}
CRASHED = {"s0": "time-out"}
STOPPED = manifest(state="stopped")
CRASHING = run({}, manifest=manifest(), system_failures=CRASHED)
UNMEASURED = {"metrics": {"faithfulness": {"min": 0.5}, "context_recall": {"min": 0.5}}}
LABELLED = one(HIGH, tags={"s1": ("billing",)})


def sliced(tag: str) -> Any:
    return {"slices": {tag: {"metrics": {"faithfulness": {"min": 0.8}}}}}


@pytest.mark.parametrize(
    ("current", "rules", "code", "says"),
    [
        pytest.param(one(HIGH, failed={"faithfulness": failed(named(9))}), FLOOR, 5, "9 of 60 samples", id="coverage"),
        pytest.param(one(HIGH, not_applicable=EXCUSED), FLOOR, 0, "", id="what a metric does not apply to"),
        pytest.param(NO_SCORE, FLOOR, 5, "", id="no score"),
        pytest.param(NO_SCORE, {}, 5, "", id="no score by default"),
        pytest.param(run({}), {}, 5, "none of 0 samples of run has a score", id="no metric"),
        pytest.param(run({}, manifest=manifest()), {}, 5, "has only drafts (10 samples)", id="no sample"),
        pytest.param(run({}, manifest=STOPPED, system_failures=CRASHED), {}, 5, "did not finish", id="crashed too"),
        pytest.param(CRASHING, {}, 4, "all of 1 sample: time-out", id="crashed"),
        pytest.param(
            one(HIGH), UNMEASURED, 5, "context_recall: the policy has a rule for it, but this run", id="unmeasured"
        ),
        pytest.param(LABELLED, sliced("biling"), 5, "Did you mean 'billing'?", id="a slice without samples"),
        pytest.param(one(HIGH), sliced("billing"), 5, "No sample of this run has any tag.", id="a run without tags"),
        pytest.param(one(HIGH, manifest=STOPPED), FLOOR, 5, "did not finish", id="unfinished"),
    ],
)
def test_what_nothing_can_be_decided_on_is_an_error(current: RunScores, rules: Any, code: int, says: str) -> None:
    verdict = decide(current, **rules)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR if code else Status.PASS, code)
    assert says in verdict.reason


def test_without_a_word_from_the_user_scores_of_another_evaluator_are_held_to_a_drop() -> None:
    baseline, current = run({"politeness": HIGH}), run({"politeness": LOW})
    assert decide(current, baseline).exit_code == 1
    first = decide(current)
    assert (first.status, first.exit_code) == (Status.INCONCLUSIVE, 0), "nothing is checked, so nothing passed"
    assert "nothing to decide: the policy has no rule for a metric of" in first.reason
    assert "There is no baseline, so no drop was checked." in first.warnings
    assert decide(current, metrics={"politeness": {"min": 0.1}}).status is Status.PASS


def test_the_default_policy_lets_the_offline_judge_block_on_few_drops_only() -> None:
    names = ["faithfulness", "answer_relevancy", "context_recall", "context_precision"]
    offline = manifest(provider="offline")
    before, after = (run(dict.fromkeys(names, values), manifest=offline) for values in (HIGH, LOW))
    verdict = decide(after, before)
    blocking = {check.name for check in verdict.checks if check.action is Action.BLOCK and check.failed}
    assert blocking == {"questions.broken", "faithfulness.drop", "context_recall.drop"}
    assert verdict.exit_code == 1


@pytest.mark.parametrize(
    ("rule", "required", "then", "status", "code"),
    [
        ("pass", False, None, "pass", 0),
        ("warn", False, None, "inconclusive", 0),
        ("fail", False, None, "error", 6),
        ("pass", True, None, "error", 6),
        ("pass", True, one(HIGH, offset=1000), "error", 6),
        ("fail", True, one(HIGH), "pass", 0),
    ],
)
def test_a_missing_baseline(rule: str, required: bool, then: RunScores | None, status: str, code: int) -> None:
    tables = {"gate": {"on_no_baseline": rule}, "metrics": {"faithfulness": {"min": 0.5, "max_drop": 0.02}}}
    verdict = decide_gate(one(HIGH), then, policy_from_mapping(tables), baseline_required=required)
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert ("There is no baseline, so no drop was checked." in verdict.warnings) is (then is None)
    assert ("a different golden set" in verdict.reason) is (then is not None and code == 6)
    floors = policy_from_mapping({**FLOOR, "gate": {**ONLY_NAMED, "on_no_baseline": "fail"}})
    assert decide_gate(one(HIGH), None, floors).exit_code == 0, "no drop is checked"


def test_a_rule_that_is_skipped_is_warned_of_once() -> None:
    names = ["faithfulness", "answer_relevancy", "recall@5"]
    then, now = (run(dict.fromkeys(names, HIGH), manifest=manifest(model=model)) for model in ("old", "new"))
    (said,) = decide(now, then, metrics={name: {"max_drop": 0.02} for name in names}).warnings
    assert "from openai old to openai new" in said
    other = held(one(HIGH, offset=1000), then, {"max_drop": 0.02})
    assert "a different golden set" in other.warnings[0]
    assert len(other.warnings) == 1
    # A difference that no rule asks about is no warning.
    assert held(run({"faithfulness": HIGH, "tone": HIGH}), one(HIGH), {"max_drop": 0.02}).warnings == ()
    part = {"new": {"metrics": {"faithfulness": {"max_drop": 0.02}}}}
    current = one([*HIGH * 3, 1.0], tags={"s180": ("new",)})
    unpaired = decide(current, one(HIGH * 3), metrics={"faithfulness": {"max_drop": 0.02}}, slices=part)
    lacking = "faithfulness on 'new': no sample has a score in both runs, so its drop was not checked."
    assert lacking in unpaired.warnings


def test_a_drop_that_nobody_named_blocks_where_no_judge_is_involved() -> None:
    names = ("mrr", "token_f1", "context_relevance", "tone", "politeness", "pairwise_preference")
    rules = evidence_of(run(dict.fromkeys(names, HIGH), versions={"tone": "rubric 1"})).rules
    actions = {rule.metric: rule.action for rule in rules if not rule.written and rule.metric in names}
    assert actions == {"mrr": BLOCK, "politeness": BLOCK, "token_f1": WARN, "context_relevance": WARN, "tone": WARN}


def test_metrics_that_the_policy_does_not_name_keep_their_defaults_unless_it_says_otherwise() -> None:
    now = run({"faithfulness": HIGH, "context_recall": MIDDLING, "mrr": LOW})
    then = run({"faithfulness": HIGH, "context_recall": HIGH, "mrr": HIGH})

    def decided(metrics: Any, **gate: Any) -> tuple[Status, set[str | None]]:
        verdict = decide(now, then, metrics=metrics, gate=gate)
        return verdict.status, {check.metric for check in checks_of(verdict, CheckKind.DROP)}

    name, warns = {"faithfulness": {"min": 0.5}}, {"action": "warn"}
    # What is written about a metric is all that is checked of it.
    assert decided(name) == (Status.FAIL, {"context_recall", "mrr"})
    assert decided(name, only_named=True) == (Status.PASS, set())
    assert decided({"mrr": warns | {"max_drop": 0.02}, "context_recall": warns})[0] is Status.PASS


@pytest.mark.parametrize(
    ("inconclusive", "action", "status", "reason"),
    [
        ("warn", "block", "inconclusive", "It can't be decided: faithfulness is 0.70"),
        ("pass", "block", "pass", "4 blocking checks passed."),
        ("fail", "block", "inconclusive", "It can't be decided: faithfulness is 0.70"),
        ("warn", "warn", "pass", "3 blocking checks passed. 1 check that only warns did not pass."),
    ],
)
def test_what_the_checks_come_to(inconclusive: str, action: str, status: str, reason: str) -> None:
    rules = {"faithfulness": {"min": 0.75, "action": action}, "mrr": {"min": 0.1}}
    then, now = (run({"faithfulness": [0.7] * 12, "mrr": [1.0] * 12}) for _ in range(2))
    verdict = decide(now, then, metrics=rules, gate=ONLY_NAMED | {"inconclusive": inconclusive})
    assert verdict.status == status
    assert verdict.exit_code == (8 if inconclusive == "fail" else 0)
    assert verdict.reason.startswith(reason)
    warns = held(one([0.7] * 12), rule={"min": 0.5, "action": "warn"})
    assert warns.reason == "0 blocking checks passed."
    worse = decide(run({"faithfulness": [0.1] * 12, "mrr": [0.0] * 12}), None, metrics=rules, gate=ONLY_NAMED)
    assert worse.status is Status.FAIL
    assert ("1 more blocking check did not pass." in worse.reason) is (action == "block")


# -- what would have been seen -----------------------------------------------------------------------------------------


def sensitivity(verdict: GateVerdict) -> Finding | None:
    return next(iter(verdict.of_kind(SENSITIVITY)), None)


def test_the_smallest_drop_that_is_seen_is_said_once() -> None:
    before, after = one([1.0, 0.9, 0.8, 1.0] * 100), one([0.9, 1.0, 0.9, 0.9] * 100)
    verdict = held(after, before, {"max_drop": 0.02})
    seen = sensitivity(verdict)
    assert seen is not None
    assert seen.text.startswith("A drop of 0.0")
    assert "in a mean would be caught 4 times in 5 (faithfulness 0.0" in seen.text
    assert verdict.warnings == ()
    first = sensitivity(held(one(HIGH * 10), None, {"max_drop": 0.02}))
    assert first is not None
    assert "A drop of 0.0" in first.text
    assert sensitivity(held(after, before, {"min": 0.1})) is None


@pytest.mark.parametrize(("n", "broken", "says"), [(15, 8, "A drop of"), (3, None, "too small to detect a loss")])
def test_what_is_said_to_show_is_never_less_than_the_questions_that_fail_a_run(n: int, broken: Any, says: str) -> None:
    seen = sensitivity(held(one([1.0] * n), one([1.0] * n), {"max_drop": 0.02}))
    assert seen is not None
    assert seen.data.broken == broken, "of scores that can't be asked for again, by a sign test"
    assert seen.data.loss is None if broken is None else seen.data.loss >= broken / n
    assert says in seen.text


def test_a_loss_of_the_run_itself_does_not_enter_what_it_could_have_shown() -> None:
    noisy = [0.9, 0.8, 0.95, 0.75] * 15
    losses = []
    for lost in (0, 12, 30):
        after = one([score - 0.4 for score in noisy[:lost]] + noisy[lost:])
        seen = sensitivity(held(after, one([0.9, 0.8] * 30), {"max_drop": 0.02}))
        assert seen is not None
        losses.append(seen.data.loss)
    assert losses == sorted(losses, reverse=True)


def test_the_default_policy_is_that_of_an_empty_file() -> None:
    assert decide_gate(one(LOW), one(HIGH), default_policy()) == decide(one(LOW), one(HIGH))
