"""Configs, tests and results of promptfoo as golden sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.promptfoo import read_promptfoo
from ragstone.golden.sample import GoldenSet

CONFIG = """
prompts: ["Answer briefly: {{question}}"]
providers: [{id: http}]
defaultTest:
  vars: {place: the mill}
  assert: [{type: llm-rubric, value: polite}]
tests:
  - vars: {question: "How old is the mill?", year: "1901"}
    assert:
      - {type: icontains-any, value: ["{{year}}", nineteen]}
      - {type: context-recall, value: Built in 1901., threshold: 0.8}
      - {type: javascript, value: output.length < 10}
  - vars: {question: Which inn?}
  - file://more.csv
"""


def load(folder: Path, document: object, *, columns: dict[str, str] | None = None) -> GoldenSet:
    (folder / "tests.json").write_text(json.dumps(document), "utf-8")
    return load_golden_set("tests.json", root=folder, columns=columns)


def asserted(folder: Path, *assertions: object, **variables: object) -> list[str]:
    """The assertions of a test as they are read: ``type: values``."""
    document = {"prompts": ["{{q}}"], "tests": [{"vars": {"question": "Why?", **variables}, "assert": assertions}]}
    (sample,) = load(folder, document)
    typed = sample.assertions.typed if sample.assertions is not None else ()
    return [f"{one.type}: {', '.join(one.values)}" for one in typed]


def result(question: str, **fields: Any) -> dict[str, Any]:
    return {
        "success": True,
        "prompt": {"raw": f"Answer: {question}", "label": "rag"},
        "promptIdx": 0,
        "provider": {"id": "http", "label": ""},
        "vars": {"question": question},
        "testCase": {"vars": {"question": question}, "assert": [{"type": "context-recall", "value": "Built in 1901."}]},
        "response": {"output": "In 1901."},
        **fields,
    }


def results(*entries: dict[str, Any], version: int = 3) -> dict[str, Any]:
    inner = {"version": version, "results": list(entries), "stats": {}}
    return {"evalId": "e", "results": inner, "config": {"tests": []}} if version == 3 else inner


def test_a_config_has_a_row_for_each_of_its_tests(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text(CONFIG, "utf-8")
    golden = load_golden_set("promptfooconfig.yaml", root=tmp_path)
    assert [sample.question for sample in golden] == ["How old is the mill?", "Which inn?"]
    first = golden.samples[0]
    assert first.reference == "Built in 1901."
    assert first.assertions is not None
    assert [(one.type, one.values) for one in first.assertions.typed] == [("icontains-any", ("1901", "nineteen"))]
    assert first.origin is not None
    assert first.origin.line == 8
    notes = "\n".join(golden.mappings[0].notes)
    assert "assertion llm-rubric is left out: use a rubric" in notes
    assert "assertion javascript is left out: use a function of your own" in notes
    assert "tests in other files are left out" in notes


def test_a_config_whose_tests_are_in_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="are in other files") as caught:
        load(tmp_path, {"prompts": ["{{question}}"], "tests": "file://more.csv"})
    assert "files" in (caught.value.hint or "")


def test_a_template_that_names_no_variable_leaves_the_assertion_out_whole(tmp_path: Path) -> None:
    assert asserted(tmp_path, {"type": "contains-any", "value": ["mill", "{{nothing.at.all}}"]}) == []
    assert asserted(tmp_path, {"type": "contains", "value": "{{ year | upper }}"}, year="1901") == []
    assert asserted(tmp_path, {"type": "contains", "value": "{{ year }}."}, year=1901) == ["contains: 1901."]
    assert asserted(tmp_path, {"type": "contains", "value": "{{ missing }}"}) == []


@pytest.mark.parametrize("weight", [0, 0.0, "0"])
def test_an_assertion_without_weight_or_with_an_unsupported_option_is_not_made(tmp_path: Path, weight: object) -> None:
    unsupported = {"type": "contains", "value": "perhaps", "threshold": 0.5}
    idle = {"type": "contains", "value": "no", "weight": weight}
    heavy = {"type": "contains", "value": "yes", "weight": 3}
    assert asserted(tmp_path, idle, heavy, unsupported) == ["contains: yes"]


OTHERS: list[object] = [
    [],
    [{"vars": 1}],
    [1],
    {"tests": []},
    {"tests": [{"question": "A?"}]},
    {},
    "x",
    [{"success": 1}],
]
NO_RESULTS = [{"results": [{"vars": {}}]}, {"results": [{"success": True, "vars": {}}, {"success": True}]}]


@pytest.mark.parametrize("document", [*OTHERS, *NO_RESULTS, *({"results": inner} for inner in OTHERS)])
def test_a_document_without_variables_is_none_of_promptfoo(document: object) -> None:
    assert read_promptfoo(document) is None


def test_variables_with_the_names_of_other_fields_are_no_fields(tmp_path: Path) -> None:
    named = {"min": "a", "max": "b", "assert": "c"}
    assert asserted(tmp_path, {"type": "contains", "value": "{{min}}{{max}}"}, **named) == ["contains: ab"]
    assert load_golden_set("tests.json", root=tmp_path).mappings[0].notes == ()


@pytest.mark.parametrize("version", [2, 3])
def test_results_are_a_golden_set_with_the_references_of_their_tests(tmp_path: Path, version: int) -> None:
    golden = load(tmp_path, results(result("How old is it?"), result("How old?"), version=version))
    assert [sample.question for sample in golden] == ["How old is it?", "How old?"]
    assert {sample.reference for sample in golden} == {"Built in 1901."}
    assert all(sample.id.startswith("q-") for sample in golden)
    assert golden.mappings[0].notes == ()
    assert golden.mappings[0].recorded["answer"].endswith("results.actual_output")


def test_results_of_other_prompts_and_providers_are_left_out_by_number(tmp_path: Path) -> None:
    others = result("Why?", provider={"id": "openai:gpt"}), result("Why?", promptIdx=1)
    golden = load(tmp_path, results(result("Why?"), *others))
    assert len(golden) == 1
    assert golden.mappings[0].notes == ("results of other prompts or providers than the first are left out (2)",)


@pytest.mark.parametrize(
    ("fields", "column", "value"),
    [
        ({"response": {"output": "So.", "metadata": {"context": ["One."]}}}, "retrieval_context", ["One."]),
        ({"response": {"output": {"contexts": ["One."]}, "metadata": {"context": []}}}, "retrieval_context", ["One."]),
        ({"vars": {"question": "Why?", "context": "One."}}, "retrieval_context", "One."),
        ({"response": {"output": [1]}}, "actual_output", "[1]"),
        ({"response": {"output": {"answer": "So."}}}, "actual_output", "So."),
        ({"response": {}}, "error", "no output"),
        ({"response": {}, "error": "down"}, "error", "down"),
        ({"response": {"error": "refused"}, "error": "down"}, "error", "refused"),
        ({}, "error", None),
        ({"latencyMs": 1500}, "latency_s", 1.5),
        ({"latencyMs": True}, "latency_s", None),
        ({"latencyMs": "1500"}, "latency_s", None),
    ],
)
def test_a_result_has_what_the_system_returned(fields: dict[str, object], column: str, value: object) -> None:
    table = read_promptfoo(results(result("Why?", **fields)))
    assert table is not None
    assert next(iter(table.rows)).values.get(column) == value


def test_results_that_ask_one_question_twice_are_refused_with_the_column_of_their_ids(tmp_path: Path) -> None:
    document = results(result("Why?", testIdx=0), result("Why?", testIdx=1))
    with pytest.raises(GoldenSetError, match="duplicate question") as caught:
        load(tmp_path, document)
    assert 'id = "results.results.testIdx"' in str(caught.value)
    golden = load(tmp_path, document, columns={"id": "results.results.testIdx"})
    assert [sample.id for sample in golden] == ["0", "1"]


def test_results_without_a_known_variable_are_refused_with_the_lines_to_paste(tmp_path: Path) -> None:
    document = results(result("?", vars={"message": "How old is it?"}))
    with pytest.raises(GoldenSetError, match="no column for the question") as caught:
        load(tmp_path, document)
    assert '[golden.columns]\n  question = "message"' in (caught.value.hint or "")
    (sample,) = load(tmp_path, document, columns={"question": "message"})
    assert sample.question == "How old is it?"


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [None], {"a": [None]}])
def test_fields_of_strange_types_are_read(tmp_path: Path, value: object) -> None:
    fields = ("prompt", "provider", "testCase", "response", "gradingResult", "latencyMs", "testIdx")
    tests = [{"vars": {"question": "Why?", "n": [1, 2], "none": []}, name: value} for name in ("assert", "options")]
    documents = [results(result("Why?", **{name: value})) for name in fields]
    documents += [{"prompts": [None], "defaultTest": value, "tests": [test]} for test in tests]
    for document in documents:
        (sample,) = load(tmp_path, document)
        assert sample.question == "Why?"


@pytest.mark.parametrize(
    ("value", "references"),
    [
        ("In 1901.", ("In 1901.",)),
        (["In 1901.", "1901"], ("In 1901.", "1901")),
        ("file://answer.txt", ()),
        (1901, ()),
        (["In 1901.", 1901], ()),
        ("{% x %}", ()),
    ],
)
def test_a_reference_is_a_text_of_the_test_itself(tmp_path: Path, value: object, references: tuple[str, ...]) -> None:
    tests = [{"vars": {"question": "When?"}, "assert": [{"type": "factuality", "value": value}]}]
    (sample,) = load(tmp_path, {"prompts": ["{{question}}"], "tests": tests})
    assert set(sample.references) == set(references)
