"""Missing scores: a few cost nothing, more of them count as the worst ones, and none hides a bad answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import CheckKind, GateVerdict, Status
from ragstone.metrics.score import Failed, FailedBy
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest

N = 200
SCORES = [0.8 + 0.2 * float(x) for x in np.random.default_rng(1).random(N)]
OFFLINE = manifest(provider="offline")
RULE = {"faithfulness": {"min": 0.8, "max_drop": 0.02}}


def scored(
    missing: Iterable[int] = (), *, by: FailedBy = "judge", changed: Iterable[int] = (), **also: Any
) -> RunScores:
    """A run of N samples with an answer each; `missing` have no score, and `changed` another answer."""
    failed = {"faithfulness": {f"s{i}": Failed(by, "no reply") for i in missing}}
    one = run({"faithfulness": SCORES}, failed=failed, **also)
    new = set(changed)
    answers: dict[str, tuple[str, ...]] = {f"s{i}": (f"answer {i in new}",) for i in range(N)}
    return replace(one, system=replace(one.system, answers=answers))


def decided(current: RunScores, baseline: RunScores | None = None, **gate: Any) -> GateVerdict:
    return decide_gate(current, baseline, policy_from_mapping({"gate": gate, "metrics": RULE}))


@pytest.mark.parametrize("n", [10, 49])
def test_one_failed_judgement_costs_nothing_however_small_the_golden_set(n: int) -> None:
    now = run({"faithfulness": SCORES[:n]}, failed={"faithfulness": {"s3": Failed("judge", "no reply")}})
    verdict = decided(now, run({"faithfulness": SCORES[:n]}))
    assert verdict.status is Status.PASS
    (check,) = (check for check in verdict.checks if check.kind is CheckKind.COVERAGE)
    assert f"1 of {n} samples have no score (the judge failed" in check.reason


BY_SYSTEM = scored(range(10), by="system")


@pytest.mark.attack(
    by="pull request",
    tries="answers that the judge refuses, or none, where they are bad",
    stopped_by=(
        "they count as the worst score. **Not prevented**: as many judgements as fail by chance are left out "
        "(of 200 samples up to 12, of 1,000 up to 43) and counted, unless `max_failed_judgements = 0`"
    ),
)
@pytest.mark.parametrize(
    ("now", "then", "gate", "codes", "says"),
    [
        pytest.param(scored(range(19)), scored(), {}, {5}, "the judge failed on 19: no reply", id="more than chance"),
        pytest.param(scored(range(19)), scored(), {"max_failed_judgements": 0.1}, {0}, "", id="the policy allows more"),
        pytest.param(scored(range(5)), scored(), {}, {0}, "", id="few"),
        pytest.param(scored(range(5)), scored(), {"min_coverage": 0.98}, {5}, "97.5 %, required 98 %", id="a line"),
        # The same number is left out where it is spread over answers that changed and answers that did not.
        pytest.param(scored(range(12), changed=range(0, N, 2)), scored(), {}, {0}, "", id="of any answers"),
        pytest.param(scored(range(12), changed=range(15)), scored(), {}, {0, 5}, "worst score", id="of changed ones"),
        pytest.param(scored(range(10)), scored(), {}, {0}, "", id="the judge's own"),
        pytest.param(BY_SYSTEM, scored(), {}, {1}, "the system under test failed on 10: no reply", id="the system's"),
        pytest.param(BY_SYSTEM, BY_SYSTEM, {}, {0}, "", id="the system's as before"),
        pytest.param(scored(range(5, 15), by="system"), BY_SYSTEM, {}, {0}, "", id="the system's as many"),
        pytest.param(
            scored(range(10), manifest=manifest()), scored(manifest=manifest()), {}, {0}, "", id="a language model's"
        ),
        pytest.param(
            scored(range(10), manifest=OFFLINE), scored(manifest=OFFLINE), {}, {5}, "", id="never of the offline judge"
        ),
    ],
)
def test_missing_scores(now: RunScores, then: RunScores, gate: dict[str, Any], codes: set[int], says: str) -> None:
    verdict = decided(now, then, **gate)
    assert verdict.exit_code in codes
    assert says in verdict.reason
    assert (verdict.status is Status.PASS) is (not says and codes == {0})


def test_however_many_are_missing_it_passes_if_the_worst_scores_would() -> None:
    policy = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5, "max_drop": 0.5}}})
    assert decide_gate(scored(range(19)), scored(), policy).status is Status.PASS


def test_a_metric_that_has_all_its_scores_is_covered() -> None:
    failed = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(19)}}
    then = run({"faithfulness": SCORES, "context_recall": SCORES})
    slightly = [max(0.0, score - 0.035 * (index % 3)) for index, score in enumerate(SCORES)]
    now = run({"faithfulness": SCORES, "context_recall": slightly}, failed=failed)
    rules = policy_from_mapping({"metrics": dict.fromkeys(("faithfulness", "context_recall"), RULE["faithfulness"])})
    covered = {
        check.metric: check.status for check in decide_gate(now, then, rules).checks if check.kind is CheckKind.COVERAGE
    }
    assert covered == {"faithfulness": Status.ERROR, "context_recall": Status.PASS}


def test_nor_do_those_of_a_slice() -> None:
    tags = {f"s{i}": ("billing",) for i in range(12)}
    failed = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(6)}}
    rules = {"metrics": RULE, "slices": {"billing": {"metrics": {"faithfulness": {"max_drop": 0.05}}}}}
    then = run({"faithfulness": SCORES}, tags=tags)
    verdict = decide_gate(run({"faithfulness": SCORES}, tags=tags, failed=failed), then, policy_from_mapping(rules))
    (check,) = (one for one in verdict.checks if one.kind is CheckKind.COVERAGE and one.slice == "billing")
    assert check.status is not Status.PASS
    assert check.reason.startswith("faithfulness on 'billing': 6 of 12 samples have no score")
    elsewhere = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(20, 26)}}
    other = decide_gate(run({"faithfulness": SCORES}, tags=tags, failed=elsewhere), then, policy_from_mapping(rules))
    assert other.status is Status.PASS


def test_a_run_that_fails_on_the_scores_it_has_fails() -> None:
    failed = {"faithfulness": {f"s{i}": Failed("judge", "no reply") for i in range(19)}}
    verdict = decided(run({"faithfulness": [0.3] * N}, failed=failed), run({"faithfulness": SCORES}))
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)


def test_where_less_is_better_the_worst_score_is_1() -> None:
    rules = policy_from_mapping({"metrics": {"noise_sensitivity": {"max_rise": 0.02}}})
    low = [1.0 - score for score in SCORES]
    failed = {"noise_sensitivity": {f"s{i}": Failed("judge", "no reply") for i in range(19)}}
    verdict = decide_gate(run({"noise_sensitivity": low}, failed=failed), run({"noise_sensitivity": low}), rules)
    assert verdict.status is Status.ERROR


def test_a_metric_that_only_the_baseline_has_is_no_pass() -> None:
    then = run({"faithfulness": SCORES, "context_recall": SCORES, "politeness": SCORES})
    excused = {f"s{i}": "the sample has no reference" for i in range(N)}
    now = run({"faithfulness": SCORES, "context_recall": []}, not_applicable={"context_recall": excused})
    verdict = decide_gate(now, then, policy_from_mapping({}))
    assert verdict.status is Status.INCONCLUSIVE
    lost = [check for check in verdict.checks if check.kind is CheckKind.COVERAGE and check.status is not Status.PASS]
    assert [check.metric for check in lost] == ["context_recall", "politeness"]
    assert lost[0].reason == "context_recall: the baseline has 200 scores, this run none: its drop was not checked."
    assert lost[0].reason in verdict.reason
    assert decide_gate(then, now, policy_from_mapping({})).status is Status.PASS


@pytest.mark.parametrize("reason", [NO_TEXTS, NO_CONTEXTS])
def test_a_system_that_no_longer_returns_the_contexts_it_is_judged_by_is_blocked(reason: str) -> None:
    """Else whoever returns no contexts, or their names alone, would not be measured, and pass."""
    scores = {"faithfulness": SCORES, "answer_relevancy": SCORES}
    now = run(
        {"faithfulness": [], "answer_relevancy": SCORES},
        not_applicable={"faithfulness": {f"s{i}": reason for i in range(N)}},
    )
    verdict = decide_gate(now, run(scores), policy_from_mapping({}))
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert f"the system under test failed on {N}: {reason}" in verdict.reason
    other, warn = {"answer_relevancy": {"max_drop": 0.05}}, {"faithfulness": {"action": "warn"}}
    for gate, metrics in (({"only_named": True}, other), ({}, warn)):
        moved = policy_from_mapping({"gate": gate, "metrics": metrics})
        assert decide_gate(now, run(scores), moved).exit_code == 0
    assert decide_gate(now, now, policy_from_mapping({})).exit_code == 0


@pytest.mark.parametrize(("reason", "status"), [(NO_TEXTS, Status.FAIL), ("the answer abstains", Status.PASS)])
def test_bad_answers_are_not_taken_out_of_a_mean_by_returning_them_without_texts(reason: str, status: Status) -> None:
    excused = dict.fromkeys((f"s{i}" for i in range(19)), reason)
    values = {f"s{i}": SCORES[i] for i in range(19, N)}
    now = run({"faithfulness": SCORES}, not_applicable={"faithfulness": excused})
    now = replace(now, metrics={"faithfulness": replace(now.metrics["faithfulness"], values=values)})
    assert decided(now, run({"faithfulness": SCORES})).status is status


def test_a_metric_that_the_policy_does_not_name_may_go() -> None:
    then = run({"faithfulness": SCORES, "politeness": SCORES})
    now = run({"faithfulness": SCORES})
    assert decided(now, then, only_named=True).status is Status.PASS
    assert decided(now, then).status is Status.INCONCLUSIVE, "politeness has its default rule"
