from __future__ import annotations

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import RunScores
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.policy import policy_from_mapping, policy_hash
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from ragstone.settings.settings import SystemPrice
from tests.gate.checks.test_run_checks import decide, of_kind
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest

FAITHFULNESS = {"faithfulness": {"min": 0.5}}


def priced() -> Manifest:
    return make_manifest().model_copy(update={"price": SystemPrice(input=1.0, output=10.0)})


def verdict(one: RunScores, **system: object) -> GateVerdict:
    return decide(one, metrics=FAITHFULNESS, system=system)


def usage_check(one: RunScores, **system: object) -> Check:
    (check,) = of_kind(verdict(one, **system), CheckKind.USAGE)
    return check


def test_tokens_within_their_limit_pass() -> None:
    check = usage_check(run({"faithfulness": [1.0] * 20}, usage=[(900, 100)] * 20), tokens_mean=1000)
    assert (check.status, check.estimate, check.name) == (Status.PASS, 1000.0, "system.tokens_mean")
    assert check.reason == "an answer took 1,000 tokens on average on 20 samples: within the limit of 1,000 tokens."


def test_a_mean_that_is_shown_to_be_over_its_limit_fails() -> None:
    one = run({"faithfulness": [1.0] * 40}, usage=[(1000 + n, 100) for n in range(40)])
    found = verdict(one, tokens_mean=1000)
    (check,) = of_kind(found, CheckKind.USAGE)
    assert (check.status, found.exit_code) == (Status.FAIL, 1)
    assert check.interval is not None
    assert check.interval.method == "Student's t"


def test_one_long_answer_may_be_chance() -> None:
    one = run({"faithfulness": [1.0] * 20}, usage=[(900, 0)] * 19 + [(9000, 0)])
    assert usage_check(one, tokens_mean=1000).status is Status.INCONCLUSIVE


def test_the_95th_percentile_has_a_limit_of_its_own() -> None:
    one = run({"faithfulness": [1.0] * 60}, usage=[(500, 0)] * 40 + [(3000, 0)] * 20)
    check = usage_check(one, tokens_p95=2000)
    assert (check.status, check.estimate) == (Status.FAIL, 3000.0)
    assert "95 of 100 answers took at most 3,000 tokens" in check.reason


def test_the_cost_of_an_answer_is_its_tokens_at_the_price_of_the_run() -> None:
    one = run({"faithfulness": [1.0] * 20}, usage=[(1000, 100)] * 20, manifest=priced())
    check = usage_check(one, cost_mean_usd=0.001)
    assert check.status is Status.FAIL
    assert check.estimate == pytest.approx(0.002)  # 1000 × $1 + 100 × $10, per million
    assert "cost $0.0020 on average" in check.reason
    assert "the limit of $0.0010" in check.reason


def test_a_limit_on_what_the_system_does_not_report_is_an_error() -> None:
    check = usage_check(run({"faithfulness": [1.0] * 20}), tokens_p95=2000)
    assert (check.status, check.estimate) == (Status.ERROR, None)
    assert "the system reports no tokens" in check.reason


def test_a_limit_in_dollars_without_a_price_is_an_error() -> None:
    check = usage_check(run({"faithfulness": [1.0] * 20}, usage=[(1, 1)] * 20), cost_p95_usd=2.0)
    assert check.status is Status.ERROR
    assert "[system.price]" in check.reason


def test_a_system_can_not_pass_by_reporting_its_cheap_answers_only() -> None:
    check = usage_check(run({"faithfulness": [1.0] * 20}, usage=[(1, 1)] * 10), tokens_mean=1000)
    assert check.status is Status.ERROR
    assert "only 10 of 20 answers report their tokens (50 %, required 98 %)" in check.reason


def test_each_limit_is_a_check_and_gets_its_share_of_the_error_rate() -> None:
    one = run({"faithfulness": [1.0] * 40}, usage=[(1000, 100)] * 40, latencies=[1.0] * 40, manifest=priced())
    all_ = {"latency_p95_s": 2.0, "tokens_mean": 2000, "tokens_p95": 2000, "cost_mean_usd": 1.0, "cost_p95_usd": 1.0}
    found = verdict(one, **all_)
    (latency,) = of_kind(found, CheckKind.LATENCY)
    checks = of_kind(found, CheckKind.USAGE)
    assert len(checks) == 4
    assert {check.interval.confidence for check in checks if check.interval} == {1 - 2 * 0.15 * 0.05 / 5}
    assert latency.status is Status.PASS


def test_the_keys_of_the_policy() -> None:
    check = usage_check(run({"faithfulness": [1.0] * 20}), tokens_p95=2000)
    assert key_of_check(check) == ("system", "tokens_p95")
    base, head = ({"metrics": FAITHFULNESS}, {"metrics": FAITHFULNESS, "system": {"tokens_p95": 5}})
    assert policy_hash(policy_from_mapping(base)) != policy_hash(policy_from_mapping(head))
