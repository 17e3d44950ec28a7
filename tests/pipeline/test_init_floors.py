"""Floors that a system clears by more than its noise."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from ragstone.pipeline.init.starter_floors import RULES, MeasuredFloor, floors_of, floors_toml
from tests.gate.conftest import build_run, make_manifest


def test_a_floor_is_the_mean_less_its_noise_and_less_one_question() -> None:
    (steady,) = floors_of(build_run({"faithfulness": [0.9] * 20}))
    assert steady.mean == pytest.approx(0.9)
    assert (steady.questions, steady.floor) == (20, 0.85)
    (varied,) = floors_of(build_run({"faithfulness": [1.0, 0.6] * 10}))
    assert varied.floor == pytest.approx(0.8 - 2.33 * np.sqrt(2 * 0.4 * np.var([1.0, 0.6] * 10, ddof=1) / 20), abs=0.01)


def test_few_questions_low_means_and_other_metrics_get_none() -> None:
    few = [1.0] * (RULES["min_questions"] - 1)
    scores = build_run({"faithfulness": few, "context_recall": [0.0] * 20, "answer_relevancy": [0.9] * 20})
    assert list(floors_of(scores)) == []


def test_the_offline_judge_gets_room_for_other_words_and_no_floor_of_what_it_ranks() -> None:
    metrics = {"faithfulness": [0.9] * 20, "context_precision": [0.9] * 20}
    (floor,) = floors_of(build_run(metrics, manifest=make_manifest(provider="offline")))
    assert (floor.metric, floor.floor) == ("faithfulness", 0.82)
    assert {measured.metric for measured in floors_of(build_run(metrics, manifest=make_manifest()))} == set(metrics)


def test_the_name_of_a_judge_in_a_foreign_run_writes_no_rule() -> None:
    floor = MeasuredFloor("faithfulness", 0.9, 20, 0.8)
    hostile = "judge\n[gate]\ndecision = 'point'\n#"
    written = floors_toml([floor], make_manifest(provider=hostile), "ragstone-run")
    assert tomllib.loads(written) == {"metrics": {"faithfulness": {"min": 0.8, "max_drop": 0.02}}}
