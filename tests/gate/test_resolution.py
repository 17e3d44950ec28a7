"""Where the variation of paired differences is taken from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.gate.comparability import pair_runs
from ragstone.gate.resolution import TYPICAL_CHANGED, TYPICAL_SD, spread_of
from tests.gate.conftest import build_run, make_manifest

REGENERATED = math.sqrt(2.0 * TYPICAL_CHANGED)
STEADY = [(0.5, 0.5)] * 20
MIXED = [(0.4, 0.6)] * 20
LONE: list[tuple[float | None, ...]] = [(0.4, 0.6), (None, 0.6)]
ONE_OR_THE_OTHER = [0.0, 1.0] * 20
DEVIATION = math.sqrt(10 / 39)  # of twenty zeros and twenty ones


@pytest.mark.parametrize(
    ("now", "then", "sd", "source"),
    [
        pytest.param(ONE_OR_THE_OTHER, [1.0] * 40, DEVIATION, "40 paired samples", id="pairs"),
        pytest.param(
            ONE_OR_THE_OTHER, ONE_OR_THE_OTHER, REGENERATED * DEVIATION, "40 scores", id="identical runs say nothing"
        ),
        pytest.param(ONE_OR_THE_OTHER, None, REGENERATED * DEVIATION, "40 scores", id="scores"),
        pytest.param([0.5, 1.0], [0.5], REGENERATED * math.sqrt(0.125), "2 scores", id="one pair is none"),
        pytest.param([0.5] * 40, None, REGENERATED * TYPICAL_SD, "no score differs", id="no score differs"),
        pytest.param(MIXED, None, math.sqrt(0.02), "20 samples with 2 answers", id="several answers"),
        pytest.param(MIXED, MIXED, math.sqrt(0.02), "20 samples with 2 answers", id="several answers, identical runs"),
        pytest.param(STEADY, None, REGENERATED * TYPICAL_SD, "no score differs", id="several answers that agree"),
        pytest.param(LONE, None, REGENERATED * math.sqrt(0.005), "2 scores", id="all answers of one sample only"),
    ],
)
def test_the_spread_of_a_metric(now: Sequence[Any], then: Sequence[Any] | None, sd: float, source: str) -> None:
    answers = 1 if isinstance(now[0], float) else len(now[0])
    run = build_run({"mrr": now}, manifest=make_manifest(answers=answers))
    pairing = None if then is None else pair_runs(run, build_run({"mrr": then}, manifest=run.manifest))
    found = spread_of("mrr", run, pairing)
    assert found is not None
    assert found.sd == pytest.approx(sd)
    assert source in found.source


def test_what_is_yet_to_be_measured_is_assumed_and_one_score_says_nothing() -> None:
    assumed = spread_of("mrr", None, None)
    assert assumed is not None
    assert assumed.sd == pytest.approx(REGENERATED * TYPICAL_SD)
    assert assumed.n == 0
    assert spread_of("mrr", build_run({"mrr": [1.0]}), None) is None
    assert spread_of("ndcg", build_run({"mrr": [1.0] * 9}), None) is None


def test_related_samples_have_a_size_and_a_correlation() -> None:
    scores = [0.0] * 4 + [1.0] * 4
    groups = {f"s{index}": f"g{index // 4}" for index in range(8)}
    found = spread_of("mrr", build_run({"mrr": scores}, groups=groups), None)
    assert found is not None
    assert (found.group_size, found.correlation) == pytest.approx((4.0, 1.0))
    alone = spread_of("mrr", build_run({"mrr": scores}, groups=dict.fromkeys(groups, "g")), None)
    assert alone is not None
    assert alone.group_size == 1.0
