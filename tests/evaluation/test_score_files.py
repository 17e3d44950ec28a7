"""Scores that any other evaluator made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.evaluation.score_files import read_score_file, scores_from_mapping
from ragstone.evaluation.scores import RunScores
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.score import Failed


def read(tmp_path: Path, text: str | bytes) -> RunScores:
    body = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / ("scores.jsonl" if body.lstrip()[:1] in (b"{", b"[") else "scores.csv")
    path.write_bytes(body)
    return read_score_file(path)


@pytest.mark.parametrize(
    "text",
    [
        "id,metric,value,group\na,m,0.5,g\nb,m,1,\n",
        "id,metric,value,group\na,n,0,g\na,m,0.5,g\nb,m,1,\na,o,0,\n",
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
        "id,metric,value\na,m,NaN\nb,m,1.0000000000000002\n",
        "id,question,faithfulness\na,A?,\nb,B?,1.0\n",
        '{"id": "a", "metric": "m", "value": null}\n{"id": "b", "metric": "m", "value": 1}\n',
    ],
)
def test_a_value_that_is_missing_is_a_failed_score_and_in_no_mean(tmp_path: Path, text: str) -> None:
    scores = read(tmp_path, text)
    (metric,) = scores.metrics.values()
    assert metric.failed == {"a": Failed("judge", "no value was given")}
    assert metric.values == {"b": 1.0}
    assert metric.not_applicable == {}
    assert set(scores.samples) == {"a", "b"}


def test_scores_of_more_samples_than_a_golden_set_can_have_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.evaluation.score_files.MAX_SAMPLES", 2)
    assert len(read(tmp_path, "id,metric,value\na,m,1\nb,m,1\n").samples) == 2
    with pytest.raises(ConfigError, match=r"has scores of 3 samples, more than 2(.|\n)*Split the file"):
        read(tmp_path, "id,metric,value\na,m,1\nb,m,1\nc,m,1\n")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("id,metric,value\na,m,inf\n", 2, "found 'inf'"),
        ("id,metric,value\na,m,-0.1\n", 2, r"must be in \[0, 1\]"),
        ("id,faithfulness\na,1\na,1\n", 3, "duplicate value of 'faithfulness' for sample 'a'"),
        ("id,faithfulness\na,1\nb,high\n", 3, "found 'high'"),
        ("id,metric,value\na,m\n", 2, "'value' is missing, found: 'id', 'metric'"),
        ("id,metric,value\n,m,1\n", 2, "'id' must be a non-empty string"),
        ('{"id": "a", "metric": "m", "value": Infinity}\n', 1, "Infinity is not a JSON number"),
        ('{"id": "a", "metric": "m", "value": 1}\n{"id": "b"', 2, "not valid JSON"),
        ('{"id": "a", "metric": "m", "value": [1]}\n', 1, "a score must be a number"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(tmp_path, text)
    assert (caught.value.where or "").partition(": column ")[0].endswith((f"scores.csv:{line}", f"scores.jsonl:{line}"))


@pytest.mark.parametrize("text", ["", "\n\n", "id,metric,value\n", b"\xff\xfe\x00"])
def test_a_file_without_scores_is_refused(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(ConfigError):
        read(tmp_path, text)
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


def test_a_mapping_is_a_run_too() -> None:
    scores = scores_from_mapping({"m": {"a": 1}, "n": {"a": 1.0000000000000002, "b": 0, "c": None}}, label="mine")
    assert scores.label == "mine"
    assert scores.metrics["m"].values == {"a": 1.0}
    assert scores.metrics["n"].values == {"a": 1.0, "b": 0.0}
    assert scores.metrics["n"].failed == {"c": Failed("judge", "no value was given")}
    assert set(scores.samples) == {"a", "b", "c"}
    unusable: list[Any] = [{"m": {"a": math.inf}}, {"m": {"a": 2}}, {"m": [1, 2]}, {"m": {"a": "x"}}]
    for wrong in (*unusable, {"m": {1: 1, "1": 1}}):
        with pytest.raises(ConfigError):
            scores_from_mapping(wrong)


def test_a_rounding_error_is_within_the_scale(tmp_path: Path) -> None:
    scores = read(tmp_path, "id,faithfulness\nb,1\nc,\nd,1.0000000000000002\ne,-1e-17\n")
    assert scores.metrics["faithfulness"].values == {"b": 1.0, "d": 1.0, "e": 0.0}


TEXTS = {"retrieved_contexts": ["One passage.", "It's another."], "response": "It is so.", "reference": "So."}
SCORES = {"answer_relevancy": 1.0000000000000002, "politeness": 0.25, "n_tokens": 312, "latency": 0.5}
WIDE = [
    {"user_input": f"What is {name}?", **TEXTS, "faithfulness": score, **SCORES}
    for name, score in (("A", 1.0), ("B", math.nan), ("C", 0.5))
]


def table(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    frame = pandas.DataFrame(rows)
    write = {".csv": frame.to_csv, ".parquet": frame.to_parquet, ".json": frame.to_json}
    write[path.suffix](path)
    return path


def golden_set(tmp_path: Path, *rows: dict[str, object]) -> GoldenSet:
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return load_golden_set("golden.jsonl", root=tmp_path)


GOLDEN: list[dict[str, object]] = [{"id": f"q{name}", "question": f"What is {name}?"} for name in "CAB"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "json"])
def test_a_table_of_ragas_has_the_scores_of_a_sample_in_a_row(tmp_path: Path, kind: str) -> None:
    path = table(tmp_path / f"table.{kind}", WIDE)
    scores = read_score_file(path, golden_set(tmp_path, *GOLDEN), policy_metrics=["politeness"])
    assert list(scores) == ["faithfulness", "answer_relevancy", "politeness"]
    assert scores["faithfulness"].values == {"qA": 1.0, "qC": 0.5}
    assert set(scores["faithfulness"].failed) == {"qB"}
    assert scores["answer_relevancy"].values == {"qA": 1.0, "qB": 1.0, "qC": 1.0}
    assert scores.samples["qA"].content_hash is not None
    (remark,) = scores.remarks
    assert "that no rule names are left out: n_tokens" in remark
    alone = read_score_file(path)
    assert [facts.question for facts in alone.samples.values()] == ["What is A?", "What is B?", "What is C?"]


def test_rows_are_matched_by_id_or_else_by_question(tmp_path: Path) -> None:
    rows = [{"id": name, "question": "What is A?", "faithfulness": 1.0} for name in ("qB", "qC")]
    scores = read_score_file(table(tmp_path / "ids.csv", rows), golden_set(tmp_path, *GOLDEN))
    assert set(scores.samples) == {"qB", "qC"}
    path = table(tmp_path / "table.csv", [{"id": 7, "question": "What  is A?", "faithfulness": 0.5}])
    assert read_score_file(path, golden_set(tmp_path, *GOLDEN))["faithfulness"].values == {"qA": 0.5}
    path = table(tmp_path / "twice.csv", [{"question": "What is A?", "faithfulness": score} for score in (0.5, 1.0)])
    for golden in (None, golden_set(tmp_path, *GOLDEN)):
        with pytest.raises(ConfigError, match="duplicate value of 'faithfulness'"):
            read_score_file(path, golden)


@pytest.mark.parametrize("text", ["id,metric,value\nqA,faithfulness,1\n", "id,faithfulness\nqA,1\n"])
def test_a_sample_with_a_floor_can_not_be_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "scores.csv").write_text(text, encoding="utf-8")
    golden = golden_set(tmp_path, *GOLDEN[:2], {"id": "bad", "question": "B?", "min": {"faithfulness": 0.8}})
    scores = read_score_file(tmp_path / "scores.csv", golden)
    assert list(scores.samples) == ["qA", "bad"]
    assert scores.samples["bad"].bounds == (("min", "faithfulness", 0.8),)
    verdict = decide_gate(scores, None, policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}}))
    assert verdict.reason.startswith("must-pass sample bad: no metric with a floor has a score for it")
    assert verdict.exit_code == 5


@pytest.mark.parametrize(
    ("rows", "says", "line"),
    [
        ([{"question": f"What is {name}?"} for name in "AXY"], "no sample matches 'What is X", 3),
        ([{"id": name} for name in ("qA", "qX", "qB")], "no sample matches 'qX'", 3),
    ],
)
def test_a_row_of_no_sample_is_refused(tmp_path: Path, rows: list[dict[str, object]], says: str, line: int) -> None:
    path = table(tmp_path / "table.csv", [{**row, "faithfulness": 1.0} for row in rows])
    with pytest.raises(ConfigError, match=says) as caught:
        read_score_file(path, golden_set(tmp_path, *GOLDEN))
    assert (caught.value.where or "").endswith(f"table.csv:{line}")


@pytest.mark.parametrize(
    ("named", "metrics", "left_out"), [([], ["faithfulness"], "own, high"), (["own"], ["faithfulness", "own"], "high")]
)
def test_columns_are_metrics_if_they_are_known_or_named(
    tmp_path: Path, named: list[str], metrics: list[str], left_out: str
) -> None:
    row = {"id": "a", "faithfulness": 1, "own": 0.5, "high": 7, "latency": 0.5, "note": "x"}
    scores = read_score_file(table(tmp_path / "table.csv", [row]), policy_metrics=named)
    assert list(scores) == metrics
    assert scores.remarks[-1].endswith(f"are left out: {left_out}.")


def test_a_table_without_a_metric_says_which_rule_there_could_be(tmp_path: Path) -> None:
    path = table(tmp_path / "table.csv", [{"id": "a", "own": 0.0}, {"id": "b", "own": 4.0}])
    with pytest.raises(ConfigError, match="there is no verdict") as caught:
        read_score_file(path)
    assert '[metrics."own"]' in str(caught.value.hint)
    assert "divide each by the maximum value" in str(caught.value.hint)
