"""Errors, latency, tokens and cost of the system under test, with the limits of [system] on each."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores, SystemFacts
from ragstone.gate.checks.registry import checker_of, key_of_check
from ragstone.gate.checks.system_limits import SystemLimits, error_rate_of_a_limit
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, GateVerdict, Status
from ragstone.settings.settings import SystemPrice
from tests.gate.conftest import build_run, check_of, checks_of, decide, evidence_of, failed, make_manifest, named

FAITHFUL = {"faithfulness": {"min": 0.5}}


def crashing(count: int, n: int) -> RunScores:
    """A finished run of `n` samples, on the first of which the system failed."""
    ids = named(count)
    return build_run(
        {"faithfulness": [1.0] * n},
        failed={"faithfulness": failed(ids, "system", "timeout")},
        system_failures=dict.fromkeys(ids, "timeout"),
        manifest=make_manifest(),
    )


@pytest.mark.parametrize(
    ("count", "n", "share", "status", "code"),
    [
        (2, 100, None, None, 0),
        (2, 99, None, "fail", 1),
        (1, 10, 0.0, "fail", 1),
        (1, 10, 0.02, "inconclusive", 0),  # one failure alone may be chance
        (2, 10, 0.02, "fail", 1),
        (2, 100, 0.02, "pass", 0),
    ],
)
def test_the_error_rate_is_taken_as_it_is(
    count: int, n: int, share: float | None, status: str | None, code: int
) -> None:
    system = {} if share is None else {"max_error_rate": share}
    verdict = decide(crashing(count, n), metrics=FAITHFUL, system=system)
    assert verdict.exit_code == code
    checks = checks_of(verdict, CheckKind.ERROR_RATE)
    # A check of the default that passes is in no table.
    assert [(check.status, check.estimate) for check in checks] == ([(status, count / n)] if status else [])
    if status == "fail":
        assert f"the system under test failed on {count} of {n} samples (" in verdict.reason
        assert f"more than the {100 * (0.02 if share is None else share):g} % allowed" in verdict.reason
        assert "timeout" in verdict.reason


@pytest.mark.parametrize(
    ("gate", "system"), [({}, {}), ({"min_coverage": 0.5}, {}), ({}, {"max_error_rate": 0.5}), ({}, {"action": "warn"})]
)
def test_a_system_that_crashes_is_a_failed_check_and_no_failure_of_the_judge(gate: Any, system: Any) -> None:
    verdict = decide(crashing(11, 50), metrics={"faithfulness": {"min": 0.85}}, gate=gate, system=system)
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert "the system under test failed" in verdict.reason


def test_a_judge_that_fails_too_does_not_hide_it() -> None:
    one = crashing(11, 50)
    scores = one.metrics["faithfulness"]
    lost = failed(list(scores.values)[:20])
    values = {name: value for name, value in scores.values.items() if name not in lost}
    both = replace(one, metrics={"faithfulness": replace(scores, values=values, failed={**scores.failed, **lost})})
    assert decide(both, metrics=FAITHFUL).exit_code == 1
    judge = replace(both, system=SystemFacts(), metrics={"faithfulness": replace(scores, values=values, failed=lost)})
    assert decide(judge, metrics=FAITHFUL).exit_code == 5


def test_the_error_rate_counts_every_time_that_the_system_was_asked() -> None:
    one = build_run(
        {"faithfulness": [(1.0, 1.0, 1.0)] * 98},
        manifest=make_manifest(answers=3),
        system_failures={"a": "1 of 3 answers: time-out", "b": "2 of 3 answers: time-out"},
        failed_answers={"a": 1, "b": 2},
    )
    check = check_of(decide(one, metrics=FAITHFUL, system={"max_error_rate": 0.01}), CheckKind.ERROR_RATE)
    assert (check.status, check.estimate) == (Status.PASS, 0.01)
    assert "failed on 3 of 300 answers (1 %)" in check.reason


def test_a_long_reason_of_failed_samples_is_cut_in_the_sentence_on_coverage() -> None:
    long = "bad_return: Returned something. " + "Expected something else. " * 50
    one = build_run({"faithfulness": [1.0] * 4}, failed={"faithfulness": failed(["q"], "system", long)})
    coverage = check_of(decide(one, metrics=FAITHFUL), CheckKind.COVERAGE)
    assert "most often: the system under test failed: bad_return: Returned something." in coverage.reason
    assert coverage.reason.endswith("…); coverage 80 %, required 90 %.")
    assert len(coverage.reason) < 320


# -- limits of an answer -----------------------------------------------------------------------------------------------

PRICED = make_manifest().model_copy(update={"price": SystemPrice(input=1.0, output=10.0)})
SLOW = [0.5] * 55 + [3.0] * 5
SKEWED = [(900, 0)] * 19 + [(9000, 0)]


def limited(one: RunScores, action: str = "block", **system: Any) -> list[Check]:
    evidence = evidence_of(one, metrics=FAITHFUL, system={"action": action, **system})
    return list(SystemLimits().evaluate(evidence))


def using(*usage: tuple[int, int], n: int | None = None, manifest: Manifest | None = PRICED, **more: Any) -> RunScores:
    return build_run({"faithfulness": [1.0] * (n or len(usage))}, usage=usage, manifest=manifest, **more)


@pytest.mark.parametrize(
    ("seconds", "status", "says"),
    [
        ([0.5] * 10, "pass", "within the limit of 2.00 s"),
        ([2.0] * 10, "pass", "within the limit"),
        ([0.5] * 40 + [3.0] * 20, "fail", "over the limit of 2.00 s"),
        (SLOW, "inconclusive", "too few answers to rule out chance"),  # one slow answer too many
        ([], "error", "did not measure the latency"),
    ],
)
def test_latency(seconds: list[float], status: str, says: str) -> None:
    one = build_run({"faithfulness": [1.0] * len(seconds)}, latencies=seconds)
    (check,) = limited(one, latency_p95_s=2.0)
    assert (check.name, check.kind, check.status) == ("system.latency_p95", CheckKind.LATENCY, status)
    assert says in check.reason
    assert key_of_check(check) == ("system", "latency_p95_s")


@pytest.mark.parametrize(
    ("one", "key", "limit", "status", "estimate", "says"),
    [
        (using(*[(900, 100)] * 20), "tokens_mean", 1000, "pass", 1000.0, "1,000 on 20 samples"),
        (using(*[(1000 + n, 100) for n in range(40)]), "tokens_mean", 1000, "fail", 1119.5, "over the limit"),
        (using(*SKEWED), "tokens_mean", 1000, "inconclusive", 1305.0, "too few answers to rule out chance"),
        (using(*[(1000, 100)] * 20), "cost_mean_usd", 0.001, "fail", 0.002, "$0.0020 on 20 samples"),
        (using(n=20), "tokens_mean", 2000, "error", None, "the system reports no tokens"),
        (using((1, 1), manifest=None), "cost_mean_usd", 2.0, "error", None, "[system.price]"),
        (using(*[(1, 1)] * 10, n=20), "tokens_mean", 1000, "error", None, "only 10 of 20 answers report their tokens"),
        (using(*[(1, 1)] * 98, n=100), "tokens_mean", 1000, "pass", 2.0, "within"),
        (using(*[(1, 1)] * 97, n=100), "tokens_mean", 1000, "error", None, "only 97 of 100 answers report"),
    ],
)
def test_tokens_and_cost(one: RunScores, key: str, limit: Any, status: str, estimate: Any, says: str) -> None:
    (check,) = limited(one, **{key: limit})
    assert (check.name, check.status, check.threshold) == (f"system.{key}", status, limit)
    assert check.estimate == (None if estimate is None else pytest.approx(estimate))
    assert says in check.reason
    assert key_of_check(check) == ("system", key)
    assert [one.action for one in limited(one, action="warn", **{key: limit})] == [Action.WARN]


def test_each_limit_is_a_check_and_gets_its_share_of_the_error_rate() -> None:
    one = using(*[(1000, 100)] * 40, latencies=[1.0] * 40)
    limits: dict[str, Any] = {"latency_p95_s": 2.0, "tokens_mean": 2000, "cost_mean_usd": 1.0}
    assert len(limited(one, **limits)) == 3
    for rises, tests in (({}, 3), ({"max_token_rise": 0.5, "max_cost_rise": 0.5}, 5)):
        rate = error_rate_of_a_limit(policy_from_mapping({"system": {**limits, **rises}}))
        assert rate == pytest.approx(0.15 * 0.05 / tests)


# -- limits of a rise --------------------------------------------------------------------------------------------------

N = 30
LATER = [*[1.0] * (N - 2), 9.0, 9.0]


def risen(now: RunScores, then: RunScores, **system: Any) -> GateVerdict:
    return decide(now, then, metrics={"faithfulness": {"min": 0.1}}, system=system)


def lasting(*seconds: float) -> RunScores:
    return build_run({"faithfulness": [0.9] * len(seconds)}, latencies=seconds, manifest=make_manifest())


@pytest.mark.parametrize(
    ("tokens", "status", "says"),
    [
        (1_300, "fail", "1,000 → 1,300 (×\u00a01.30) on 30 questions; at most ×\u00a01.25 is allowed."),
        (1_250, "pass", "at most ×\u00a01.25 is allowed."),
    ],
)
def test_a_rise_of_tokens(tokens: int, status: str, says: str) -> None:
    verdict = risen(using(*[(tokens, 0)] * N), using(*[(1_000, 0)] * N), max_token_rise=0.25)
    check = check_of(verdict, CheckKind.SYSTEM_RISE)
    assert check.status == status
    assert check.estimate == pytest.approx(tokens / 1_000 - 1)
    assert check.reason.endswith(says)
    assert key_of_check(check) == ("system", "max_token_rise")
    assert not checks_of(risen(using((9_000, 0)), using((1_000, 0))), CheckKind.SYSTEM_RISE)


@pytest.mark.parametrize(
    ("now", "then", "median", "tail"),
    [
        pytest.param([2.0] * N, [1.0] * N, "fail", "fail", id="all are slower"),
        pytest.param(LATER, [1.0] * N, "pass", "inconclusive", id="two slow ones show no slow tail"),
        pytest.param([0.2] * N, [0.1] * N, "pass", "pass", id="less than 200 ms is no rise"),
    ],
)
def test_a_rise_of_latency(now: list[float], then: list[float], median: str, tail: str) -> None:
    verdict = risen(lasting(*now), lasting(*then), max_latency_rise=0.5)
    found = {check.name: check.status for check in checks_of(verdict, CheckKind.SYSTEM_RISE)}
    assert found == {"system.latency_p50_s_rise": median, "system.latency_p95_s_rise": tail}


def test_no_tick_stands_beside_a_number_over_its_limit() -> None:
    verdict = risen(lasting(*[0.2] * N), lasting(*[0.1] * N), max_latency_rise=0.5)
    for check in checks_of(verdict, CheckKind.SYSTEM_RISE):
        assert checker_of(check).result(check) == ""
        assert check.reason.endswith("less than 200 ms is no rise.")


def test_a_limit_on_what_one_side_does_not_report_is_an_error_or_said() -> None:
    check = check_of(risen(using(n=N), using(*[(1_000, 0)] * N), max_token_rise=0.5), CheckKind.SYSTEM_RISE)
    assert check.status is Status.ERROR
    assert "the policy has max_token_rise, but the system reports no tokens" in check.reason
    verdict = risen(using(*[(1_000, 0)] * N), using(n=N), max_token_rise=0.5)
    assert not checks_of(verdict, CheckKind.SYSTEM_RISE)
    assert "max_token_rise is not checked: no question has a value in both runs." in verdict.warnings
