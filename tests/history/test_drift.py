from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import offers
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.drift import Drift, measure_drift
from ragstone.history.file import History, parse_history
from tests.history.seasons import HEADLINE, commit, compacted, line, scores

Change = Callable[[int], float]
POLICY = {"metrics": {name: {"max_drop": 0.02} for name in HEADLINE}}


def draw(number: int, lost: float, *, n: int = 120, offset: int = 0) -> RunScores:
    """Run `number` of a system that has lost `lost` points: nine of ten answers stay as they were."""
    rng = np.random.default_rng(7)
    base = rng.integers(5, 11, size=(n + offset, len(HEADLINE))) / 10
    anew = np.random.default_rng(1000 + number)
    changed = anew.random(len(base)) < 0.3
    noise = np.where(changed[:, None], anew.normal(0.0, 0.1, size=base.shape), 0.0)
    values = np.clip(base + noise - lost, 0.0, 1.0)[offset:]
    return scores(
        {name: values[:, j].tolist() for j, name in enumerate(HEADLINE)}, ids=[f"q{offset + i}" for i in range(n)]
    )


def season(runs: int, lost: Change = lambda _: 0.0, **fields: Callable[[int], object]) -> History:
    found = History()
    for number in range(runs):
        given: dict[str, Any] = {name: of(number) for name, of in fields.items()}
        found = found.with_run(line(number, **given), compacted(draw(number, lost(number))))
    return found


@cache
def steady(runs: int) -> History:
    return season(runs)


@cache
def falling(runs: int, by: int = 400) -> History:
    """Each run has lost 1/`by` more."""
    return season(runs, lambda number: number / by)


def measured(
    history: History,
    number: int,
    lost: float,
    *,
    policy: Policy | None = None,
    main: bool = True,
    run: RunScores | None = None,
    **fields: Any,
) -> Drift:
    run = run or draw(number, lost)
    return measure_drift(
        history, line(number, **fields), compacted(run), run, policy or policy_from_mapping(POLICY), is_main=main
    )


def failed(drift: Drift) -> set[str]:
    return {check.name for check in drift.checks if check.status is Status.FAIL}


def suspected(drift: Drift) -> set[str]:
    return {check.name for check in drift.checks if check.status is Status.INCONCLUSIVE}


def test_an_unchanged_run_passes_with_one_check() -> None:
    (check,) = measured(steady(20), 20, 0.0).checks
    assert (check.kind, check.name) == (CheckKind.DRIFT, "drift")
    assert (check.status, check.action) == (Status.PASS, Action.BLOCK)
    assert "since 0000000, 20 main runs ago" in check.reason


def test_there_is_nothing_to_compare_with_without_earlier_runs() -> None:
    drift = measured(History(), 20, 0.0)
    assert not drift.checks
    assert not drift.warnings
    assert "not measured yet" in drift.notes[0]


ALL = {"drift", *(f"{name}.drift" for name in HEADLINE)}
NAMED = {"gate": {"only_named": True}, "metrics": {"faithfulness": {"max_drop": 0.02}}}
OWN = {"metrics": {name: {"max_drift": 0.04 if name == "context_recall" else 0.2} for name in HEADLINE}}
VERSIONS = {**dict.fromkeys(HEADLINE, "1"), "faithfulness": "2"}
TAKEN = [{"id": name, "metric": name, "drop": 0.05} for name in HEADLINE]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rules", "fields", "names", "action"),
    [
        pytest.param(POLICY, {}, ALL, Action.BLOCK, id="default"),
        pytest.param({**POLICY, "drift": {"action": "warn"}}, {}, ALL, Action.WARN, id="warns"),
        pytest.param(OWN, {}, {"context_recall.drift"}, Action.BLOCK, id="a limit of its own"),
        pytest.param(NAMED, {}, {"faithfulness.drift"}, Action.BLOCK, id="only named"),
        pytest.param(POLICY, {"versions": VERSIONS}, ALL - {"faithfulness.drift"}, Action.BLOCK, id="another version"),
        pytest.param(POLICY, {"accepted": TAKEN}, set(), Action.BLOCK, id="accepted in this very run"),
    ],
)
def test_what_fails_after_a_slow_loss(rules: Any, fields: Any, names: set[str], action: Action | None) -> None:
    for history in (falling(20), parse_history(falling(20).text().encode(), "h")):
        drift = measured(history, 20, 0.05, policy=policy_from_mapping(rules), **fields)
        assert failed(drift) == names
        assert {check.action for check in drift.checks} == ({action} if action else set())


def test_small_losses_that_add_up_are_an_alarm_before_the_loss_is_whole() -> None:
    at = next(number for number in range(3, 30) if failed(measured(falling(number), number, number / 400)))
    assert 0.02 <= at / 400 <= 0.05


def test_an_alarm_says_what_was_lost_since_when() -> None:
    drift = measured(falling(20), 20, 0.05)
    check = next(check for check in drift.checks if check.metric == "faithfulness")
    assert check.estimate == pytest.approx(-0.04, abs=0.02)
    assert check.threshold == -0.05
    assert check.current is not None
    assert check.baseline == pytest.approx(check.current - (check.estimate or 0.0))
    assert check.n == 120
    for fact in ("has been below its level since", "on 120 samples in common", "It came with"):
        assert fact in check.reason


def test_a_loss_that_came_at_once_is_named_with_the_merge_that_brought_it() -> None:
    drift = measured(season(20, lambda n: 0.06 if n > 16 else 0.0), 20, 0.06)
    check = next(check for check in drift.checks if check.metric == "faithfulness")
    assert check.reason.startswith("faithfulness has been below its level since 0000011, 3 merges ago (0.75 → 0.")
    assert check.reason.endswith("It came with the merge of 0000011.")
    assert {(part.metric, part.commit, part.merges) for part in drift.below} == {
        (name, commit(17), 3) for name in HEADLINE
    }


def test_the_anchor_is_no_older_than_the_policy_says() -> None:
    policy = policy_from_mapping({**POLICY, "drift": {"days": 7}})
    assert failed(measured(falling(60, 1000), 60, 0.06))
    (check,) = measured(falling(60, 1000), 60, 0.06, policy=policy).checks
    assert check.status is Status.PASS
    assert "20 main runs ago" in check.reason


def test_a_broken_run_is_no_anchor_and_leaves_no_trace_once_it_was_reverted() -> None:
    broken = {0, 1, 10, 11, 12, 13, 14}
    history = season(
        15,
        lambda n: 0.15 if n in broken else 0.0,
        eligible=lambda n: n not in broken,
        verdict=lambda n: "fail" if n in broken else "pass",
    )
    assert suspected(measured(history, 15, 0.15))
    (check,) = measured(history, 15, 0.0).checks
    assert check.status is Status.PASS
    assert "13 main runs ago" in check.reason


def test_a_drop_that_was_accepted_lowers_what_is_allowed_by_its_size_and_only_once() -> None:
    taken = [{"id": f"{name}-1", "metric": name, "drop": 0.06} for name in HEADLINE]
    history = season(20, lambda n: 0.06 if n >= 8 else 0.0, accepted=lambda n: taken if n in (8, 9) else ())
    assert not failed(measured(history, 20, 0.06))
    further = measured(history, 20, 0.12)
    assert suspected(further)
    assert further.checks[0].threshold == pytest.approx(-0.05)


def test_samples_that_came_or_went_are_left_out() -> None:
    drift = measured(steady(20), 20, 0.2, run=draw(20, 0.2, offset=30))
    assert {check.n for check in drift.checks} == {90}


def test_another_golden_set_starts_anew_and_says_so() -> None:
    drift = measured(steady(20), 20, 0.0, run=draw(20, 0.0, offset=100))
    assert not drift.checks
    assert "no earlier run to compare with" in drift.notes[0]


def test_another_judge_starts_anew_among_its_own_runs() -> None:
    judged = {
        "judge_key": lambda n: ("b" if n >= 12 else "a") * 16,
        "judge": lambda n: "openai new" if n >= 12 else "openai old",
    }
    history = season(15, lambda n: 0.1 if n >= 12 else 0.0, **judged)
    drift = measured(history, 15, 0.1, judge_key="b" * 16, judge="openai new")
    assert not failed(drift)
    assert "3 main runs ago" in drift.checks[0].reason


@pytest.mark.heavy
def test_a_pull_request_is_blocked_by_the_step_that_it_adds_and_not_by_one_of_the_branch() -> None:
    own = measured(steady(20), 20, 0.1, main=False)
    assert {check.action for check in own.checks if check.status is Status.FAIL} == {Action.BLOCK}
    assert own.below == ()
    slow = measured(falling(24), 24, 0.06, main=False)
    assert failed(slow)
    assert {check.action for check in slow.checks} == {Action.WARN}


def test_a_run_is_never_its_own_past() -> None:
    history = steady(20).with_run(line(20), compacted(draw(20, 0.1)))
    assert "20 main runs ago" in measured(history, 20, 0.0).checks[0].reason


@pytest.mark.heavy
def test_a_drift_that_is_accepted_as_offered_passes_and_a_further_loss_fails_again() -> None:
    policy = policy_from_mapping(POLICY)
    history = falling(24)
    alarm = measured(history, 24, 0.06)
    offered = list(offers(alarm.checks, policy.gate))
    assert {offer.metric for offer in offered} == set(HEADLINE)
    taken = [{"id": offer.metric, "metric": offer.metric, "drop": offer.drop} for offer in offered]
    assert not failed(measured(history, 24, 0.06, accepted=taken))
    further = measured(history, 24, 0.11, accepted=taken)
    assert failed(further) | suspected(further)


def test_where_only_the_mean_alarms_the_metrics_that_lost_are_named_so_that_they_can_be_accepted() -> None:
    alarm = measured(falling(24, 700), 24, 24 / 700)
    named = {check.metric for check in alarm.checks if check.status is Status.FAIL}
    assert None in named
    offered = {offer.metric for offer in offers(alarm.checks, policy_from_mapping(POLICY).gate)}
    assert offered == named - {None} != set()


def test_the_loss_of_a_metric_where_less_is_better_is_its_rise() -> None:
    names = {name: f"{name}_errors" for name in HEADLINE}
    policy = policy_from_mapping({"metrics": {name: {"max_rise": 0.02} for name in names.values()}})
    versions = dict.fromkeys(names.values(), "1")

    def errors(number: int, lost: float) -> RunScores:
        run = draw(number, lost)
        values = {names[name]: [1.0 - value for value in found.values.values()] for name, found in run.metrics.items()}
        return scores(values, ids=list(run.samples))

    history = History()
    for number in range(12):
        history = history.with_run(line(number, versions=versions), compacted(errors(number, 0.01 * number)))

    def alarms(lost: float) -> list[Check]:
        drift = measured(history, 12, 0.0, run=errors(12, lost), policy=policy, versions=versions)
        return [check for check in drift.checks if check.status is Status.FAIL and check.metric is not None]

    assert alarms(0.12)
    for check in alarms(0.12):
        assert "has risen by" in check.reason or "has been above its level since" in check.reason
        assert check.current is not None
        assert check.baseline is not None
        assert check.current > check.baseline
        assert (check.estimate or 0.0) < 0.0
    assert not alarms(0.0)
