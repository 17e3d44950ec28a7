"""Each format: shapes that are read, and the line that each sample is said to stand on."""

from __future__ import annotations

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
from ragstone.golden.sample import GoldenSet, Sample


def load(folder: Path, name: str, text: str | bytes, **columns: str) -> GoldenSet:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return load_golden_set(name, root=folder, columns=columns)


def places(golden: GoldenSet) -> list[tuple[str, int | None]]:
    return [(sample.question, sample.origin.line if sample.origin else None) for sample in golden]


def only(golden: GoldenSet) -> Sample:
    (sample,) = golden
    return sample


def test_json_lines_with_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.jsonl", b'\xef\xbb\xbf\n{"question": "A?"}\r\n\r\n{"question": "B?"}')
    assert places(golden) == [("A?", 2), ("B?", 4)]


def test_json_lines_in_a_file_named_json(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.json", '{"question": "A?"}\n{"question": "B?"}\n')
    assert places(golden) == [("A?", 1), ("B?", 2)]
    assert golden.mappings[0].format == "jsonl"


def test_a_json_document_in_a_file_named_jsonl(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.jsonl", '[\n {"question": "A?"},\n {"question": "B?"}\n]')
    assert places(golden) == [("A?", 2), ("B?", 3)]
    pretty = load(tmp_path, "b.jsonl", json.dumps({"data": [{"question": "A?"}]}, indent=2))
    assert places(pretty) == [("A?", 3)]


@pytest.mark.parametrize(
    ("document", "lines"),
    [
        ([{"question": "A?"}, {"question": "B?"}], (2, 5)),
        ({"question": ["A?", "B?"], "truth": ["a", "b"]}, (3, 4)),
        ({"name": "set", "data": [{"query": "A?"}, {"query": "B?"}]}, (4, 7)),
        ({"data": {"examples": [{"query": "A?"}, {"query": "B?"}]}}, (4, 7)),
        ({"question": {"0": "A?", "1": "B?"}, "truth": {"0": "a", "1": "b"}}, (3, 4)),
        ({"first": {"question": "A?"}, "second": {"question": "B?"}}, (2, 5)),
        ({"rows": [{"row_idx": 0, "row": {"question": "A?"}}, {"row_idx": 1, "row": {"question": "B?"}}]}, (3, 9)),
    ],
)
def test_every_json_shape_is_read_with_its_lines(tmp_path: Path, document: object, lines: tuple[int, int]) -> None:
    golden = load(tmp_path, "a.json", json.dumps(document, indent=1))
    assert places(golden) == [("A?", lines[0]), ("B?", lines[1])]


def test_columns_of_any_name_are_read_where_the_question_is_named(tmp_path: Path) -> None:
    lists = '{"fragen": ["A?", "B?"], "antworten": ["a", "b"]}'
    with pytest.raises(GoldenSetError) as caught:
        load(tmp_path, "a.json", lists)
    assert '[golden.columns]\n  question = "fragen"' in str(caught.value)
    golden = load(tmp_path, "a.json", lists, question="fragen", reference="antworten")
    assert [(sample.question, sample.reference) for sample in golden] == [("A?", "a"), ("B?", "b")]
    nested = load(tmp_path, "b.json", f'{{"data": {lists}}}', question="data.fragen", reference="data.antworten")
    assert [(sample.question, sample.reference) for sample in nested] == [("A?", "a"), ("B?", "b")]
    keyed = load(tmp_path, "c.json", '{"x": {"frage": "A?"}, "y": {"frage": "B?"}}', question="frage")
    assert [(sample.id, sample.question) for sample in keyed] == [("x", "A?"), ("y", "B?")]


def test_the_key_of_an_object_of_samples_is_its_id(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.json", '{"first": {"question": "A?"}, "second": {"question": "B?", "id": "own"}}')
    assert [sample.id for sample in golden] == ["first", "own"]


def test_one_object_alone_is_one_sample(tmp_path: Path) -> None:
    assert only(load(tmp_path, "a.json", '{"question": "A?", "answer": "a"}')).reference == "a"
    assert only(load(tmp_path, "b.jsonl", '{\n"question": "A?"\n}')).question == "A?"


def test_objects_by_their_ids_are_samples_at_the_top_of_a_document_only(tmp_path: Path) -> None:
    keyed = {"x": {"question": "A?"}, "y": {"question": "B?"}}
    assert len(load(tmp_path, "a.json", json.dumps(keyed))) == 2
    with pytest.raises(GoldenSetError, match="no list of samples"):
        load(tmp_path, "a.json", json.dumps({"data": keyed, "version": 1}))


@pytest.mark.parametrize(
    ("cases", "ids"),
    [
        ([{"name": "one", "input": "A?"}, {"name": "two", "input": "A?"}], ["one", "two"]),
        ([{"name": "one", "input": "A?"}, {"name": "two", "input": "B?"}], None),
    ],
)
def test_cases_of_a_deepeval_run_have_their_names_as_ids_where_a_question_is_repeated(
    tmp_path: Path, cases: list[dict[str, str]], ids: list[str] | None
) -> None:
    golden = load(tmp_path, "a.json", json.dumps({"testCases": cases}))
    found = [sample.id for sample in golden]
    assert found == ids if ids else all(name.startswith("q-") for name in found)


def test_two_lists_with_questions_need_a_choice(tmp_path: Path) -> None:
    document = json.dumps({"train": [{"question": "A?"}], "test": [{"question": "B?"}]})
    with pytest.raises(Exception, match="more than one list could be the samples") as caught:
        load(tmp_path, "a.json", document)
    assert 'question = "train.question"' in str(caught.value)
    assert only(load(tmp_path, "a.json", document, question="test.question")).question == "B?"


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
    relevant_ids: {guide: 2, faq: 0}
"""
    first, second = load(tmp_path, "a.yaml", text)
    assert (first.reference, first.tags) == ("no", ("1.10", "2024-01-01"))
    assert second.question == "Which version,\nexactly?"
    assert (second.reference, second.answerable) == (None, False)
    assert second.relevant_ids == {"guide": 2.0, "faq": 0.0}
    assert [sample.origin.line for sample in (first, second) if sample.origin] == [2, 5]


def test_yaml_anchors_merge_keys_and_several_documents(tmp_path: Path) -> None:
    text = "&a\nquestion: A?\ntags: &t [x]\n---\nquestion: B?\ntags: [y]\n"
    assert places(load(tmp_path, "a.yml", text)) == [("A?", 1), ("B?", 5)]
    merged = "- &base\n  question: A?\n  group: g\n- <<: *base\n  question: B?\n"
    assert [sample.group for sample in load(tmp_path, "b.yaml", merged)] == ["g", "g"]


def test_csv_cells_with_line_breaks_do_not_move_the_lines(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.csv", 'question,answer\r\n"A\r\n\r\nlong?",a\r\n\r\nB?,"b ""quoted"""\r\n')
    assert places(golden) == [("A\r\n\r\nlong?", 2), ("B?", 6)]
    assert golden.samples[1].reference == 'b "quoted"'


def test_csv_with_a_byte_order_mark_semicolons_and_trailing_empty_columns(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.csv", b"\xef\xbb\xbfQuestion;Ground Truth;;\nA, or B?;a;\nC?;c\n")
    assert [(sample.question, sample.reference) for sample in golden] == [("A, or B?", "a"), ("C?", "c")]
    assert golden.mappings[0].ignored == ("",)


def test_a_csv_cell_of_megabytes_is_read(tmp_path: Path) -> None:
    assert (
        len(only(load(tmp_path, "a.csv", f"question,context\nA?,{'x' * 500_000}\n")).reference_contexts[0]) == 500_000
    )


def test_tsv_with_stray_quotes_is_read_plainly(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.tsv", 'question\tanswer\n"Red" is what?\t"a" colour\nB?\tb\n')
    assert places(golden) == [('"Red" is what?', 2), ("B?", 3)]


def test_a_list_in_one_csv_cell_is_taken_apart(tmp_path: Path) -> None:
    golden = load(tmp_path, "a.csv", 'question,contexts\nA?,"[""one"", ""two""]"\n')
    assert only(golden).reference_contexts == ("one", "two")


@pytest.mark.parametrize(
    ("cell", "grades"),
    [
        ("d1", {"d1": 1.0}),
        ("d1|d2", {"d1": 1.0, "d2": 1.0}),
        ("d1, d2; d3", {"d1": 1.0, "d2": 1.0, "d3": 1.0}),
        ('{"d1": 2, "d2": 0}', {"d1": 2.0, "d2": 0.0}),
        ("['d1', 'd2']", {"d1": 1.0, "d2": 1.0}),
    ],
)
def test_relevant_ids_in_one_csv_cell_are_taken_apart(tmp_path: Path, cell: str, grades: dict[str, float]) -> None:
    quoted = cell.replace('"', '""')
    assert only(load(tmp_path, "a.csv", f'question,relevant_ids\nA?,"{quoted}"\n')).relevant_ids == grades


def test_relevant_ids_as_objects(tmp_path: Path) -> None:
    row = {"question": "A?", "qrels": [{"doc_id": "d1", "relevance": 2}, {"id": "d2"}, 7]}
    assert only(load(tmp_path, "a.jsonl", json.dumps(row))).relevant_ids == {"d1": 2.0, "d2": 1.0, "7": 1.0}


def test_parquet_rows_have_no_lines(tmp_path: Path) -> None:
    table = arrow.table(
        {
            "user_input": ["A?", "B?"],
            "reference": ["a", None],
            "reference_contexts": [["x", "y"], []],
            "score": [0.5, 1],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    golden = load_golden_set("a.parquet", root=tmp_path)
    assert places(golden) == [("A?", None), ("B?", None)]
    assert golden.samples[0].reference_contexts == ("x", "y")
    assert str(golden.samples[0].origin) == "a.parquet"
    assert golden.mappings[0].ignored == ("score",)


def save(path: Path, *sheets: list[list[object]]) -> None:
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(row)
    book.save(path)


def test_a_workbook_with_the_rows_of_its_sheet(tmp_path: Path) -> None:
    header: list[object] = ["Nr", "Question", "Ground Truth", "tags", None]
    rows: list[list[object]] = [
        [],
        header,
        ["a", "Wo?", "Dort für 5 €.", "x;y"],
        [],
        ["b", "Wann?", 2024.0, None, "a remark beside the table"],
    ]
    save(tmp_path / "a.xlsx", rows, [])
    golden = load_golden_set("a.xlsx", root=tmp_path, columns={"id": "Nr"})
    assert places(golden) == [("Wo?", 3), ("Wann?", 5)]
    assert [(sample.id, sample.reference, sample.tags) for sample in golden] == [
        ("a", "Dort für 5 €.", ("x", "y")),
        ("b", "2024", ()),
    ]
    assert golden.mappings[0].format == "xlsx"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Golden set of the town;;\n;;\nNo.;Question;Expected answer\n1;How long?;24 months\n", 4),
        ("Our questions\nQuestion,Answer\nHow long?,24 months\n", 3),
        ("Questions\nQuestion\tAnswer\nHow long?\t24 months\n", 3),
    ],
)
def test_titles_above_the_header_of_a_csv_file_are_passed_over(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "a.csv").write_text(text)
    (sample,) = load_golden_set("a.csv", root=tmp_path)
    assert (sample.question, sample.reference, str(sample.origin)) == ("How long?", "24 months", f"a.csv:{line}")


def test_a_title_above_an_unknown_header_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Unsere Fragen;;\nNr;Frage;Antwort\n1;Wie?;So\n")
    with pytest.raises(GoldenSetError, match="If the first lines are a title, delete them"):
        load_golden_set("a.csv", root=tmp_path)


@pytest.mark.parametrize(
    "title", [[["Questions of May"]], [["Questions of May", None, "final"], []], [["Questions"], ["for the gate"]]]
)
def test_titles_above_the_table_are_passed_over(tmp_path: Path, title: list[list[object]]) -> None:
    save(tmp_path / "a.xlsx", [*title, ["Query", "Expected"], ["A?", "t"]])
    (sample,) = load_golden_set("a.xlsx", root=tmp_path)
    assert (sample.question, sample.reference) == ("A?", "t")
    assert sample.origin is not None
    assert sample.origin.line == len(title) + 2
    save(tmp_path / "a.xlsx", [*title[:1], ["Frage", "Antwort"], ["A?", "t"]])
    if len(title[0]) == 1:
        assert load_golden_set("a.xlsx", root=tmp_path, columns={"question": "Frage"})[0].question == "A?"


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


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_table_in_windows_1252_is_read_as_that_and_said_so(tmp_path: Path, name: str) -> None:
    sign = "\t" if name.endswith("tsv") else ";"
    text = f"question{sign}reference\r\nWas kostet ein Brötchen?{sign}80 ¢ – „günstig“, 1 €\r\n"
    golden = load(tmp_path, name, text.encode("cp1252"))
    assert only(golden).question == "Was kostet ein Brötchen?"
    assert only(golden).reference == "80 ¢ – „günstig“, 1 €"
    assert golden.mappings[0].notes == ("the text is not UTF-8, and was read as Windows-1252",)
    assert load(tmp_path, name, text).mappings[0].notes == ()


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("question\nWie groß?\nWo?\n".encode() + b"Gr\xfc\xdfe?\n", 4),  # valid UTF-8 before: a damaged file
        (b"question\nGr\xfc\xdfe?\n" + "Wie groß?\n".encode(), 2),
        (b"question\nWhat\x81?\n", 2),  # no character of Windows-1252
    ],
)
def test_damaged_utf_8_is_not_taken_for_windows_1252(tmp_path: Path, body: bytes, line: int) -> None:
    with pytest.raises(GoldenSetError, match=rf"a.csv:{line}: byte 0x.. is not valid UTF-8"):
        load(tmp_path, "a.csv", body)


def test_a_long_list_of_numbers_in_a_cell_is_never_parsed(tmp_path: Path) -> None:
    numbers = "1," * 60_000 + "]"
    golden = load(tmp_path, "a.csv", f'question,contexts\nA?,"[{numbers}"\n')
    assert only(golden).reference_contexts == (f"[{numbers}",)
    with pytest.raises(GoldenSetError, match=r"a\.csv:2: column 'contexts' .* begins like a list, but can't be read"):
        load(tmp_path, "a.csv", f"question,contexts\nA?,\"['a',{numbers}\"\n")
