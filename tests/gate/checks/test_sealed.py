"""Is the golden set being learnt?"""

from __future__ import annotations

import pytest

from ragstone.gate.decide import decide_gate, with_more
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.run.manifest import SealedFact, SealedMean, SealedMeans
from tests.gate.conftest import build_run, make_manifest


def means(seen: float, sealed: float) -> SealedMeans:
    one, other = (SealedMean(mean=mean, low=mean - 0.02, high=mean + 0.02, n=500) for mean in (seen, sealed))
    return SealedMeans(seen=one, sealed=other)


def fact(now: SealedMeans, metric: str = "faithfulness", **more: object) -> SealedFact:
    given = {"key": "a" * 16, "questions": 500, "release": 3, "count": 3, "drawn": True, "means": {metric: now}}
    return SealedFact.model_validate({**given, **more})


def checks(found: SealedFact, metric: str = "faithfulness", **sealed: object) -> list[Check]:
    run = build_run({metric: [0.5] * 40}, manifest=make_manifest().model_copy(update={"sealed": found}))
    rule = {"max": 1.0} if metric == "hallucination" else {"min": 0.0}
    policy = policy_from_mapping({"gate": {"only_named": True}, "metrics": {metric: rule}, "sealed": sealed})
    return [check for check in decide_gate(run, None, policy).checks if check.kind is CheckKind.SEALED]


def test_an_alarm_says_what_it_means_and_warns() -> None:
    (check,) = checks(fact(means(0.9, 0.84), alarms=("faithfulness",)))
    assert (check.status, check.action) == (Status.FAIL, Action.WARN)
    assert check.reason.startswith(
        "on questions that pull requests can't see, faithfulness is 6.0 points lower: the golden set is being learnt"
    )
    assert "interval over all 3 releases" in check.reason
    assert check.estimate == pytest.approx(0.06)
    assert check.interval is not None
    assert check.interval.low < 0.06 < check.interval.high


def test_it_blocks_where_the_policy_says_so() -> None:
    (check,) = checks(fact(means(0.9, 0.8), alarms=("faithfulness",)), action="block")
    assert check.action is Action.BLOCK


def test_a_gap_that_is_no_alarm_passes() -> None:
    (check,) = checks(fact(means(0.9, 0.89)))
    assert check.status is Status.PASS
    assert "no gap of faithfulness" in check.reason


def test_where_less_is_better_the_sealed_mean_is_higher() -> None:
    (check,) = checks(fact(means(0.1, 0.2), "hallucination", alarms=("hallucination",)), "hallucination")
    assert "is 10.0 points higher" in check.reason


def test_of_sets_that_were_not_drawn_at_random_the_growth_counts_from_the_second_release_on() -> None:
    assert checks(fact(means(0.9, 0.6), drawn=False)) == []
    (check,) = checks(fact(means(0.9, 0.6), drawn=False, first={"faithfulness": means(0.9, 0.6)}))
    assert check.status is Status.PASS
    assert check.estimate == pytest.approx(0.0)
    grown = fact(means(0.95, 0.55), drawn=False, first={"faithfulness": means(0.9, 0.6)}, alarms=("faithfulness",))
    (check,) = checks(grown)
    assert "is 10.0 points lower, compared with the first release" in check.reason


def test_a_metric_without_a_rule_is_not_checked() -> None:
    assert checks(fact(means(0.9, 0.6), "context_recall", alarms=("context_recall",))) == []


@pytest.mark.parametrize(("action", "status"), [("warn", Status.PASS), ("block", Status.FAIL)])
def test_checks_after_the_verdict_count_in_it(action: str, status: Status) -> None:
    run = build_run({"faithfulness": [1.0] * 40}, manifest=make_manifest())
    policy = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}, "sealed": {"action": action}})
    verdict = decide_gate(run, None, policy)
    found = checks(fact(means(0.9, 0.8), alarms=("faithfulness",)), action=action)
    assert with_more(verdict, found, policy).status is status
    unproven = with_more(verdict.unproven("No key."), found, policy)
    assert unproven.status is (Status.FAIL if status is Status.FAIL else Status.INCONCLUSIVE)
