"""Exports of other tools, in the shapes that their documentation states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.convert import native_lines
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Review
from ragstone.tools.generate.golden.exports import Export, Tool, import_files


def imported(
    folder: Path, tool: str, *contents: Any, columns: dict[str, str] | None = None, **options: Any
) -> tuple[GoldenSet, Export]:
    names = []
    for number, content in enumerate(contents):
        name, body = content if isinstance(content, tuple) else (f"page-{number}.json", json.dumps(content, indent=1))
        (folder / name).write_text(body, encoding="utf-8")
        names.append(name)
    return import_files(names, Tool(tool), root=folder, columns=columns or {}, **options)


def shown(found: tuple[GoldenSet, Export]) -> list[tuple[str, str, str | None]]:
    return [(sample.id, sample.question, sample.reference) for sample in found[0]]


def langfuse(name: str, **own: Any) -> dict[str, Any]:
    return {
        "id": name,
        "status": "ACTIVE",
        "input": {"question": f"What is {name}?"},
        "expectedOutput": {"answer": f"It is {name}."},
        "metadata": {"topic": "letters"},
        "sourceTraceId": None,
        "sourceObservationId": None,
        "datasetId": "d1",
        "datasetName": "letters",
        "createdAt": "2026-11-01T00:00:00.000Z",
        "updatedAt": "2026-11-02T00:00:00.000Z",
        **own,
    }


def pages(*items: dict[str, Any], size: int = 2) -> list[dict[str, Any]]:
    total = len(items)
    return [
        {"data": list(items[at : at + size]), "meta": {"page": at // size + 1, "limit": size, "totalItems": total}}
        for at in range(0, total, size)
    ]


def test_pages_of_langfuse_with_archived_items_left_out(tmp_path: Path) -> None:
    newest = "2026-11-20T08:30:00.000Z"
    items = [langfuse("a"), langfuse("b", status="ARCHIVED"), langfuse("c", updatedAt=newest)]
    found = imported(tmp_path, "langfuse", *pages(*items), columns={"tags": "metadata.topic"})
    assert shown(found) == [("a", "What is a?", "It is a."), ("c", "What is c?", "It is c.")]
    assert (found[1].dataset, found[1].version, found[1].archived) == ("letters", newest, 1)
    first = found[0].samples[0]
    assert first.tags == ("letters",)
    assert first.provenance == f"langfuse: letters, {newest}, item a"
    assert str(first.origin) == "page-0.json:3"


def test_a_missing_page_is_an_error_unless_a_part_is_meant(tmp_path: Path) -> None:
    first, _ = pages(langfuse("a"), langfuse("b"), langfuse("c"))
    with pytest.raises(GoldenSetError, match="has 3 items, but the files have 2"):
        imported(tmp_path, "langfuse", first)
    assert len(imported(tmp_path, "langfuse", first, partial=True)[0]) == 2


def test_a_page_given_twice_and_another_data_set_are_errors(tmp_path: Path) -> None:
    first, second = pages(langfuse("a"), langfuse("b"), langfuse("c"))
    with pytest.raises(GoldenSetError, match=r"item 'a' is also at page-0\.json"):
        imported(tmp_path, "langfuse", first, first, second)
    with pytest.raises(GoldenSetError, match="2 data sets: letters, numbers"):
        imported(tmp_path, "langfuse", *pages(langfuse("a")), *pages(langfuse("b", datasetName="numbers")))


def test_examples_of_langsmith_as_json_lines_and_csv(tmp_path: Path) -> None:
    example = {
        "id": "e1",
        "dataset_id": "d1",
        "inputs": {"question": "What is a?", "context": "A is first."},
        "outputs": {"answer": "First."},
        "metadata": {"dataset_split": ["base"]},
        "created_at": "2026-11-01T00:00:00+00:00",
        "modified_at": "2026-11-03T00:00:00+00:00",
    }
    found = imported(tmp_path, "langsmith", [example])
    assert shown(found) == [("e1", "What is a?", "First.")]
    assert found[0].samples[0].reference_contexts == ("A is first.",)
    assert found[0].samples[0].provenance == "langsmith: d1, 2026-11-03T00:00:00+00:00, item e1"
    assert shown(imported(tmp_path, "langsmith", ("e.jsonl", json.dumps(example)))) == shown(found)
    flat = imported(tmp_path, "langsmith", ("e.csv", "question,answer\nWhat is a?,First.\n"), dataset="letters")
    assert [(one.question, one.reference) for one in flat[0]] == [("What is a?", "First.")]
    assert (flat[0].samples[0].provenance or "").startswith("langsmith: letters, sha256 ")


def test_examples_of_phoenix_as_json_and_csv(tmp_path: Path) -> None:
    example = {
        "id": "RGF0YXNldEV4YW1wbGU6MQ==",
        "input": {"query": "What is a?"},
        "output": {"response": "First."},
        "metadata": {},
        "updated_at": "2026-11-03T00:00:00+00:00",
    }
    document = {"data": {"dataset_id": "RDox", "version_id": "VjoyNQ==", "filtered_splits": [], "examples": [example]}}
    found = imported(tmp_path, "phoenix", document)
    assert shown(found) == [("RGF0YXNldEV4YW1wbGU6MQ==", "What is a?", "First.")]
    assert (found[1].dataset, found[1].version) == ("RDox", "VjoyNQ==")
    table = "example_id,input_question,input_lang,output_answer,metadata_topic\nE1,What is a?,en,First.,letters\n"
    flat = imported(tmp_path, "phoenix", ("p.csv", table), columns={"tags": "metadata.topic"})
    assert shown(flat) == [("E1", "What is a?", "First.")]
    assert flat[0].samples[0].tags == ("letters",)


def test_items_of_opik_as_pages_and_as_the_output_of_to_json(tmp_path: Path) -> None:
    data = {"user_question": "What is a?", "expected_output": "First."}
    item = {
        "id": "o1",
        "source": "manual",
        "data": data,
        "tags": ["letters"],
        "last_updated_at": "2026-11-03T00:00:00Z",
    }
    page = {"page": 1, "size": 10, "total": 1, "content": [item], "columns": []}
    found = imported(tmp_path, "opik", page)
    assert shown(found) == [("o1", "What is a?", "First.")]
    assert found[0].samples[0].tags == ("letters",)
    assert found[1].version == "2026-11-03T00:00:00Z"
    assert shown(imported(tmp_path, "opik", [{"id": "o1", **data}])) == shown(found)
    with pytest.raises(GoldenSetError, match="has 4 items, but the files have 1"):
        imported(tmp_path, "opik", page | {"total": 4})


def test_pages_of_the_hugging_face_viewer_and_its_data_files(tmp_path: Path) -> None:
    rows = [{"row_idx": i, "row": {"question": f"{i}?", "answer": "Yes."}, "truncated_cells": []} for i in range(2)]
    page = {"features": [], "rows": rows, "num_rows_total": 2, "num_rows_per_page": 100, "partial": False}
    found = imported(tmp_path, "huggingface", page, dataset="org/set", version="9f2c41a")
    assert [(one.question, one.reference) for one in found[0]] == [("0?", "Yes."), ("1?", "Yes.")]
    assert found[0].samples[0].provenance == "huggingface: org/set, 9f2c41a"
    rows[1]["truncated_cells"] = ["answer"]
    with pytest.raises(GoldenSetError, match="the viewer has cut the cells answer of row 1"):
        imported(tmp_path, "huggingface", page)
    lines = "".join(json.dumps(row["row"]) + "\n" for row in rows)
    assert len(imported(tmp_path, "huggingface", ("train.jsonl", lines))[0]) == 2


@pytest.mark.parametrize("tool", ["langfuse", "langsmith", "phoenix", "opik", "huggingface"])
@pytest.mark.parametrize("content", [{"what": 1}, "text", [1, 2], {"data": [[]]}, []])
def test_a_file_of_another_shape_is_refused_with_the_shape_expected(tmp_path: Path, tool: str, content: object) -> None:
    with pytest.raises(GoldenSetError) as refused:
        imported(tmp_path, tool, content)
    assert refused.value.where is not None


def test_an_export_of_another_tool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="not an export of LangSmith"):
        imported(tmp_path, "langsmith", [langfuse("a")])
    with pytest.raises(GoldenSetError, match="not an export of Langfuse"):
        imported(tmp_path, "langfuse", [{"id": "e", "inputs": {}, "outputs": {}}])


def test_what_is_imported_is_read_back_with_provenance_and_as_drafts(tmp_path: Path) -> None:
    found = imported(tmp_path, "langfuse", [langfuse("a")], drafts=True)
    (tmp_path / "golden.jsonl").write_text("\n".join(native_lines(found[0])), encoding="utf-8")
    (again,) = load_golden_set("golden.jsonl", root=tmp_path)
    assert again.draft
    assert again.review == Review("draft")
    assert again.provenance == found[0].samples[0].provenance
    assert again.content_hash() == found[0].samples[0].content_hash()


@pytest.mark.parametrize(
    ("given", "review"),
    [
        ({"status": "Draft"}, Review("draft")),
        (
            {"status": "reviewed", "reviewer": "anna", "reviewed_on": "2026-11-22"},
            Review("reviewed", "anna", "2026-11-22"),
        ),
        ({"status": "active", "reviewer": "anna"}, None),
        ({"reviewer": "anna"}, None),
    ],
)
def test_the_status_of_a_sample(tmp_path: Path, given: dict[str, str], review: Review | None) -> None:
    (tmp_path / "g.jsonl").write_text(json.dumps({"question": "A?", **given}), encoding="utf-8")
    (sample,) = load_golden_set("g.jsonl", root=tmp_path)
    assert sample.review == review
    assert sample.draft is (review is not None and review.status == "draft")


def test_a_status_that_is_nearly_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text('{"question": "A?", "status": "drafts"}', encoding="utf-8")
    with pytest.raises(GoldenSetError, match="contains 'drafts', expected draft or reviewed"):
        load_golden_set("g.jsonl", root=tmp_path)
