"""Human labels, read and held against a judge."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ragstone.cli.calibrate import calibrate
from ragstone.errors import ConfigError
from ragstone.tools.judging.labels import Labels, read_labels
from tests.gate.conftest import build_run


def read(tmp_path: Path, text: str, **options: object) -> Labels:
    path = tmp_path / "labels"
    path.write_text(text, encoding="utf-8")
    return read_labels(path, **options)  # type: ignore[arg-type]


def test_labels_may_be_words_booleans_or_numbers(tmp_path: Path) -> None:
    lines = [
        '{"id": "a", "metric": "m", "label": "PASS"}',
        '{"id": "b", "metric": "m", "label": false}',
        '{"id": "c", "metric": "m", "label": 0.25}',
        '{"id": "d", "metric": "m", "label": null}',
        '{"id": 5, "metric": "m", "label": "yes"}',
    ]
    assert read(tmp_path, "\n".join(lines)).mean("m") == {"a": 1.0, "b": 0.0, "c": 0.25, "5": 1.0}


def test_an_adjudicated_label_decides_and_is_nobodys_own(tmp_path: Path) -> None:
    rows = ["id,metric,label,annotator", "a,m,1,ann", "a,m,0,bob", "a,m,0,adjudicate", "b,m,1,ann", "b,m,0,bob"]
    labels = read(tmp_path, "\n".join(rows))
    assert labels.mean("m") == {"a": 0.0, "b": 0.5}
    assert labels.annotators("m") == ("ann", "bob")


def test_a_table_with_annotators_and_a_scale(tmp_path: Path) -> None:
    text = "id;label;annotator\nq1;5;ann\nq1;3;bob\nq2;1;ann\n"
    labels = read(tmp_path, text, metric="m", scale=(1.0, 5.0))
    assert labels.mean("m") == {"q1": 0.75, "q2": 0.0}
    assert labels.annotators("m") == ("ann", "bob")


@pytest.mark.parametrize("scale", [(0.0, math.inf), (-math.inf, 1.0), (0.0, math.nan), (1.0, 1.0), (5.0, 1.0)])
def test_a_scale_goes_from_one_number_to_a_greater_one(tmp_path: Path, scale: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="a scale must go from the worst to the best value"):
        read(tmp_path, "id,metric,label\nq,m,1\n", scale=scale)


def test_probabilities_count_where_they_differ(tmp_path: Path) -> None:
    text = "id,metric,label,probability\nq,m,1,0.5\nr,m,1,{}\n"
    assert read(tmp_path, text.format(1)).probabilities == {"q": 0.5, "r": 1.0}
    assert read(tmp_path, text.format(0.5)).probabilities == {}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("id,label\nq,1\n", 2, "'metric' is missing"),
        ("id,metric\nq,m\n", 2, "'label' is missing, found: 'id', 'metric'"),
        ("id,metric,label\nq,m,7\n", 2, "--scale"),
        ("id,metric,label\nq,m,perhaps\n", 2, "pass or fail"),
        ("id,metric,label\nq,m,nan\n", 2, "pass or fail"),
        ("id,metric,label\nq,m,inf\n", 2, "pass or fail"),
        ("id,metric,label\nq,m,-0.1\n", 2, "pass or fail"),
        ("id,metric,label,probability\nq,m,1,0\n", 2, "above 0 and at most 1"),
        ("id,metric,label,probability\nq,m,1,1.01\n", 2, "above 0 and at most 1"),
        ("id,metric,label,probability\nq,m,1,nan\n", 2, "above 0 and at most 1"),
        ("id,metric,label,probability\nq,m,1,half\n", 2, "above 0 and at most 1"),
        ("id,metric,label,probability\nq,m,1,0.5\nq,n,1,0.4\n", 3, "two different probabilities"),
        ("id,metric,label,probability\nq,m,1,0.5\nr,m,1,\n", 2, "'r' has no probability"),
        ("id,metric,label\nq,m,1\nq,m,0\n", 3, "duplicate label"),
        ('{"id": "q", "metric": "m"}\n', 1, "'label' is missing"),
    ],
)
def test_a_wrong_label_is_named_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(tmp_path, text)
    assert (caught.value.where or "").endswith(f":{line}")


def test_judge_and_people_are_compared_where_both_spoke(tmp_path: Path) -> None:
    scores = build_run({"m": [1.0, 1.0, 0.0, 0.0] * 10})
    text = "id,metric,label\n" + "".join(
        f"s{i},m,{'pass' if i % 4 != 1 and i % 4 != 2 else 'fail'}\n" for i in range(20)
    )
    found = calibrate(scores, read(tmp_path, text + "gone,m,pass\n")).metrics["m"]
    assert len(found.pairs) == 20
    assert found.left_out == 1
    assert (found.too_high, found.too_low) == (5, 5)
    assert found.equal == 0.5
    assert found.kappa.estimate == pytest.approx(0.0)
    assert found.bias.estimate == pytest.approx(0.0)
    assert {one.sample_id for one in found.errors} == {f"s{i}" for i in range(20) if i % 4 in {1, 3}}
    assert (found.people, found.people_kappa) == (None, None)


def test_two_annotators_are_held_against_each_other(tmp_path: Path) -> None:
    rows = [f"s{i},m,{'pass' if i % 2 else 'fail'},{who}" for i in range(10) for who in ("ann", "bob")]
    found = calibrate(build_run({"m": [0.0, 1.0] * 5}), read(tmp_path, "id,metric,label,annotator\n" + "\n".join(rows)))
    metric = found.metrics["m"]
    assert metric.people is not None
    assert metric.people.estimate == pytest.approx(1.0)
    assert metric.people_kappa is not None
    assert metric.people_kappa.estimate == pytest.approx(1.0)
    assert metric.agreement.estimate == pytest.approx(1.0)


def test_the_mean_that_people_would_have_given_corrects_the_judges(tmp_path: Path) -> None:
    # People say 0.2 less than the judge, throughout.
    values = [0.4 + 0.5 * (i % 5) / 4 for i in range(200)]
    text = "id,metric,label\n" + "".join(f"s{i},m,{values[i] - 0.2}\n" for i in range(60))
    found = calibrate(build_run({"m": values}), read(tmp_path, text)).metrics["m"]
    assert found.judge_mean == pytest.approx(0.65)
    assert found.corrected.estimate == pytest.approx(0.45, abs=0.005)
    assert found.corrected.low is not None
    assert found.corrected.high is not None
    assert found.corrected.low < 0.45 < found.corrected.high
    assert found.gain > 2


def test_labels_of_another_run_or_metric_and_a_file_without_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="contains no labels"):
        read(tmp_path, "id,metric,label\nq,m,\n")
    one = build_run({"m": [1.0, 0.0]})
    with pytest.raises(ConfigError, match="did not measure"):
        calibrate(one, read(tmp_path, "id,metric,label\ns0,other,1\n"))
    with pytest.raises(ConfigError, match="same sample ids"):
        calibrate(one, read(tmp_path, "id,metric,label\nelse,m,1\n"))


def test_labels_of_one_group_count_as_one(tmp_path: Path) -> None:
    values = [0.0, 1.0] * 20
    text = "id,metric,label\n" + "".join(f"s{i},m,{1 if i < 20 else 0}\n" for i in range(40))
    groups = {f"s{i}": f"document {i // 20}" for i in range(40)}
    alone = calibrate(build_run({"m": values}), read(tmp_path, text)).metrics["m"]
    grouped = calibrate(build_run({"m": values}, groups=groups), read(tmp_path, text)).metrics["m"]
    assert alone.group_of_residuals() is None
    labels = grouped.group_of_residuals()
    assert labels is not None
    assert len(set(labels)) == 2
    assert grouped.bias.high is not None
    assert alone.bias.high is not None
    assert grouped.bias.high > alone.bias.high


def test_a_file_of_200_mb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    with path.open("wb") as stream:
        stream.truncate(200_000_000)
    with pytest.raises(ConfigError, match="larger than 33,554,432 bytes"):
        read_labels(path)
