"""The judge compared with people: agreement, errors, the mean that people would give, and whether it may block."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ragstone.cli.calibrate import command
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.calibration import read_calibration
from ragstone.tools.judging import calibrate as module
from ragstone.tools.judging.calibrate import CalibrationReport, calibrate
from ragstone.tools.judging.label_table import Labels, read_labels
from tests.gate.conftest import build_run
from tests.pipeline.conftest import WriteRun

IDS = [f"q{i}" for i in range(40)]


def run_calibrate(*arguments: object) -> str:
    """Run the command, and return what it prints."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False).stdout


def labels_of(labels: dict[str, float], metric: str = "m") -> Labels:
    return Labels({metric: {name: {"": label} for name, label in labels.items()}})


def read(tmp_path: Path, **rows: list[str]) -> Labels:
    """The labels of each annotator, as ``id,label``."""
    for name, lines in rows.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,m", *lines]), encoding="utf-8")
    return read_labels([tmp_path / f"{name}.csv" for name in rows], metrics=["m"])


@pytest.fixture
def run(tmp_path: Path, write_run: WriteRun) -> RunDirectory:
    return write_run(tmp_path / "run", {"faithfulness": {i: (k % 4) / 3 for k, i in enumerate(IDS)}})


def test_people_read_sentences_programs_json_and_the_gate_a_file(run: RunDirectory, tmp_path: Path) -> None:
    rows = [f"{i},{'pass' if k % 4 >= 2 else 'fail'}" for k, i in enumerate(IDS[:20])]
    labels = tmp_path / "labels"
    labels.mkdir()
    for who in ("ann", "bob"):
        (labels / f"{who}.csv").write_text("\n".join(["id,faithfulness", *rows]))
    out = tmp_path / "calibration.json"
    text = run_calibrate(labels, "--run", run.path, "-o", out)
    assert "faithfulness: 20 labelled samples" in text
    assert text.rstrip().endswith(
        "This judge may not block yet: faithfulness (only 20 labels; at least 30 are needed)."
    )
    written = read_calibration(out)
    assert written.judge == run.manifest.judge
    assert len(written.metrics["faithfulness"].pairs) == 20
    document = json.loads(run_calibrate(labels, "--run", run.path, "--format", "json"))
    assert document["metrics"]["faithfulness"]["kappa"]["value"] == 1.0
    assert document["metrics"]["faithfulness"]["people_kappas"]["ann and bob"]["value"] == 1.0
    assert document["conclusion"].startswith("This judge may not block yet")


def test_judge_and_people_are_compared_where_both_spoke() -> None:
    scores = build_run({"m": [1.0, 1.0, 0.0, 0.0] * 10})
    people = {f"s{i}": float(i % 4 not in (1, 2)) for i in range(19)}
    report = calibrate(scores, labels_of({**people, "gone": 1.0}))
    (metric,) = report.metrics
    assert (metric.labelled, metric.without_score) == (19, 1)
    assert (metric.passes_too_many, metric.fails_too_many) == (5, 4)
    assert metric.kappa is not None
    assert metric.kappa.value == pytest.approx(10 / 181)
    assert {difference.sample_id for difference in metric.farthest} < {f"s{i}" for i in range(20) if i % 4 in {1, 3}}
    assert (metric.people_kappas, metric.people_alpha) == ({}, None)


def test_people_are_compared_with_each_other_before_anything_was_settled(tmp_path: Path) -> None:
    ann = [f"s{i},{'pass' if i % 2 else 'fail'}" for i in range(40)]
    bob = [row.replace("s1,pass", "s1,fail") for row in ann]
    labels = read(tmp_path, ann=ann, bob=bob, cleo=ann[:9], settled=["s1,pass"])
    report = calibrate(build_run({"m": [0.0, 1.0] * 20}), labels)
    (metric,) = report.metrics
    assert list(metric.people_kappas) == ["ann and bob", "ann and cleo", "bob and cleo"]
    kappa = metric.people_kappas["ann and bob"]
    assert kappa is not None
    assert kappa.value == pytest.approx(0.95)
    assert metric.people_alpha is not None
    assert 0.8 < metric.people_alpha.value < 1.0
    assert metric.agreement is not None
    assert metric.agreement.value == pytest.approx(1.0)
    assert report.unsettled == {}


def test_the_mean_that_people_would_have_given_corrects_the_judges() -> None:
    # People say 0.2 less than the judge, throughout.
    values = [0.4 + 0.5 * (i % 5) / 4 for i in range(200)]
    report = calibrate(build_run({"m": values}), labels_of({f"s{i}": values[i] - 0.2 for i in range(60)}))
    (metric,) = report.metrics
    assert metric.judge_mean == pytest.approx(0.65)
    assert metric.people_mean.estimate == pytest.approx(0.45, abs=0.005)
    assert metric.people_mean.low < 0.45 < metric.people_mean.high


def noisy(error: float, n: int = 100) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Scores of a judge that is wrong with the probability `error`, and labels, of which nine in ten pass."""
    rng = np.random.default_rng(4)
    people = (rng.random(n) < 0.9).astype(float)
    scores = np.where(rng.random(n) < error, 1.0 - people, people)
    return {"m": scores.tolist()}, {f"s{i}": float(label) for i, label in enumerate(people)}


def test_the_last_sentence_says_whether_the_judge_may_block_and_at_which_floor() -> None:
    scores, people = noisy(0.01)
    report = calibrate(build_run(scores), labels_of(people))
    low = report.metrics[0].people_mean.low
    floor = report.metrics[0].floor()
    assert low - 0.05 < floor <= low
    assert report.conclusion() == (
        f'This judge may block on m at a floor of {floor:.2f} with [labels] estimate = "corrected".'
    )
    assert report.text().endswith(report.conclusion())
    strict = calibrate(build_run(scores), labels_of(people), min_agreement=0.999)
    assert strict.conclusion().startswith("This judge may not block yet: m (its agreement with people is 0.9")
    scores, people = noisy(0.5)
    assert "may not block yet: m (its agreement" in calibrate(build_run(scores), labels_of(people)).conclusion()
    lenient = calibrate(build_run(scores), labels_of(people), min_agreement=-1.0)
    assert "may be due to chance" in lenient.conclusion()
    same = calibrate(build_run({"m": [1.0] * 40}), labels_of({f"s{i}": 1.0 for i in range(40)}))
    assert same.conclusion() == "This judge may not block yet: m (all scores and labels are the same)."


def test_labels_of_one_group_count_as_one() -> None:
    values = [0.0, 1.0] * 20
    people = labels_of({f"s{i}": float(i < 20) for i in range(40)})
    groups = {f"s{i}": f"document {i // 20}" for i in range(40)}
    alone = calibrate(build_run({"m": values}), people)
    grouped = calibrate(build_run({"m": values}, groups=groups), people)
    assert alone.calibration.metrics["m"].group_labels() is None
    members = grouped.calibration.metrics["m"].group_labels()
    assert members is not None
    assert len(set(members)) == 2
    assert grouped.metrics[0].people_mean.high > alone.metrics[0].people_mean.high


def test_alpha_among_people_can_be_missing_for_want_of_a_library_or_of_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(passes: int) -> CalibrationReport:
        rows = [f"s{i},{'pass' if i < passes else 'fail'}" for i in range(10)]
        return calibrate(build_run({"m": [0.0, 1.0] * 5}), read(tmp_path, ann=rows, bob=rows))

    same = report(10)
    assert same.metrics[0].people_alpha is None
    assert "Krippendorff's alpha not defined: all labels are the same" in same.text()
    json.dumps(same.document(), allow_nan=False)
    monkeypatch.setattr(module, "HAS_ALPHA", False)
    without = report(5)
    assert without.metrics[0].people_alpha is None
    assert 'Krippendorff\'s alpha needs: pip install "ragstone[labels]"' in without.text()


@pytest.mark.parametrize(
    ("rows", "says"),
    [("id,other\nq1,pass\n", "no column has labels"), ("id,faithfulness\nelse,pass\n", "same sample ids")],
)
def test_labels_that_can_not_be_compared_are_refused_with_the_way_out(
    run: RunDirectory, tmp_path: Path, rows: str, says: str
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text(rows)
    with pytest.raises(ConfigError, match=says):
        run_calibrate(labels, "--run", run.path)


def test_what_is_settled_is_in_a_file_of_this_name(run: RunDirectory, tmp_path: Path) -> None:
    for who, label in (("ann", "pass"), ("bob", "fail")):
        (tmp_path / f"{who}.csv").write_text(f"id,faithfulness\nq1,{label}\n")
    for name in ("open.csv", "settled.txt"):
        with pytest.raises(ConfigError, match=r"must be called settled\.csv"):
            run_calibrate(tmp_path / "ann.csv", tmp_path / "bob.csv", "--run", run.path, "--settle", name)


def test_the_command_says_when_there_is_nothing_to_settle(run: RunDirectory, tmp_path: Path) -> None:
    labels, settled = tmp_path / "ann.csv", tmp_path / "settled.csv"
    labels.write_text("id,faithfulness\nq1,pass\n")
    options = ["--run", str(run.path), "--settle", str(settled)]
    done = CliRunner().invoke(command, [str(labels), *options], catch_exceptions=False)
    assert "There is nothing to settle" in done.stderr
    assert not settled.exists()


def test_a_table_or_a_calibration_does_not_go_with_fit(run: RunDirectory, tmp_path: Path) -> None:
    labels = tmp_path / "ann.csv"
    labels.write_text("id,faithfulness\nq1,pass\n")
    for option in ("--output", "--settle"):
        with pytest.raises(ConfigError, match=f"{option} does not go with --fit"):
            run_calibrate(labels, "--run", run.path, "--fit", tmp_path / "judge.json", option, tmp_path / "x")


def test_the_command_names_the_file_as_the_policy_does(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ann.csv").write_text("id,faithfulness\nq1,pass\n")
    options = ["--run", str(run.path), "-o", "labels/calibration.json"]
    done = CliRunner().invoke(command, ["ann.csv", *options], catch_exceptions=False)
    assert 'set file = "labels/calibration.json" under [labels]' in done.stderr
