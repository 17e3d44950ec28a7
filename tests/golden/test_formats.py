"""Each format: shapes that are read, and the line that each sample is said to stand on."""

from __future__ import annotations

import datetime
import json
import random
import zipfile
from pathlib import Path

import openpyxl
import pyarrow as arrow
import pytest
from pyarrow import parquet

from ragstone.errors import GoldenSetError
from ragstone.golden.formats.workbook import MAX_UNPACKED_BYTES
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from tests.golden.loading import load_text

Place = tuple[str, str | None, int | None]


def places(golden: GoldenSet) -> list[Place]:
    """Question, reference and line of each sample."""
    return [(sample.question, sample.reference, sample.origin.line if sample.origin else None) for sample in golden]


def indented(document: object) -> str:
    return json.dumps(document, indent=1)


A, B = {"question": "A?"}, {"question": "B?"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.jsonl", b'\xef\xbb\xbf\n{"question": "A?"}\r\n\r\n{"question": "B?"}', [("A?", None, 2), ("B?", None, 4)]),
        ("lines.json", '{"question": "A?"}\n{"question": "B?"}\n', [("A?", None, 1), ("B?", None, 2)]),
        ("object.json", '{"question": "A?", "answer": "a"}', [("A?", "a", 1)]),
        ("a.json", indented([A, B]), [("A?", None, 2), ("B?", None, 5)]),
        ("a.json", indented({"question": ["A?", "B?"], "truth": ["a", "b"]}), [("A?", "a", None), ("B?", "b", None)]),
        ("a.json", indented({"name": "x", "data": [A, B]}), [("A?", None, 4), ("B?", None, 7)]),
        ("a.json", indented({"data": {"examples": [A, B]}}), [("A?", None, 4), ("B?", None, 7)]),
        ("a.json", indented({"train": [{"x": 1}], "test": [A]}), [("A?", None, 8)]),
        ("a.json", indented({"a": {"b": {"c": {"d": [A]}}}}), [("A?", None, 6)]),
        ("a.json", indented({"question": {"0": "A?"}, "truth": {"0": "a"}}), [("A?", "a", None)]),
        ("a.yml", "- question: A?\n-\n  question: B?\n  tags: [y]\n", [("A?", None, 1), ("B?", None, 3)]),
        (
            "a.csv",
            'question,answer\r\n"A\r\nlong?",a\r\n\r\nB?,"b ""c"""\r\n',
            [("A\r\nlong?", "a", 2), ("B?", 'b "c"', 5)],
        ),
        ("a.csv", b"\xef\xbb\xbfQuestion;Ground Truth;;\nA, or B?;a;\nC?;c\n", [("A, or B?", "a", 2), ("C?", "c", 3)]),
        ("a.csv", "\nQuestion\tAnswer\nHow long?\t24 months,,\n\t\n", [("How long?", "24 months,,", 3)]),
        ("a.csv", "Our questions\nQuestion,Answer\nHow long?,24 months\n", [("How long?", "24 months", 3)]),
        ("a.csv", "question\nA?\nB?\n", [("A?", None, 2), ("B?", None, 3)]),
        ("a.tsv", 'question\tanswer\n"Red" is what?\t"a" colour\n', [('"Red" is what?', '"a" colour', 2)]),
        ("a.tsv", 'question\tanswer\n"A\tB?"\tb\n', [("A\tB?", "b", 2)]),
    ],
)
def test_rows_are_read_with_the_line_that_they_stand_on(
    tmp_path: Path, name: str, text: str | bytes, expected: list[Place]
) -> None:
    assert places(load_text(tmp_path, name, text)) == expected


def test_columns_of_any_name_are_read_where_the_question_is_named(tmp_path: Path) -> None:
    lists = '{"fragen": ["A?", "B?"], "antworten": ["a", "b"]}'
    golden = load_text(tmp_path, "a.json", lists, question="fragen", reference="antworten")
    assert places(golden) == [("A?", "a", None), ("B?", "b", None)]


def test_two_lists_with_questions_need_a_choice(tmp_path: Path) -> None:
    document = json.dumps({"train": [A], "test": [B]})
    with pytest.raises(GoldenSetError, match="more than one list could be the samples") as caught:
        load_text(tmp_path, "a.json", document)
    assert 'question = "train.question"' in str(caught.value)
    assert places(load_text(tmp_path, "a.json", document, question="test.question")) == [("B?", None, 1)]


def test_yaml_keeps_every_scalar_as_it_was_written(tmp_path: Path) -> None:
    text = """\
samples:
  - question: Is it on?
    answer: no
    tags: [1.10, 2024-01-01]
  - question: |
      Which version,
      exactly?
    answer: ~
    answerable: false
    relevant_ids: &ids {guide: 2, faq: 0}
  - question: "null"
    answer: "~"
    relevant_ids: *ids
"""
    first, second, third = load_text(tmp_path, "a.yaml", text)
    assert (first.reference, first.tags) == ("no", ("1.10", "2024-01-01"))
    assert (second.question, second.reference, second.answerable) == ("Which version,\nexactly?", None, False)
    assert second.relevant_ids == third.relevant_ids == {"guide": 2.0, "faq": 0.0}
    assert (third.question, third.reference) == ("null", "~")
    assert [sample.origin.line for sample in (first, second, third) if sample.origin] == [2, 5, 11]


def test_a_long_cell_is_read_and_a_long_list_of_numbers_in_one_never_parsed(tmp_path: Path) -> None:
    numbers = "1," * 250_000 + "]"
    (sample,) = load_text(tmp_path, "a.csv", f'question,contexts\nA?,"[{numbers}"\n')
    assert sample.reference_contexts == (f"[{numbers}",)
    with pytest.raises(GoldenSetError, match=r"a\.csv:2: column 'contexts' .* begins like a list, but can't be read"):
        load_text(tmp_path, "a.csv", f"question,contexts\nA?,\"['a',{numbers}\"\n")


def test_parquet_rows_have_no_lines(tmp_path: Path) -> None:
    columns = {"user_input": ["A?", "B?"], "reference": ["a", None], "score": [0.5, 1.0]}
    parquet.write_table(arrow.table({**columns, "contexts": [["x", "y"], []]}), tmp_path / "a.parquet")
    golden = load_golden_set("a.parquet", root=tmp_path)
    assert places(golden) == [("A?", "a", None), ("B?", None, None)]
    assert (golden[0].reference_contexts, str(golden[0].origin)) == (("x", "y"), "a.parquet")
    assert golden.mappings[0].ignored == ("score",)


Sheet = list[list[object]]


def save(path: Path, *sheets: Sheet) -> None:
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(row)
    book.save(path)


def test_a_workbook_with_the_rows_of_its_sheet(tmp_path: Path) -> None:
    header: list[object] = ["Nr", "Question", "Ground Truth", "tags", None]
    second: list[object] = ["b", "Wann?", 2024.0, None, "a remark beside the table"]
    third: list[object] = ["c", "Wann genau?", datetime.date(2026, 11, 29), " "]
    fourth: list[object] = ["d", "Wie lange?", datetime.timedelta(hours=2), 0.5]
    save(tmp_path / "a.xlsx", [[], header, ["a", "Wo?", "Für 5 €.", "x;y"], [], second, third, fourth, [" "]], [])
    golden = load_golden_set("a.xlsx", root=tmp_path, columns={"id": "Nr"})
    assert [(sample.id, sample.question, sample.tags) for sample in golden] == [
        ("a", "Wo?", ("x", "y")),
        ("b", "Wann?", ()),
        ("c", "Wann genau?", ()),
        ("d", "Wie lange?", ("0.5",)),
    ]
    found = [(reference, line) for _, reference, line in places(golden)]
    assert found == [("Für 5 €.", 3), ("2024", 5), ("2026-11-29T00:00:00", 6), ("2:00:00", 7)]


@pytest.mark.parametrize(
    ("title", "header"),
    [
        ([["Questions of May", None, "final"], []], ["Query", "Expected"]),
        ([["Questions"], ["for"], ["the"], ["gate"]], ["Query", "Expected"]),
        ([["Questions of May"]], ["Frage", "Antwort"]),
    ],
)
def test_titles_above_the_table_are_passed_over(tmp_path: Path, title: Sheet, header: list[object]) -> None:
    save(tmp_path / "a.xlsx", [*title, header, ["A?", "t"]])
    sheet: Sheet = [*title, header, ["A?", "t"]]
    lines = [";".join("" if cell is None else str(cell) for cell in row) + "\n" for row in sheet]
    (tmp_path / "a.csv").write_text("".join(lines), encoding="utf-8")
    wanted = {"question": "Frage", "reference": "Antwort"} if "Frage" in header else {}
    for name in ("a.xlsx", "a.csv"):
        golden = load_golden_set(name, root=tmp_path, columns=wanted)
        assert places(golden) == [("A?", "t", len(title) + 2)]
    if wanted:
        with pytest.raises(GoldenSetError) as caught:
            load_golden_set("a.csv", root=tmp_path)
        assert '[golden.columns]\n  question = "Frage"' in str(caught.value)


def test_a_workbook_with_two_tables_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.xlsx", [["question"], ["A?"]], [["question"], ["B?"]])
    with pytest.raises(GoldenSetError, match="2 sheets have content: 'Sheet', 'Sheet1'"):
        load_golden_set("a.xlsx", root=tmp_path)


@pytest.mark.heavy
def test_a_workbook_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * (MAX_UNPACKED_BYTES + 1))
    with pytest.raises(GoldenSetError, match="unpacks to 268 MB; at most 268 MB"):
        load_golden_set("a.xlsx", root=tmp_path)


def test_damaged_workbooks_are_refused_with_a_reason(tmp_path: Path) -> None:
    save(tmp_path / "whole.xlsx", [["question"], ["A?"], ["B?"]])
    rng = random.Random(0)
    refused = 0
    for _ in range(30):
        with zipfile.ZipFile(tmp_path / "whole.xlsx") as whole, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as damaged:
            for part in whole.infolist():
                content = bytearray(whole.read(part))
                if rng.random() < 0.3:
                    content[rng.randrange(len(content))] = rng.randrange(32, 127)
                    content = content[: rng.randrange(len(content))] if rng.random() < 0.3 else content
                if rng.random() > 0.05:
                    damaged.writestr(part.filename, bytes(content))
        try:
            load_golden_set("a.xlsx", root=tmp_path)
        except GoldenSetError as error:
            refused += "a.xlsx" in str(error)
    assert refused > 10
