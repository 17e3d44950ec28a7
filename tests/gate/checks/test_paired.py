"""Is a run compared on enough of its baseline?"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores, SystemFacts, fingerprint
from ragstone.gate.accepted import AcceptedEntry, InForce, offers
from ragstone.gate.decide import decide_gate
from ragstone.gate.eligibility import eligibility
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from ragstone.metrics.score import Failed
from tests.gate.conftest import build_run, make_manifest

N = 40


def good(count: int = N, **more: Any) -> RunScores:
    return build_run({"faithfulness": [0.9] * count}, manifest=make_manifest(), **more)


def starved(lost: int, *, same_job: bool = False) -> RunScores:
    """A baseline whose system failed on the first samples."""
    ids = [f"s{number}" for number in range(lost)]
    return build_run(
        {"faithfulness": [0.9] * N},
        failed={"faithfulness": {name: Failed("system", "timeout: no connection") for name in ids}},
        system_failures=dict.fromkeys(ids, "timeout: no connection"),
        manifest=make_manifest().model_copy(update={"same_job": same_job}),
    )


def decided(
    now: RunScores, then: RunScores, *, accepted: float | None = None, **gate: object
) -> tuple[GateVerdict, list[Check]]:
    rules: Mapping[str, Any] = {"gate": gate, "metrics": {"faithfulness": {"max_drop": 0.05}}}
    policy = policy_from_mapping(rules)
    if accepted is not None:
        entry = AcceptedEntry(
            id="a" * 8,
            metric="golden set",
            drop=accepted,
            reason="meant",
            run="a" * 16,
            baseline="b" * 16,
            date=datetime.date(2026, 11, 21),
        )
        policy = policy.with_accepted(InForce((entry,)))
    verdict = decide_gate(now, then, policy)
    return verdict, [check for check in verdict.checks if check.kind is CheckKind.PAIRED]


@pytest.mark.parametrize("inconclusive", ["pass", "warn", "fail"])
@pytest.mark.parametrize("same_job", [False, True])
def test_a_baseline_whose_system_failed_on_most_samples_ends_with_6(inconclusive: str, same_job: bool) -> None:
    verdict, [check] = decided(good(), starved(36, same_job=same_job), inconclusive=inconclusive)
    assert verdict.status is Status.ERROR
    assert verdict.exit_code == 6
    whose = "the system of the base commit" if same_job else "the baseline's system"
    assert check.reason.startswith(
        "only 4 of 40 samples of the baseline can be compared (10 %, required 80 %): "
        f"{whose} failed on 36 (most often: timeout: no connection). "
    )
    assert not eligibility(verdict)[0], "or a starved comparison would be the next baseline"


def test_it_ends_with_6_also_when_the_answers_fail_any_policy() -> None:
    """Otherwise `fail_on = "never"` would let pass what a starved base hides."""
    answers = SystemFacts(answers={f"s{number}": (fingerprint(f"answer {number}"),) for number in range(N)})
    broken = replace(build_run({"faithfulness": [0.1] * N}, manifest=make_manifest()), system=answers)
    verdict, [check] = decided(broken, starved(36))
    failed = {other.kind for other in verdict.checks if other.status is Status.FAIL}
    assert CheckKind.ANSWERS in failed, "or there is nothing that could hide the other"
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    assert verdict.reason.startswith(check.reason)


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (8, 0), (9, 6), (40, 6)])
def test_the_share_is_that_of_the_policy(lost: int, code: int) -> None:
    assert decided(good(), starved(lost))[0].exit_code == code


@pytest.mark.parametrize(("required", "code"), [(0.0, 0), (0.1, 0), (0.11, 6), (1.0, 6)])
def test_the_share_can_be_set(required: float, code: int) -> None:
    assert decided(good(), starved(36), min_paired=required)[0].exit_code == code


def test_samples_that_are_gone_changed_or_drafts_end_with_6() -> None:
    hashes = {f"s{number}": "then" for number in range(N)}
    gone, [check] = decided(good(20), good())
    assert gone.exit_code == 6
    assert "20 were removed from the golden set, changed or turned into drafts" in check.reason
    assert "ragstone accept --metric 'golden set'" in check.reason
    changed = {**hashes, **{f"s{number}": "now" for number in range(9)}}
    assert decided(good(hashes=changed), good(hashes=hashes))[0].exit_code == 6
    few = {**hashes, **{f"s{number}": "now" for number in range(8)}}
    assert decided(good(hashes=few), good(hashes=hashes))[0].exit_code == 0
    assert decided(good(offset=100), good())[0].exit_code == 6, "another golden set altogether"


def test_a_policy_that_refuses_any_difference_is_held_to_the_same_share() -> None:
    assert decided(good(38), good(), unmatched="refuse")[0].exit_code == 0
    assert decided(good(20), good(), unmatched="refuse")[0].exit_code == 6


def test_new_samples_do_not_lower_the_share() -> None:
    verdict, checks = decided(good(10 * N), good())
    assert verdict.status is Status.PASS
    assert not checks


def test_answers_that_could_not_be_scored_are_not_paired() -> None:
    lost = {f"s{number}": Failed("judge", "down") for number in range(20)}
    then = build_run({"faithfulness": [0.9] * N}, failed={"faithfulness": lost}, manifest=make_manifest())
    verdict, [check] = decided(good(), then)
    assert verdict.exit_code == 6
    assert "20 have no score there" in check.reason


def test_what_to_accept_is_offered_and_does() -> None:
    verdict, _ = decided(good(27), good())
    policy = policy_from_mapping({})
    [offer] = offers(verdict.checks, policy.gate)
    assert (offer.metric, offer.slice, offer.drop) == ("golden set", None, 0.325)
    assert decided(good(27), good(), accepted=offer.drop)[0].status is Status.PASS
    assert decided(good(20), good(), accepted=offer.drop)[0].exit_code == 6, "no more than what was accepted"


def test_an_accepted_edit_does_not_cover_a_base_that_failed() -> None:
    verdict, [check] = decided(good(), starved(36), accepted=1.0)
    assert verdict.exit_code == 6
    assert not offers(verdict.checks, policy_from_mapping({}).gate)
    assert "ragstone accept" not in check.reason
    few = good(20)  # 20 are gone, and of the others the baseline's system failed on 10
    verdict, [check] = decided(few, starved(10), accepted=0.5)
    assert verdict.exit_code == 6
    assert "(20 of them accepted)" in check.reason
