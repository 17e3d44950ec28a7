"""How far the chosen judge agrees with people is said before a run: by own labels, else by published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragstone.gate.calibration import Calibration, Estimate, MetricCalibration
from ragstone.judge.protocol import JudgeIdentity
from ragstone.pipeline.judge_agreement import agreement_with_people

OFFLINE = JudgeIdentity(provider="offline", model="", version="7")
LLM = JudgeIdentity(provider="openai", model="gpt-5.4-mini", version="abc")
ALPHA = Estimate(estimate=0.71, low=0.58, high=0.82, confidence=0.95, method="bootstrap")


def calibration(judge: JudgeIdentity) -> Calibration:
    measured = MetricCalibration.model_construct(pairs={f"q{n}": (1.0, 1.0) for n in range(60)}, agreement=ALPHA)
    return Calibration.model_construct(judge=judge, metrics={"faithfulness": measured})


@pytest.mark.parametrize("judge", [OFFLINE, LLM])
def test_own_labels_come_first(judge: JudgeIdentity) -> None:
    said = agreement_with_people(judge, calibration(judge), ["faithfulness", "context_recall"])
    assert said == "by your labels (Krippendorff's alpha): faithfulness 0.71 on 60 labels"


def test_labels_of_another_judge_do_not_count() -> None:
    said = agreement_with_people(LLM, calibration(replace(LLM, version="old")), ["faithfulness"])
    assert said.startswith("not measured for this model.")
    assert "ragstone calibrate" in said


def test_the_offline_judge_has_published_figures_for_each_metric_that_it_judges() -> None:
    said = agreement_with_people(OFFLINE, None, ["faithfulness", "latency", "context_precision"])
    assert said.startswith("on published labelled sets")
    assert "faithfulness 0." in said
    assert "AUROC" in said
    assert "context_precision 0." in said
    assert "latency" not in said
