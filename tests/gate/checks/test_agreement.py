"""What human labels do to the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.calibration import Calibration, Estimate, MetricCalibration, read_calibration
from ragstone.gate.policy import load_policy
from ragstone.gate.verdict import CheckKind, Status
from tests.gate.conftest import build_run, check_of, checks_of, decide, make_manifest

SCORES = [1.0, 0.0, 0.75, 0.25] * 50
RUN = build_run({"faithfulness": SCORES})
AGREE = [1.0, 0.0, 1.0, 0.0]
FLOOR = {"faithfulness": {"min": 0.3}}


def calibration(
    folder: Path, labels: list[float], n: int = 40, alpha: float | None = 0.9, run: RunScores = RUN
) -> dict[str, str]:
    """A file of `n` labels of the run, in turn, and the agreement of judge and people that was measured on them."""
    pairs = {f"s{i}": (SCORES[i], labels[i % len(labels)]) for i in range(n)}
    agreement = Estimate(estimate=alpha, low=alpha, high=alpha, confidence=0.95, method="bootstrap")
    metric = MetricCalibration(version=run.metrics["faithfulness"].version, pairs=pairs, agreement=agreement)
    judge = None if run.manifest is None else run.manifest.judge
    path = folder / "calibration.json"
    text = Calibration(judge=judge, metrics={"faithfulness": metric}).model_dump_json()
    path.write_text(text, encoding="utf-8")
    return {"file": str(path)}


def judged(**judge: Any) -> RunScores:
    return build_run({"faithfulness": SCORES}, manifest=make_manifest(**judge))


def versioned(version: str) -> RunScores:
    return build_run({"faithfulness": SCORES}, versions={"faithfulness": version})


@pytest.mark.parametrize(
    ("alpha", "labelled", "now", "status", "says"),
    [
        pytest.param(0.6, RUN, RUN, "pass", "is 0.60 on 40 labelled samples, required 0.60", id="agree"),
        pytest.param(0.59, RUN, RUN, "error", "is 0.59 on 40 labelled samples, required 0.60", id="do not agree"),
        pytest.param(None, RUN, RUN, "inconclusive", "can't be measured", id="all the same"),
        pytest.param(0.9, judged(model="old"), judged(), "error", "openai old", id="another judge"),
        pytest.param(0.9, RUN, judged(), "error", "another evaluator", id="labels of a score file"),
        pytest.param(0.9, versioned("1"), versioned("2"), "error", "its formula changed", id="another formula"),
    ],
)
def test_agreement_with_people(
    tmp_path: Path, alpha: float | None, labelled: RunScores, now: RunScores, status: str, says: str
) -> None:
    labels = calibration(tmp_path, AGREE, alpha=alpha, run=labelled)
    verdict = decide(now, metrics=FLOOR, labels={**labels, "min_agreement": 0.6})
    check = check_of(verdict, CheckKind.AGREEMENT)
    assert check.status == status
    assert says in check.reason
    assert verdict.exit_code == (5 if status == "error" else 0)
    corrected = checks_of(decide(now, metrics=FLOOR, labels={**labels, "estimate": "corrected"}), CheckKind.AGREEMENT)
    is_of_another = labelled is not now
    assert [check.status for check in corrected] == [Status.ERROR] * is_of_another
    assert not checks_of(decide(now, metrics=FLOOR, labels=labels), CheckKind.AGREEMENT)
    warning = {"faithfulness": {"min": 0.3, "action": "warn"}}
    warned = checks_of(decide(now, metrics=warning, labels={**labels, "estimate": "corrected"}), CheckKind.AGREEMENT)
    assert [check.status for check in warned] == [Status.ERROR] * is_of_another


def test_only_judged_metrics_over_all_samples_need_labels_and_without_them_there_is_a_warning(tmp_path: Path) -> None:
    names = ("faithfulness", "answer_relevancy", "mrr")
    tagged = build_run(dict.fromkeys(names, SCORES), tags={"s0": ("x",)})
    labels = calibration(tmp_path, AGREE)
    verdict = decide(
        tagged,
        metrics={name: {"min": 0.3} for name in names},
        slices={"x": {"metrics": FLOOR}},
        labels={**labels, "min_agreement": 0.5},
    )
    found = {(check.metric, check.status) for check in checks_of(verdict, CheckKind.AGREEMENT)}
    assert found == {("faithfulness", Status.PASS), ("answer_relevancy", Status.INCONCLUSIVE)}
    assert verdict.status is Status.PASS
    assert "1 check that only warns did not pass." in verdict.reason


@pytest.mark.parametrize(
    ("labels", "n", "minimum", "status"),
    [
        pytest.param([0.0], 100, 0.3, "fail", id="people find everything wrong"),
        pytest.param(AGREE, 6, 0.3, "pass", id="few labels hold nothing against a mean"),
        pytest.param(AGREE, 6, 0.52, "inconclusive", id="nor prove that it is too low"),
    ],
)
def test_a_floor_as_people_score(tmp_path: Path, labels: list[float], n: int, minimum: float, status: str) -> None:
    rules: dict[str, Any] = {"metrics": {"faithfulness": {"min": minimum}}}
    corrected = {**calibration(tmp_path, labels, n), "estimate": "corrected"}
    check = check_of(decide(RUN, **rules, labels=corrected), CheckKind.FLOOR)
    assert check.status == status
    assert check.current == pytest.approx(0.5)
    assert "as people would score it (the judge gives 0.50" in check.reason
    by_judge = check_of(decide(RUN, **rules, labels={**corrected, "estimate": "judge"}), CheckKind.FLOOR)
    assert by_judge.estimate == pytest.approx(0.5)


@pytest.mark.parametrize(("minimum", "status"), [(0.3, "pass"), (0.49, "fail")])
def test_an_assured_floor_as_people_would_score(tmp_path: Path, minimum: float, status: str) -> None:
    rules: dict[str, Any] = {"metrics": {"faithfulness": {"min": minimum}}, "gate": {"decision": "assured"}}
    labels = {**calibration(tmp_path, AGREE, 100), "estimate": "corrected"}
    assert check_of(decide(RUN, **rules, labels=labels), CheckKind.FLOOR).status == status


def test_a_policy_that_needs_labels_says_how_to_get_them(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    for text, says in (
        ("[gate]\n[labels]\nmin_agreement = 0.5\n", "ragstone calibrate"),
        ("[gate]\n[labels]\nestimate = 'corrected'\n", "ragstone calibrate"),
        ("[labels]\nfile = 'none.json'\n", r"none\.json"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=says) as caught:
            load_policy(path)
        assert caught.value.where == f"{path}:2"


def test_what_is_no_calibration_is_refused(tmp_path: Path) -> None:
    path = Path(calibration(tmp_path, AGREE)["file"])
    assert read_calibration(path).metrics.keys() == {"faithfulness"}
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ConfigError, match="not a calibration"):
        read_calibration(path)
