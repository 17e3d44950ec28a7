"""The policy in force, and what other rooms ask of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.policy import Policy, default_policy, load_policy, policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status

TEXT = """\
must_pass = ["q1"]

[gate]
min_coverage = 0.9
on_no_baseline = "warn"

[metrics.faithfulness]
min = 0.8
max_drop = 0.1

[system]
max_error_rate = 0.1
latency_p95_s = 3.0

[slices.billing.metrics.faithfulness]
min = 0.9
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    path = tmp_path / "thresholds.toml"
    path.write_text(TEXT)
    return load_policy(path)


def check(kind: CheckKind, metric: str | None = None, tag: str | None = None) -> Check:
    return Check("name", kind, Status.FAIL, Action.BLOCK, "reason", metric=metric, slice=tag)


@pytest.mark.parametrize(
    ("kind", "metric", "tag", "written"),
    [
        (CheckKind.FLOOR, "faithfulness", None, "min = 0.8"),
        (CheckKind.DROP, "faithfulness", None, "max_drop = 0.1"),
        (CheckKind.FLOOR, "faithfulness", "billing", "min = 0.9"),
        (CheckKind.COVERAGE, "faithfulness", None, "min_coverage = 0.9"),
        (CheckKind.MUST_PASS, None, None, 'must_pass = ["q1"]'),
        (CheckKind.ERROR_RATE, None, None, "max_error_rate = 0.1"),
        (CheckKind.LATENCY, None, None, "latency_p95_s = 3.0"),
        (CheckKind.BASELINE, None, None, 'on_no_baseline = "warn"'),
    ],
)
def test_each_check_points_at_the_line_that_it_holds_the_run_against(
    policy: Policy, kind: CheckKind, metric: str | None, tag: str | None, written: str
) -> None:
    line = policy.line_of(*key_of_check(check(kind, metric, tag)))
    assert line is not None
    assert TEXT.splitlines()[line - 1] == written


def test_a_check_behind_which_no_key_is_written_points_at_nothing(policy: Policy) -> None:
    assert policy.line_of(*key_of_check(check(CheckKind.AGREEMENT))) is None
    assert default_policy().line_of(*key_of_check(check(CheckKind.FLOOR, "faithfulness"))) is None
    assert key_of_check(check(CheckKind.AGREEMENT)) == ("labels", "min_agreement")


def test_the_answer_to_inconclusive_checks_can_be_overridden(policy: Policy) -> None:
    assert policy.gate.inconclusive == "warn"
    other = policy.with_inconclusive("fail")
    assert other.gate.inconclusive == "fail"
    assert other.gate.min_coverage == 0.9
    assert other.line_of("gate", "min_coverage") == 4


@pytest.mark.parametrize(
    ("given", "kind", "offline", "action"),
    [
        ({}, CheckKind.DROP, True, Action.BLOCK),
        ({}, CheckKind.FLOOR, True, Action.WARN),
        ({}, CheckKind.FLOOR, False, Action.BLOCK),
        ({"metrics": {"faithfulness": {"min": 0.5}}}, CheckKind.FLOOR, True, Action.BLOCK),
        ({"metrics": {"faithfulness": {"min": 0.5, "action": "warn"}}}, CheckKind.FLOOR, False, Action.WARN),
    ],
)
def test_what_the_user_wrote_goes_before_caution_about_the_offline_judge(
    given: dict[str, object], kind: CheckKind, offline: bool, action: Action
) -> None:
    assert policy_from_mapping(given).action_for("faithfulness", kind, offline_judge=offline) is action


def test_metrics_of_must_pass_samples_are_checked_too() -> None:
    policy = policy_from_mapping({"must_pass": {"samples": ["a"], "metrics": ["faithfulnes"], "min": 0.5}})
    with pytest.raises(ConfigError, match="unknown metric 'faithfulnes'"):
        policy.require_known_metrics()


def test_numbers_in_metric_names_are_known_whatever_the_number() -> None:
    policy_from_mapping({"metrics": {"ndcg@17": {"min": 0.5}}}).require_known_metrics()
