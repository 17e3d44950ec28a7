"""Scores that any other evaluator made."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.metrics.score import Failed
from ragstone.run.score_files import read_score_file, scores_from_mapping
from ragstone.run.scores import RunScores


def read(tmp_path: Path, text: str | bytes) -> RunScores:
    path = tmp_path / "scores"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_score_file(path)


@pytest.mark.parametrize(
    "text",
    [
        "id,metric,value,group\na,m,0.5,g\nb,m,1,\n",
        "\ufeffID;Metric;Value;group\r\na;m;0.5;g\r\n\r\nb;m;1;\r\n",
        "value\tid\tmetric\tgroup\n0.5\ta\tm\tg\n1\tb\tm\t\n",
        '\n{"id": "a", "metric": "m", "value": 0.5, "group": "g", "more": 1}\n{"id": "b", "metric": "m", "value": 1}\n',
    ],
)
def test_tables_and_json_lines_say_the_same(tmp_path: Path, text: str) -> None:
    scores = read(tmp_path, text)
    assert scores.metrics["m"].values == {"a": 0.5, "b": 1.0}
    assert {i: facts.group for i, facts in scores.samples.items()} == {"a": "g", "b": None}


@pytest.mark.parametrize(
    "text",
    [
        "id,metric,value\na,m,\nb,m,1\n",
        "id,metric,value\na,m,  \nb,m,1\n",
        '{"id": "a", "metric": "m", "value": null}\n{"id": "b", "metric": "m", "value": 1}\n',
        '{"id": "a", "metric": "m", "value": ""}\n{"id": "b", "metric": "m", "value": 1}\n',
    ],
)
def test_a_value_that_is_missing_is_a_failed_score_and_in_no_mean(tmp_path: Path, text: str) -> None:
    scores = read(tmp_path, text)
    assert scores.metrics["m"].failed == {"a": Failed("judge", "no value was given")}
    assert scores.metrics["m"].values == {"b": 1.0}
    assert scores.metrics["m"].not_applicable == {}
    assert set(scores.samples) == {"a", "b"}


def test_a_metric_without_any_value_is_still_there(tmp_path: Path) -> None:
    scores = read(tmp_path, "id,metric,value\na,m,\n")
    assert scores.metrics["m"].values == {}
    assert set(scores.metrics["m"].failed) == {"a"}


def test_a_second_row_of_a_missing_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="duplicate value"):
        read(tmp_path, "id,metric,value\na,m,\na,m,1\n")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("id,metric,value\na,m,nan\n", 2, "found nan"),
        ("id,metric,value\na,m,1\nb,m,4.5\n", 3, r"must be in \[0, 1\], found 4.5"),
        ("id,metric,value\na,m,-0.1\n", 2, r"must be in \[0, 1\]"),
        ("id,metric,value\na,m,high\n", 2, "found 'high'"),
        ("id,metric,value\na,m,1\na,m,1\n", 3, "duplicate value"),
        ("id,metric,value\na,m\n", 2, "'value' is missing, found: 'id', 'metric'"),
        ("id,metric,score\na,m,1\n", 2, "'value' is missing, found: 'id', 'metric', 'score'"),
        ("id,metric,value\n,m,1\n", 2, "'id' must be a non-empty string"),
        ("id,metric,value,group\na,m,1,g\na,n,1,h\n", 3, "in group 'h' here, but was in 'g'"),
        ('{"id": "a", "metric": "m", "value": NaN}\n', 1, "NaN is not a JSON number"),
        ('{"id": "a", "metric": "m", "value": 1e999}\n', 1, "found inf"),
        ('{"id": "a", "metric": "m"}\n', 1, "'value' is missing"),
        ('{"id": "a", "metric": "m", "value": 1}\n{"id": "b"', 2, "not valid JSON"),
        ("[1, 2]\n", 1, "a JSON object is expected"),
        ('{"id": null, "metric": "m", "value": 1}\n', 1, "'id' must be a non-empty string"),
        ('{"id": "a", "metric": "m", "value": [1]}\n', 1, "a score must be a number"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(tmp_path, text)
    assert (caught.value.where or "").endswith(f"scores:{line}")


@pytest.mark.parametrize("text", ["", "\n\n", "id,metric,value\n", b"\xff\xfe\x00"])
def test_a_file_without_scores_is_refused(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read_score_file(tmp_path / "none.csv")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "ignore"))))
def test_any_bytes_give_scores_or_one_of_our_errors(tmp_path: Path, text: bytes) -> None:
    try:
        scores = read(tmp_path, text)
    except ConfigError:
        return
    assert all(math.isfinite(v) for metric in scores.metrics.values() for v in metric.values.values())


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(min_size=1).filter(str.strip), st.floats(0, 1), min_size=1, max_size=5))
def test_what_json_writes_is_read_back(tmp_path: Path, values: dict[str, float]) -> None:
    lines = [json.dumps({"id": i, "metric": "m", "value": value}) for i, value in values.items()]
    assert read(tmp_path, "\n".join(lines)).metrics["m"].values == values


def test_a_mapping_is_a_run_too() -> None:
    scores = scores_from_mapping({"m": {"a": 1}, "n": {"a": 0.5, "b": 0}}, label="mine")
    assert scores.label == "mine"
    assert scores.metrics["m"].values == {"a": 1.0}
    assert set(scores.samples) == {"a", "b"}


def test_none_in_a_mapping_is_a_failed_score() -> None:
    scores = scores_from_mapping({"m": {"a": None, "b": 1.0}})
    assert scores.metrics["m"].failed == {"a": Failed("judge", "no value was given")}
    assert scores.metrics["m"].values == {"b": 1.0}


@pytest.mark.parametrize(
    "mapping",
    [
        {"m": {"a": math.nan}},
        {"m": {"a": 2}},
        {"m": [1, 2]},
        {"m": {"a": "x"}},
        [],
        {"m": {1: 1, "1": 1}},
    ],
)
def test_a_mapping_of_anything_else_is_refused(mapping: object) -> None:
    with pytest.raises(ConfigError):
        scores_from_mapping(mapping)  # type: ignore[arg-type]
