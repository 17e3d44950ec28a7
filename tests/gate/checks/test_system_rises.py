"""The limits of [system] on how much slower or dearer an answer may get."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.evaluation.scores import RunScores
from ragstone.gate.checks.registry import checker_of, key_of_check
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from tests.gate.conftest import build_run, make_manifest

N = 30
BEFORE_S = [1.0] * N


def run(n: int = N, **more: Any) -> RunScores:
    return build_run({"faithfulness": [0.9] * n}, manifest=make_manifest(), **more)


def decided(now: RunScores, before: RunScores, *, decision: str = "evidence", **system: object) -> GateVerdict:
    rules = {"gate": {"decision": decision}, "metrics": {"faithfulness": {"min": 0.1}}, "system": system}
    return decide_gate(now, before, policy_from_mapping(rules))


def rises(verdict: GateVerdict) -> dict[str, Check]:
    return {check.name: check for check in verdict.checks if check.kind is CheckKind.SYSTEM_RISE}


def test_a_rise_that_all_answers_show_fails() -> None:
    verdict = decided(run(usage=[(1_300, 0)] * N), run(usage=[(1_000, 0)] * N), max_token_rise=0.25)
    (check,) = rises(verdict).values()
    assert (check.status, verdict.exit_code) == (Status.FAIL, 1)
    assert (
        check.reason == "Tokens per answer 1,000 → 1,300 (×\u00a01.30) on 30 questions; at most ×\u00a01.25 is allowed."
    )
    assert key_of_check(check) == ("system", "max_token_rise")


def test_a_rise_within_its_limit_passes() -> None:
    (check,) = rises(decided(run(usage=[(1_200, 0)] * N), run(usage=[(1_000, 0)] * N), max_token_rise=0.25)).values()
    assert check.status is Status.PASS
    assert check.estimate == pytest.approx(0.2)


def test_latency_has_a_check_for_the_median_and_one_for_the_tail() -> None:
    verdict = decided(run(latencies=[2.0] * N), run(latencies=BEFORE_S), max_latency_rise=0.5)
    assert {name: check.status for name, check in rises(verdict).items()} == {
        "system.latency_p50_s_rise": Status.FAIL,
        "system.latency_p95_s_rise": Status.FAIL,
    }


def test_two_slow_answers_of_thirty_are_not_shown_to_be_a_slow_tail() -> None:
    now = [*BEFORE_S[:-2], 9.0, 9.0]
    found = rises(decided(run(latencies=now), run(latencies=BEFORE_S), max_latency_rise=0.5))
    assert found["system.latency_p95_s_rise"].status is Status.INCONCLUSIVE
    assert "too few questions show it" in found["system.latency_p95_s_rise"].reason
    assert found["system.latency_p50_s_rise"].status is Status.PASS


def test_no_tick_stands_beside_a_number_over_its_limit() -> None:
    found = rises(decided(run(latencies=[0.2] * N), run(latencies=[0.1] * N), max_latency_rise=0.5))
    for check in found.values():
        assert check.status is Status.PASS
        assert checker_of(check).result(check) == ""
        assert check.reason.endswith("less than 200 ms is no rise.")


def test_point_compares_as_it_is_and_assured_wants_proof() -> None:
    before = run(latencies=BEFORE_S)
    slow_tail = run(latencies=[*BEFORE_S[:-2], 9.0, 9.0])
    point = rises(decided(slow_tail, before, decision="point", max_latency_rise=0.5))
    assert point["system.latency_p95_s_rise"].status is Status.FAIL
    for n, status in ((N, Status.PASS), (4, Status.FAIL)):
        few = decided(run(n, usage=[(10, 0)] * n), run(n, usage=[(10, 0)] * n), decision="assured", max_token_rise=0.5)
        assert rises(few)["system.tokens_mean_rise"].status is status


def test_a_limit_on_what_the_system_no_longer_reports_is_an_error() -> None:
    verdict = decided(run(), run(usage=[(1_000, 0)] * N), max_token_rise=0.5)
    (check,) = rises(verdict).values()
    assert check.status is Status.ERROR
    assert "the policy has max_token_rise, but the system reports no tokens" in check.reason
    assert key_of_check(check) == ("system", "max_token_rise")


def test_a_limit_that_the_baseline_can_not_show_is_said() -> None:
    verdict = decided(run(usage=[(1_000, 0)] * N), run(), max_token_rise=0.5)
    assert not rises(verdict)
    assert "max_token_rise is not checked: no question has such a figure in both runs." in verdict.warnings


def test_a_policy_without_the_keys_checks_no_rise() -> None:
    assert not rises(decided(run(usage=[(9_000, 0)] * N), run(usage=[(1_000, 0)] * N)))
