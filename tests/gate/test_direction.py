"""Metrics where less is better: the same decisions as for 1 − score, told the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.accepted import offers
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import load_policy, policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Side, Status
from ragstone.report.document import document_of
from ragstone.report.filters import thresholds
from ragstone.report.metrics import metric_parts
from tests.gate.conftest import build_run

RATES = {"error_rate": {"max": 0.2, "max_rise": 0.02}}


def decided(now: RunScores, then: RunScores | None, **tables: Any) -> GateVerdict:
    return decide_gate(now, then, policy_from_mapping(tables))


def only(verdict: GateVerdict, kind: CheckKind) -> Check:
    (found,) = (check for check in verdict.checks if check.kind is kind)
    return found


def rates(mean: float, n: int = 60, name: str = "error_rate") -> RunScores:
    wrong = round(mean * n)
    return build_run({name: [1.0] * wrong + [0.0] * (n - wrong)})


@pytest.mark.parametrize(
    ("now", "then", "status", "ceiling", "rise"),
    [
        pytest.param(rates(0.65), rates(0.15), Status.FAIL, "above the ceiling of 0.20", "rose by 0.50", id="rises"),
        pytest.param(rates(0.05), rates(0.5), Status.PASS, "", "no sample got worse", id="falls"),
        pytest.param(rates(0.25, 20), rates(0.25, 20), Status.INCONCLUSIVE, "as the baseline is", "", id="as before"),
    ],
)
def test_an_error_rate(now: RunScores, then: RunScores, status: Status, ceiling: str, rise: str) -> None:
    verdict = decided(now, then, metrics=RATES)
    assert verdict.status is status
    level, change = only(verdict, CheckKind.CEILING), only(verdict, CheckKind.RISE)
    assert (level.name, change.name) == ("error_rate.ceiling", "error_rate.rise")
    assert (level.threshold, change.threshold) == pytest.approx((0.2, 0.02))
    means = [run["error_rate"].values.values() for run in (now, then)]
    current, baseline = (sum(values) / len(values) for values in means)
    assert (level.estimate, change.current, change.baseline) == pytest.approx((current, current, baseline))
    assert change.estimate == pytest.approx(current - baseline)
    assert level.interval is not None
    assert level.interval.low < current < level.interval.high
    assert ceiling in level.reason
    assert rise in change.reason
    assert (level.reason in verdict.warnings) is ("chance" in ceiling)
    assert bool(verdict.explanation.regressions) is (status is Status.FAIL)
    assert all((one.current, one.baseline) == (1.0, 0.0) for one in verdict.explanation.regressions)


UNIT = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=4, max_size=12)


@settings(deadline=None, max_examples=10)
@given(
    now=UNIT, seed=st.integers(0, 5), bound=st.sampled_from([0.25, 0.5, 0.75]), allowed=st.sampled_from([0.0, 0.125])
)
@pytest.mark.parametrize("decision", ["evidence", "assured", "point"])
def test_a_metric_turned_around_gets_the_same_verdict(
    decision: str, now: list[float], seed: int, bound: float, allowed: float
) -> None:
    then = list(np.random.default_rng(seed).permutation(now))
    gate = {"decision": decision}
    tags = {"s0": ("x",), "s1": ("x",), "s2": ("x",)}

    def verdict(turned: bool) -> GateVerdict:
        values = ([1.0 - value for value in side] if turned else side for side in (now, then))
        current, baseline = (build_run({"quality": list(side)}, tags=tags) for side in values)
        rule = {"max": 1.0 - bound, "max_rise": allowed} if turned else {"min": bound, "max_drop": allowed}
        part = {"x": {"metrics": {"quality": rule}}}
        must = {"samples": ["s0"]}
        return decided(current, baseline, gate=gate, metrics={"quality": rule}, slices=part, must_pass=must)

    plain, turned = verdict(False), verdict(True)
    assert turned.status is plain.status
    assert len(turned.checks) == len(plain.checks)
    for one, other in zip(plain.checks, turned.checks, strict=True):
        assert (one.status, one.n) == (other.status, other.n)
        if one.kind is CheckKind.DROP and one.interval is not None and other.interval is not None:
            assert other.kind is CheckKind.RISE
            assert other.estimate == pytest.approx(-(one.estimate or 0.0))
            assert (other.interval.low, other.interval.high) == pytest.approx((-one.interval.high, -one.interval.low))
        if one.kind is CheckKind.FLOOR and one.interval is not None and other.interval is not None:
            assert other.kind is CheckKind.CEILING
            assert other.estimate == pytest.approx(1.0 - (one.estimate or 0.0))
            assert (other.interval.low, other.interval.high) == pytest.approx(
                (1.0 - one.interval.high, 1.0 - one.interval.low)
            )
    assert [one.sample_id for one in turned.explanation.regressions] == [
        one.sample_id for one in plain.explanation.regressions
    ]


@pytest.mark.parametrize(
    ("name", "keys", "says", "hint"),
    [
        ("noise_sensitivity", "min = 0.8", "lower is better for noise_sensitivity", "'max'"),
        ("noise_sensitivity_relevant", "max_drop = 0.1", "lower is better", "'max_rise'"),
        ("faithfulness", "max = 0.8", "higher is better for faithfulness", "'min'"),
        ("faithfulness", "max_rise = 0.8", "higher is better", "'max_drop'"),
        ("faithfulness", "lower_is_better = true\nmin = 0.5", "higher is better for faithfulness", "Remove"),
        ("error_rate", "max = 0.2\nmax_drop = 0.1", "lower is better for error_rate", "'max_rise'"),
        ("error_rate", "lower_is_better = true\nmin = 0.1", "lower is better", "'max'"),
        ("error_rate", "lower_is_better = true", "none of 'max', 'max_rise', 'max_drift' and 'target'", "Set one"),
        ("wer", "max = 0.2\n[slices.x.metrics.wer]\nmin = 0.2", "lower is better for wer, as the other keys say", ""),
    ],
)
def test_keys_of_the_wrong_direction_are_refused(tmp_path: Path, name: str, keys: str, says: str, hint: str) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text(f"[metrics.{name}]\n{keys}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=says) as caught:
        load_policy(path, known_metrics=None)
    assert hint in str(caught.value)
    assert f"{path}:" in str(caught.value)


def test_a_ceiling_is_found_in_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text("[metrics.error_rate]\nmax_rise = 0.02\nmax = 0.2\n", encoding="utf-8")
    policy = load_policy(path, known_metrics=None)
    verdict = decide_gate(rates(0.65), rates(0.15), policy)
    failed = [check for check in verdict.checks if check.status is Status.FAIL and check.metric is not None]
    assert {policy.line_of(*key_of_check(check)) for check in failed} == {2, 3}
    assert key_of_check(only(verdict, CheckKind.CEILING)) == ("metrics", "error_rate", "max")


def test_a_rise_can_be_accepted() -> None:
    policy = policy_from_mapping({"metrics": {"error_rate": {"max_rise": 0.02}}})
    verdict = decide_gate(rates(0.65), rates(0.15), policy)
    (offer,) = offers(verdict.checks, policy.gate)
    assert offer.drop == pytest.approx(0.5)
    assured = policy_from_mapping({"metrics": {"error_rate": {"max_rise": 0.02}}, "gate": {"decision": "assured"}})
    (wider,) = offers(decide_gate(rates(0.65), rates(0.15), assured).checks, assured.gate)
    assert wider.drop > offer.drop


def test_a_metric_of_generation_that_rises_points_at_generation() -> None:
    name = "noise_sensitivity_relevant"
    verdict = decided(rates(0.65, name=name), rates(0.15, name=name), metrics={"noise_sensitivity": {"max_rise": 0.02}})
    assert verdict.explanation.attribution is not None
    assert verdict.explanation.attribution.side is Side.GENERATION
    assert "Generation: noise_sensitivity_relevant +0.50" in verdict.explanation.attribution.reason
    lone = decided(rates(0.65, name=name), None, metrics={"noise_sensitivity": {"max": 0.2}})
    assert lone.explanation.attribution is not None
    assert lone.explanation.attribution.reason == "Outside its limits: noise_sensitivity_relevant 0.65."


def test_the_report_tells_a_rise_as_worse() -> None:
    now, then = rates(0.65), rates(0.15)
    verdict = decided(now, then, metrics=RATES)
    report = document_of(verdict, now, then)
    (row,) = report.metrics
    assert {(limit.kind, limit.value) for limit in row.limits} == {("ceiling", 0.2), ("rise", 0.02)}
    assert thresholds(row) == ["≤\u00a00.2", "rise\u00a0≤\u00a00.02"]
    assert row.state in ("above ceiling", "rose")
    (moved,) = report.samples.differences
    assert (moved.worse, moved.better) == (30, 0)
    assert {cell.worse for sample in report.samples.rows for cell in sample.cells if cell.change} == {True}
    better = document_of(decided(then, now, metrics=RATES), then, now)
    assert better.metrics[0].state == "pass"
    assert (better.samples.differences[0].worse, better.samples.differences[0].better) == (0, 30)


def test_a_measured_metric_without_a_rule_keeps_its_direction() -> None:
    run = build_run({"noise_sensitivity_irrelevant": [0.1, 0.2], "faithfulness": [1.0, 0.9]})
    verdict = decided(run, None, metrics={"faithfulness": {"min": 0.5}})
    assert verdict.explanation.lower_is_better == {"noise_sensitivity_irrelevant"}
    rows = metric_parts(verdict, run, None)
    assert {row.metric: row.lower_is_better for row in rows} == {
        "faithfulness": False,
        "noise_sensitivity_irrelevant": True,
    }
