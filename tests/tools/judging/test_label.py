"""`ragstone label`: answers drawn and divided, tables filled in, and compared with the judge."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.calibration import read_calibration
from ragstone.metrics.registry import DEFAULT, find_metric
from ragstone.tools.judging.draw import draw_answers, label_guides
from tests.cli.project import ragstone
from tests.pipeline.conftest import WriteRun

Rows = list[dict[str, str]]


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path) -> RunDirectory:
    rng = random.Random(0)
    values = {f"q{i}": round(rng.random(), 3) for i in range(80)}
    return write_run(tmp_path / "run", {"faithfulness": values, "answer_correctness": values})


def run_command(folder: Path, *arguments: str, exit_code: int = 0) -> str:
    """Run the command, and return what it prints, or its error."""
    done = ragstone(arguments, folder, exit_code=exit_code)
    return done.stderr if exit_code else done.stdout


def read_table(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def fill_in(path: Path, label: Callable[[str], str], metric: str = "faithfulness") -> None:
    """Write the label of each answer, by its id, into the table in `path`."""
    rows = read_table(path)
    for row in rows:
        row[metric] = label(row["id"])
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def labels_of_judge(run: RunDirectory) -> Callable[[str], str]:
    """Label each answer as the judge does."""
    values = run.scores().metrics["faithfulness"].values
    return lambda name: "pass" if values[name] >= 0.5 else "fail"


def test_answers_are_drawn_labelled_settled_and_compared(run: RunDirectory, tmp_path: Path) -> None:
    out = run_command(tmp_path, "label", "run", "--n", "40", "--annotators", "ann,bob", "--by", "unsure")
    assert "drew 40 answers of 80 for faithfulness" in out
    folder = tmp_path / "labels"
    assert sorted(path.name for path in folder.iterdir()) == ["ann.csv", "bob.csv", "label.html"]
    ann, bob = ({row["id"] for row in read_table(folder / name)} for name in ("ann.csv", "bob.csv"))
    assert (len(ann), len(bob), len(ann & bob), len(ann | bob)) == (24, 24, 8, 40)
    assert read_table(folder / "ann.csv")[0]["answer"]
    run_command(tmp_path, "calibrate", "labels", "--run", "run", exit_code=2)  # nobody has labelled anything

    people = labels_of_judge(run)
    contested = sorted(ann & bob)[:3]
    fill_in(folder / "ann.csv", people)
    opposite = {"pass": "fail", "fail": "pass"}
    fill_in(folder / "bob.csv", lambda name: opposite[people(name)] if name in contested else people(name))
    out = run_command(tmp_path, "calibrate", "labels", "--run", "run", "--settle", "labels/settled.csv")
    assert "ann and bob" in out
    assert "people with each other          Krippendorff's alpha" in out
    assert "3 labels to settle" in out
    settled = read_table(folder / "settled.csv")
    assert [row["id"] for row in settled] == contested
    assert all(row["disagreement"].strip() == "faithfulness: fail, pass" for row in settled)
    assert all(row["question"] for row in settled)
    assert not any(name in row["disagreement"] for row in settled for name in ("ann", "bob"))

    fill_in(folder / "settled.csv", people)
    out = run_command(tmp_path, "calibrate", "labels", "--run", "run", "-o", "calibration.json")
    assert "to settle" not in out
    assert "; the judge passes 0 that people fail" in out
    assert out.splitlines()[-1].startswith("This judge may block on faithfulness at a floor of 0.")
    calibration = read_calibration(tmp_path / "calibration.json").metrics["faithfulness"]
    assert len(calibration.pairs) == 40
    assert len(set(calibration.weights.values())) == 2


def test_a_table_with_labels_is_not_overwritten(run: RunDirectory, tmp_path: Path) -> None:
    run_command(tmp_path, "label", "run", "--n", "5")
    before = (tmp_path / "labels" / "me.csv").read_bytes()
    assert "already exists" in run_command(tmp_path, "label", "run", "--n", "6", exit_code=2)
    assert (tmp_path / "labels" / "me.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--annotators", "ann,ann"), "name each annotator once"),
        (("--annotators", "../ann"), "can't be an annotator's name"),
        (("--annotators", "settled"), "can't be an annotator's name"),
        (("--metrics", "faithfulnes"), "'faithfulness'"),
    ],
)
def test_what_can_not_be_drawn_is_refused(
    run: RunDirectory, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert says in run_command(tmp_path, "label", "run", *arguments, exit_code=2)


def test_a_metric_with_the_name_of_a_column_is_refused(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run(tmp_path / "other", {"Answer": {"q1": 1.0, "q2": 0.0}})
    with pytest.raises(ConfigError, match="a metric called 'Answer' can't be labelled"):
        draw_answers(run, n=2, annotators=["ann"], metrics=["Answer"])


def test_unsure_answers_are_drawn_more_often_and_with_their_probability(run: RunDirectory) -> None:
    values = run.scores().metrics["faithfulness"].values
    unsure = {name for name, value in values.items() if 0.2 < value < 0.8}
    drawn = draw_answers(run, n=30, annotators=["ann"], by="unsure", seed=3)
    ids = set(drawn.assigned["ann"])
    assert len(ids) == 30
    assert len(ids & unsure) == 20
    assert {drawn.probabilities[name] for name in ids & unsure} == {20 / len(unsure)}
    assert {drawn.probabilities[name] for name in ids - unsure} == {10 / (80 - len(unsure))}
    assert drawn == draw_answers(run, n=30, annotators=["ann"], by="unsure", seed=3)
    assert set(draw_answers(run, n=500, annotators=["ann"]).probabilities.values()) == {1.0}


def test_no_table_has_a_secret(run: RunDirectory) -> None:
    drawn = draw_answers(run, n=80, annotators=["ann"], redact=lambda text: text.replace("q7", "***"))
    assert not [name for name in drawn.probabilities if name.startswith("q7")]


def test_every_default_metric_has_a_question_for_people() -> None:
    assert {name for name in DEFAULT if find_metric(name)} & set(label_guides())
    for guide in label_guides().values():
        assert guide["ask"]
        assert guide["example"]
