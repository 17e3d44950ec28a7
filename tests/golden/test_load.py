"""Loading: names, globs, ids, limits, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Origin, Sample
from tests.golden.loading import load_rows, load_text


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def refusal(folder: Path, name: str, text: str | bytes, **columns: str) -> str:
    with pytest.raises(GoldenSetError) as caught:
        load_text(folder, name, text, **columns)
    return str(caught.value)


def write_two(folder: Path, first: str, second: str) -> list[str]:
    (folder / "a.jsonl").write_text(first, encoding="utf-8")
    (folder / "b.jsonl").write_text(second, encoding="utf-8")
    return ["a.jsonl", "b.jsonl"]


def test_a_full_native_sample_is_read_field_by_field(tmp_path: Path) -> None:
    texts: dict[str, Any] = {"id": "travel-1", "question": "How much?", "reference": "It is 28 euros.", "group": "g"}
    row = {"reference_contexts": ["The allowance is 28 euros."], "answerable": False, "tags": ["travel", "money"]}
    (sample,) = load_rows(tmp_path, {**texts, **row, "relevant_ids": {"travel.md#allowance": 2, "travel.md": 0}})
    assert sample == Sample(
        **texts,
        reference_contexts=("The allowance is 28 euros.",),
        relevant_ids={"travel.md#allowance": 2.0, "travel.md": 0.0},
        answerable=False,
        tags=("travel", "money"),
        origin=Origin("golden.jsonl", 1),
    )


def test_a_blank_cell_says_nothing(tmp_path: Path) -> None:
    names = ("id", "max_words", "expects", "answerable", "history", "min", "assert", "tools", "status", "relevant_ids")
    blank, bare = (
        next(iter(load_rows(tmp_path, row)))
        for row in ({"question": "A?", **dict.fromkeys(names, " ")}, {"question": "A?"})
    )
    assert blank == bare


def test_several_files_and_globs_are_read_once_each_in_order(tmp_path: Path) -> None:
    (tmp_path / "sets" / "deep").mkdir(parents=True)
    (tmp_path / "sets" / "b.jsonl").write_text(lines({"id": "b", "question": "B?"}))
    (tmp_path / "sets" / "deep" / "a.jsonl").write_text(lines({"id": "a", "question": "A?"}))
    (tmp_path / "one.csv").write_text("id,question\nc,C?\n")
    golden = load_golden_set([tmp_path / "one.csv", "sets/**/*.jsonl", "sets/b.jsonl"], root=tmp_path)
    assert [sample.id for sample in golden] == ["c", "b", "a"]
    assert [mapping.file for mapping in golden.mappings] == ["one.csv", "sets/b.jsonl", "sets/deep/a.jsonl"]
    assert [str(sample.origin) for sample in golden] == ["one.csv:2", "sets/b.jsonl:1", "sets/deep/a.jsonl:1"]


@pytest.mark.parametrize(
    ("limit", "count", "limited"),
    [(1, 1, True), (2, 2, True), (3, 3, True), (4, 4, False), (9, 4, False), (None, 4, False)],
)
def test_the_limit_counts_over_all_files_and_it_is_known_whether_it_left_samples_out(
    tmp_path: Path, limit: int | None, count: int, limited: bool
) -> None:
    names = write_two(
        tmp_path, lines({"question": "A?"}, {"question": "B?"}), lines({"question": "C?"}, {"question": "D?"})
    )
    golden = load_golden_set(names, root=tmp_path, limit=limit)
    assert [sample.question for sample in golden] == ["A?", "B?", "C?", "D?"][:count]
    assert golden.is_limited is limited


def test_derived_ids_do_not_depend_on_order_or_format(tmp_path: Path) -> None:
    rows = [{"question": "A?", "reference": "a"}, {"question": "B?", "reference": "b"}]
    forward = load_rows(tmp_path, {**rows[0], "id": None}, rows[1])
    backward = load_text(tmp_path, "b.json", json.dumps(rows[::-1]))
    table = load_text(tmp_path, "c.csv", "question,reference\nB?,b\nA?,a\n")
    by_question = {sample.question: sample.id for sample in forward}
    assert all(name.startswith("q-") and len(name) == 14 for name in by_question.values())
    assert by_question == {sample.question: sample.id for sample in backward}
    assert by_question == {sample.question: sample.id for sample in table}
    assert forward.content_hash() == backward.content_hash() == table.content_hash()


def test_a_doubled_id_names_both_places_across_files(tmp_path: Path) -> None:
    second = lines({"id": "y", "question": "B?"}, {"id": "x", "question": "C?"})
    names = write_two(tmp_path, lines({"id": "x", "question": "A?"}), second)
    with pytest.raises(GoldenSetError, match=r"duplicate id 'x' at a\.jsonl:1 and b\.jsonl:2"):
        load_golden_set(names, root=tmp_path)


def test_more_samples_than_can_be_evaluated_are_refused_unless_a_limit_leaves_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.golden.load.MAX_SAMPLES", 3)
    second = lines(*({"question": f"{number}?"} for number in range(3)))
    names = write_two(tmp_path, lines({"question": "A?"}), second)
    with pytest.raises(GoldenSetError, match=r"b\.jsonl: .* has 4 samples, more than 3\.") as caught:
        load_golden_set(names, root=tmp_path)
    assert (caught.value.exit_code, "--limit" in str(caught.value.hint)) == (3, True)
    golden = load_golden_set(names, root=tmp_path, limit=3)
    assert [sample.question for sample in golden] == ["A?", "0?", "1?"]
    assert len(load_golden_set("b.jsonl", root=tmp_path)) == 3


def test_a_doubled_question_names_both_lines_and_the_column_that_could_give_ids(tmp_path: Path) -> None:
    text = lines({"question": "A?", "name": "one"}, {"question": "A?", "name": "two"})
    message = refusal(tmp_path, "a.jsonl", text)
    assert "duplicate question at a.jsonl:1 and a.jsonl:2" in message
    assert '[golden.columns]\n  id = "name"' in message


def test_equal_ids_of_rows_that_have_ids_or_differ_are_not_called_a_doubled_question(tmp_path: Path) -> None:
    differing = [{"question": "A?", "relevant_ids": [name]} for name in ("d1", "d2")]
    for rows in ([{"id": "x", "question": "A?"}] * 2, differing):
        assert "duplicate id" in refusal(tmp_path, "a.jsonl", lines(*rows))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.jsonl", "", "contains no samples"),
        ("a.yaml", "", "contains no samples"),
        ("a.json", '"text"', "not samples"),
        ("a.json", "[1]", "item 1 is 1"),
        ("a.jsonl", '{"question": "A?"}\n[1]\n', "a.jsonl:2: found a value of type list, expected an object"),
        ("a.jsonl", '{"question": "A?"}\n{"question": \n', "a.jsonl:2: not valid JSON"),
        ("a.jsonl", '{"question": "A?"} trailing\n', "a.jsonl:1: more text after the value"),
        ("a.jsonl", '{"question": "A?", "question": "B?"}\n', "duplicate key"),
        ("a.jsonl", '{"question": "A?", "x": -Infinity}\n', "-Infinity is not a JSON number"),
        ("a.json", "[] x", "a.json:1: more text after the value"),
        ("a.json", '{"a": 1,\n "a": 2}', 'duplicate key "a"'),
        ("a.jsonl", '{"question": "A?", "x": ' + "9" * 5000 + "}\n", "a.jsonl:1: not a number that can be read"),
        ("a.jsonl", '{"question": "A\\ud800?"}\n', "a lone surrogate (\\ud800)"),
        ("a.jsonl", b'{"question": "caf\xe9?"}\n', "a.jsonl:1: byte 0xe9 is not valid UTF-8"),
        ("a.csv", b"question\ncaf\xc3\xa9?\ncaf\xe9?\n", "a.csv:3: byte 0xe9 is not valid UTF-8"),
        ("a.csv", "question\nA?\n".encode("utf-16"), "is UTF-16 text"),
        ("a.json", '[{"question": "A?"}\n {"question": "B?"}]', "a.json:2: not valid JSON: Expecting ',' delimiter"),
        ("a.jsonl", '{"question": ' + "[" * 100_000 + "\n", "nested too deeply"),
        ("a.yaml", "[" * 5_000, "a.yaml"),
        ("a.yaml", "- question: A?\n  x: !!python/object/apply:os.system [true]\n", "tag"),
        ("a.yaml", "- question: 'A?\n", "not valid YAML"),
        ("a.yaml", "- question: A?\n  question: B?\n", "a.yaml:2: duplicate key 'question'"),
        ("a.yaml", "- &a\n  question: A?\n  x: *a\n", "names nothing that ends before it"),
        ("a.csv", 'question,reference\n"A?,a\n', "not valid CSV"),
        ("a.csv", "question,reference\nA?,a,b\n", "a.csv:2: 3 cells, but the header has 2 columns"),
        ("a.csv", "question,question\nA?,a\n", "duplicate column 'question'"),
        ("a.json", '{"question": ["A?", null]}', "a.json: no question: column 'question' is missing or empty"),
        ("a.json", '{"a": {"b": {"c": {"d": {"e": [{"question": "A?"}]}}}}}', "found no list of samples"),
        ("a.yaml", "- <<: x\n  question: A?\n", "a.yaml:1: '<<' is not supported"),
        ("a.yaml", "- ? [a]\n  : b\n", "a.yaml:1: a key must be plain text"),
        ("a.parquet", "not parquet", "a.parquet: not valid Parquet"),
        ("a.xlsx", "x", "a.xlsx: not a workbook that can be read"),
        ("golden", "x", "unsupported file extension"),
        ("a.jsonl", '{"question": "A?"}\n{"reference": "b"}\n', "a.jsonl:2: no question: column 'question'"),
        ("a.jsonl", '{"question": "A?"}\n{"question": 5}\n', "a.jsonl:2: column 'question' (question)"),
        (
            "a.json",
            '{"questions": ["A?", "B?"], "answers": ["a"]}',
            "'answers' has 1 values, but column 'questions' has 2",
        ),
    ],
)
def test_bad_files_are_refused_with_the_reason_and_the_place(
    tmp_path: Path, name: str, text: str | bytes, says: str
) -> None:
    message = refusal(tmp_path, name, text)
    assert says in message
    assert message.startswith(name)


def test_a_yaml_document_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert "has more than" in refusal(tmp_path, "a.yaml", bomb)


def test_names_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, says in {
        "missing.jsonl": "not found",
        "*.jsonl": "no file matches",
        "folder": "is a folder, or not a regular file",
        "a\0b": "null character",
        "x" * 5000: "can't be looked up",
    }.items():
        with pytest.raises(GoldenSetError, match=says):
            load_golden_set(name, root=tmp_path)
    with pytest.raises(GoldenSetError, match="no golden set"):
        load_golden_set([], root=tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are a thing of Unix")
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(GoldenSetError, match="not a regular file"):
        load_golden_set("pipe.jsonl", root=tmp_path)


COLUMNS = '{"question": "A?", "x": {"b": 1%s}}'
LONG = '{"question": "ABC%s?"}'


@pytest.mark.parametrize(
    ("limit", "value", "name", "text", "more", "says"),
    [
        ("profile.MAX_COLUMNS", 3, "a.jsonl", COLUMNS, ', "c": 2', "more than 3 different columns"),
        ("formats.delimited.MAX_COLUMNS", 2, "a.csv", "question,a%s\nA?,x\n", ",b", "3 columns; at most 2"),
        ("rows.MAX_LINE_BYTES", 20, "a.jsonl", LONG, "D", "a.jsonl:1: the line is longer than 20 bytes"),
        ("rows.MAX_DOCUMENT_BYTES", 20, "a.json", LONG, "D", "too large for one document"),
    ],
)
def test_what_is_larger_than_its_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, name: str, text: str, more: str, says: str
) -> None:
    monkeypatch.setattr(f"ragstone.golden.{limit}", value)
    assert len(load_text(tmp_path, name, text % "")) == 1
    assert says in refusal(tmp_path, name, text % more)
