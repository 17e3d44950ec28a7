"""What human labels do to the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.scores import RunScores
from ragstone.gate.calibration import read_calibration
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, load_policy, policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from ragstone.tools.judging.calibrate import calibrate
from ragstone.tools.judging.table import read_labels
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest

SCORES = [1.0, 0.0, 0.75, 0.25] * 50


def labelled(path: Path, labels: dict[str, object]) -> Path:
    path.write_text("id,metric,label\n" + "".join(f"{i},faithfulness,{label}\n" for i, label in labels.items()))
    return path


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., Policy]:
    def make(labels: dict[str, object], scores: RunScores | None = None, **rules: Any) -> Policy:
        one = scores if scores is not None else run({"faithfulness": SCORES})
        found = calibrate(one, read_labels([labelled(tmp_path / "labels.csv", labels)])).calibration
        (tmp_path / "calibration.json").write_text(found.model_dump_json(), encoding="utf-8")
        return policy_from_mapping(
            {
                "metrics": {"faithfulness": {"min": 0.3}},
                "labels": {"file": str(tmp_path / "calibration.json"), **rules},
            }
        )

    return make


def of_kind(verdict: GateVerdict, kind: CheckKind) -> Check:
    return next(check for check in verdict.checks if check.kind is kind)


def agreeing(n: int = 40) -> dict[str, object]:
    return {f"s{i}": "pass" if SCORES[i] >= 0.5 else "fail" for i in range(n)}


UPSIDE_DOWN = {i: "fail" if label == "pass" else "pass" for i, label in agreeing().items()}


@pytest.mark.parametrize(
    ("labels", "labelled_run", "current", "code", "says"),
    [
        pytest.param(agreeing(), {}, {}, 0, "", id="agree"),
        pytest.param(UPSIDE_DOWN, {}, {}, 5, "less than the 0.60 required", id="contradict"),
        pytest.param(
            agreeing(), {"manifest": manifest(model="old")}, {"manifest": manifest()}, 5, "openai old", id="other judge"
        ),
        pytest.param(
            agreeing(),
            {"versions": {"faithfulness": "1"}},
            {"versions": {"faithfulness": "2"}},
            5,
            "its formula changed",
            id="other formula",
        ),
    ],
)
def test_a_judge_that_people_agree_with_may_decide(
    policy: Callable[..., Policy], labels: dict[str, object], labelled_run: Any, current: Any, code: int, says: str
) -> None:
    rules = policy(labels, run({"faithfulness": SCORES}, **labelled_run), min_agreement=0.6)
    verdict = decide_gate(run({"faithfulness": SCORES}, **current), None, rules)
    assert verdict.exit_code == code
    assert says in verdict.reason
    assert of_kind(verdict, CheckKind.AGREEMENT).status is (Status.ERROR if code else Status.PASS)


def test_a_metric_without_labels_is_a_warning(policy: Callable[..., Policy], tmp_path: Path) -> None:
    policy(agreeing())
    rules = policy_from_mapping(
        {
            "metrics": {"faithfulness": {"min": 0.3}, "answer_relevancy": {"min": 0.3}},
            "labels": {"file": str(tmp_path / "calibration.json"), "min_agreement": 0.5},
        }
    )
    verdict = decide_gate(run({"faithfulness": SCORES, "answer_relevancy": SCORES}), None, rules)
    assert verdict.status is Status.PASS
    assert "1 check that only warns did not pass." in verdict.reason


def test_a_floor_may_be_held_by_what_people_would_have_said(policy: Callable[..., Policy]) -> None:
    # The judge gives 0.5 on average, people find everything wrong: the corrected mean is 0.
    wrong: dict[str, object] = {f"s{i}": "fail" for i in range(100)}
    by_judge = decide_gate(run({"faithfulness": SCORES}), None, policy(wrong))
    by_people = decide_gate(run({"faithfulness": SCORES}), None, policy(wrong, estimate="corrected"))
    assert (by_judge.status, by_people.status) == (Status.PASS, Status.FAIL)
    check = of_kind(by_people, CheckKind.FLOOR)
    assert check.estimate == pytest.approx(0.0)
    assert check.current == pytest.approx(0.5)
    assert "as people would score it" in check.reason


def test_few_labels_hold_nothing_against_a_corrected_mean_above_its_floor(policy: Callable[..., Policy]) -> None:
    verdict = decide_gate(run({"faithfulness": SCORES}), None, policy(agreeing(6), estimate="corrected"))
    check = of_kind(verdict, CheckKind.FLOOR)
    assert check.status is Status.PASS
    assert "not below the floor of 0.30, as people would score it" in check.reason


def test_a_policy_that_needs_labels_says_how_to_get_them(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text("[gate]\n[labels]\nmin_agreement = 0.5\n")
    with pytest.raises(ConfigError, match="ragstone calibrate") as caught:
        load_policy(path)
    assert caught.value.where == f"{path}:2"
    path.write_text("[labels]\nfile = 'none.json'\n")
    with pytest.raises(ConfigError, match=r"none\.json") as caught:
        load_policy(path)
    assert caught.value.where == f"{path}:2"


def test_a_calibration_file_is_read_back_as_it_was_written_and_checked(tmp_path: Path) -> None:
    found = calibrate(
        run({"faithfulness": SCORES}), read_labels([labelled(tmp_path / "l.csv", agreeing())])
    ).calibration
    path = tmp_path / "calibration.json"
    path.write_text(found.model_dump_json(), encoding="utf-8")
    assert read_calibration(path) == found
    path.write_text(path.read_text().replace('"judge":null', '"judge":7'))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ConfigError, match="not a calibration"):
        read_calibration(path)
