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
    now: RunScores, then: RunScores, *, accepted: str | None = None, **gate: object
) -> tuple[GateVerdict, list[Check]]:
    rules: Mapping[str, Any] = {"gate": gate, "metrics": {"faithfulness": {"max_drop": 0.05}}}
    policy = policy_from_mapping(rules)
    if accepted is not None:
        entry = AcceptedEntry(
            id="a" * 8,
            metric="golden set",
            drop=1.0,
            edit=accepted,
            reason="meant",
            run="a" * 16,
            baseline="b" * 16,
            date=datetime.date(2026, 11, 21),
        )
        policy = policy.with_accepted(InForce((entry,)))
    verdict = decide_gate(now, then, policy)
    return verdict, [check for check in verdict.checks if check.kind is CheckKind.PAIRED]


@pytest.mark.parametrize(
    ("inconclusive", "same_job", "whose"),
    [
        ("pass", False, "the baseline's system"),
        ("warn", True, "the system of the base commit"),
        ("fail", True, "the system of the base commit"),
    ],
)
def test_a_baseline_whose_system_failed_on_most_samples_ends_with_6(
    inconclusive: str, same_job: bool, whose: str
) -> None:
    verdict, [check] = decided(good(), starved(36, same_job=same_job), inconclusive=inconclusive)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    assert "only 4 of 40 samples" in check.reason
    assert "(10 %, required 80 %)" in check.reason
    assert f"{whose} failed on 36 (most often: timeout: no connection)" in check.reason
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


UNSCORED = build_run(
    {"faithfulness": [0.9] * N},
    failed={"faithfulness": {f"s{number}": Failed("judge", "down") for number in range(20)}},
    manifest=make_manifest(),
)


@pytest.mark.attack(
    by="pull request",
    tries="remove, change or turn into drafts the samples that it fails",
    stopped_by="the same share is required, unless `accepted.toml` has the edit",
)
@pytest.mark.parametrize(
    ("now", "then", "gate", "says"),
    [
        pytest.param(good(), good(), {}, "", id="all"),
        pytest.param(good(), starved(8), {}, "", id="just enough"),
        pytest.param(good(), starved(9), {}, "failed on 9", id="one too few"),
        pytest.param(good(), starved(40), {}, "failed on 40", id="none"),
        pytest.param(good(), starved(36), {"min_paired": 0.0}, "", id="any will do"),
        pytest.param(good(), starved(36), {"min_paired": 0.1}, "", id="a tenth"),
        pytest.param(good(), starved(36), {"min_paired": 0.11}, "required 11 %", id="more than a tenth"),
        pytest.param(good(), starved(1), {"min_paired": 1.0}, "required 100 %", id="each"),
        pytest.param(good(), UNSCORED, {}, "20 have no score there", id="not scored"),
        pytest.param(good(10 * N), good(), {}, "", id="new samples"),
    ],
)
def test_a_comparison_on_too_few_samples_ends_with_6(
    now: RunScores, then: RunScores, gate: dict[str, Any], says: str
) -> None:
    verdict, checks = decided(now, then, **gate)
    assert verdict.exit_code == (6 if says else 0)
    if says:
        assert says in checks[0].reason


def test_an_accepted_edit_does_not_cover_a_base_that_failed() -> None:
    verdict, [check] = decided(good(), starved(36), accepted="e" * 16)
    assert verdict.exit_code == 6
    assert not offers(verdict.checks, policy_from_mapping({}).gate)
    assert "ragstone accept" not in check.reason
    few = good(20)  # 20 are gone, and of the others the baseline's system failed on 10
    verdict, _ = decided(few, starved(10))
    assert not offers(verdict.checks, policy_from_mapping({}).gate), "to accept the edit would not be enough"
    [edit] = [check.edit for check in verdict.checks if check.kind is CheckKind.GOLDEN_SET]
    verdict, [check] = decided(few, starved(10), accepted=edit)
    assert verdict.exit_code == 6
    assert "only 10 of 20 samples" in check.reason
