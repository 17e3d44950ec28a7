"""Metrics where less is better: the same decisions as for 1 − score, told the other way round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import CheckKind, GateVerdict
from tests.gate.conftest import build_run, check_of, decide

RATES = {"error_rate": {"max": 0.2, "max_rise": 0.02}}


def rates(mean: float, n: int = 60, name: str = "error_rate") -> RunScores:
    wrong = round(mean * n)
    return build_run({name: [1.0] * wrong + [0.0] * (n - wrong)})


@pytest.mark.parametrize(
    ("now", "then", "status", "ceiling", "rise"),
    [
        pytest.param(0.65, 0.15, "fail", "above the ceiling of 0.20", "changed by +0.50", id="rises"),
        pytest.param(0.05, 0.5, "pass", "not above the ceiling", "changed by −0.45", id="falls"),
        pytest.param(0.25, 0.25, "inconclusive", "as the baseline is", "changed by 0 ", id="as before"),
    ],
)
def test_an_error_rate(now: float, then: float, status: str, ceiling: str, rise: str) -> None:
    verdict = decide(rates(now), rates(then), metrics=RATES)
    assert verdict.status == status
    level, change = check_of(verdict, CheckKind.CEILING), check_of(verdict, CheckKind.RISE)
    assert (level.name, change.name) == ("error_rate.ceiling", "error_rate.rise")
    assert (level.threshold, change.threshold) == pytest.approx((0.2, 0.02))
    assert (level.estimate, change.current, change.baseline) == pytest.approx((now, now, then))
    assert change.estimate == pytest.approx(now - then)
    assert level.interval is not None
    assert level.interval.low < now < level.interval.high
    assert ceiling in level.reason
    assert rise in change.reason
    assert key_of_check(level) == ("metrics", "error_rate", "max")
    regressions = verdict.explanation.regressions
    assert {(one.current, one.baseline) for one in regressions} == ({(1.0, 0.0)} if status == "fail" else set())


@pytest.mark.parametrize(("bound", "allowed", "seed"), [(0.5, 0.0, 1), (0.75, 0.125, 2)])
def test_a_metric_turned_around_gets_the_same_verdict(bound: float, allowed: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    now, then = (random.choice([0.0, 0.25, 0.5, 0.75, 1.0], 12).tolist() for _ in range(2))

    def verdict(turned: bool) -> GateVerdict:
        values = ([1.0 - value for value in side] if turned else side for side in (now, then))
        tags = {"s0": ("x",), "s1": ("x",), "s2": ("x",)}
        current, baseline = (build_run({"quality": list(side)}, tags=tags) for side in values)
        rule = {"max": 1.0 - bound, "max_rise": allowed} if turned else {"min": bound, "max_drop": allowed}
        metrics = {"quality": rule}
        part = {"x": {"metrics": metrics}}
        return decide(current, baseline, metrics=metrics, slices=part, must_pass=["s0"])

    plain, turned = verdict(False), verdict(True)
    assert turned.status is plain.status
    for one, other in zip(plain.checks, turned.checks, strict=True):
        assert (one.status, one.n, one.slice) == (other.status, other.n, other.slice)
        if one.estimate is not None and one.kind in (CheckKind.FLOOR, CheckKind.DROP):
            whole = 1.0 if one.kind is CheckKind.FLOOR else 0.0
            assert other.estimate == pytest.approx(whole - one.estimate)
        if one.kind is CheckKind.FLOOR:
            assert one.interval is not None
            assert other.interval is not None
            mirrored = (1.0 - one.interval.high, 1.0 - one.interval.low)
            assert (other.interval.low, other.interval.high) == pytest.approx(mirrored)
    ids = [[one.sample_id for one in each.explanation.regressions] for each in (plain, turned)]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("name", "keys", "says", "hint"),
    [
        ("noise_sensitivity", "min = 0.8", "lower is better for noise_sensitivity", "'max'"),
        ("faithfulness", "max = 0.8", "higher is better for faithfulness", "'min'"),
        (
            "faithfulness",
            "lower_is_better = true\nmin = 0.5",
            "higher is better for faithfulness",
            "Its keys are 'min', 'max_drop'",
        ),
        ("error_rate", "max = 0.2\nmax_drop = 0.1", "lower is better for error_rate", "'max_rise'"),
        ("error_rate", "lower_is_better = true", "none of 'max', 'max_rise' and 'max_drift'", "Set one"),
        ("wer", "max = 0.2\n[slices.x.metrics.wer]\nmin = 0.2", "lower is better for wer", ""),
    ],
)
def test_keys_of_the_wrong_direction_are_refused(tmp_path: Path, name: str, keys: str, says: str, hint: str) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text(f"[metrics.{name}]\n{keys}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=says) as caught:
        load_policy(path, known_metrics=None)
    assert hint in str(caught.value)
    assert f"{path}:" in str(caught.value)
