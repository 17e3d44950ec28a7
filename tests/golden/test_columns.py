"""Which column becomes which field, and what a user is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet, Review
from tests.golden.loading import load_rows


def load(folder: Path, *rows: object, **columns: str) -> GoldenSet:
    return load_rows(folder, *rows, columns=columns)


@pytest.mark.parametrize(
    ("row", "recorded"),
    [
        ({"question": "A?", "truth": "t"}, {}),
        ({"question": "A?", "contexts": ["c"], "ground_truth": "t"}, {}),
        (
            {"input": "A?", "actual_output": "said", "expected_output": "t", "context": ["c"]},
            {"answer": "actual_output"},
        ),
        ({"questions": "A?", "true_answers": "t", "predicted_answers": "said"}, {"answer": "predicted_answers"}),
        ({"userInput": "A?", "groundTruth": "t"}, {}),
        ({"user_input": "A?", "reference_contexts": ["c"], "reference": "t", "synthesizer_name": "multi_hop"}, {}),
        ({"id": "1", "question": "A?", "context": "c", "answers": {"text": ["t"], "answer_start": [3]}}, {}),
        ({"input": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "A?"}], "ideal": "t"}, {}),
        ({"input": "A?", "passages": [{"title": "p", "text": "c"}], "output": [{"answer": "t"}, {"answer": "u"}]}, {}),
        (
            {"question": "A?", "answer": "said", "contexts": ["r"], "ground_truths": ["t"]},
            {"answer": "answer", "contexts": "contexts"},
        ),
        (
            {
                "input": "A?",
                "actual_output": "said",
                "expected_output": "t",
                "retrieval_context": ["r"],
                "context": ["c"],
            },
            {"answer": "actual_output", "contexts": "retrieval_context"},
        ),
        (
            {"user_input": "A?", "retrieved_contexts": ["r"], "response": "said", "context": ["c"], "reference": "t"},
            {"answer": "response", "contexts": "retrieved_contexts"},
        ),
        (
            {"query": "A?", "response": "said", "context": "r", "ground_truth": "t"},
            {"answer": "response", "contexts": "context"},
        ),
        ({"input": {"input": "A?", "output": "said", "expected": "t"}, "expected": 0}, {"answer": "input.output"}),
    ],
)
def test_the_columns_of_other_tools_are_understood(
    tmp_path: Path, row: dict[str, Any], recorded: dict[str, str]
) -> None:
    """A row's values say what they are: question A?, reference t, relevant passage c; said and r by the system."""
    golden = load(tmp_path, row)
    (sample,) = golden
    assert (sample.question, sample.reference) == ("A?", "t")
    assert sample.reference_contexts == (("c",) if '"c"' in json.dumps(row) else ())
    assert sample.tags == (("multi_hop",) if "synthesizer_name" in row else ())
    assert dict(golden.mappings[0].recorded) == recorded


def test_an_answer_beside_retrieved_contexts_is_what_a_system_said(tmp_path: Path) -> None:
    row = {"question": "A?", "answer": "said", "contexts": ["c"]}
    golden = load(tmp_path, row)
    (sample,) = golden
    assert (sample.reference, sample.reference_contexts) == (None, ())
    assert dict(golden.mappings[0].recorded) == {"answer": "answer", "contexts": "contexts"}
    assert "'answer' is read as a recorded answer" in golden.mappings[0].notes[0]
    (published,) = load(tmp_path, row, reference="answer", reference_contexts="contexts")
    assert (published.reference, published.reference_contexts) == ("said", ("c",))
    assert load(tmp_path, row, reference="answer")[0].reference == "said"
    assert load(tmp_path, row, reference_contexts="contexts")[0].reference == "said"


@pytest.mark.parametrize(
    ("row", "ignored"),
    [
        ({"input": "not this", "question": "A?", "prompt": "nor this"}, ("input", "prompt")),
        ({"question": "A?", "inputs": {"question": "not this"}}, ("inputs",)),
        ({"question": "A?", "inputs": {"answer": "t", "cost": 3}}, ("inputs.cost",)),
        ({"question": "A?", "meta": {"refrence": "x"}}, ("meta",)),
        ({"instruction": ["a"], "prompt": "A?"}, ("instruction",)),
        *(
            ({"question": "A?", column: "x"}, (column,))
            for column in (
                *("preference", "groups", "reference2", "references_2", "reference_id", "reference_contextual"),
                *("stage", "tips", "referen"),
            )
        ),
    ],
)
def test_what_is_not_read_is_listed_as_ignored(tmp_path: Path, row: dict[str, Any], ignored: tuple[str, ...]) -> None:
    golden = load(tmp_path, row)
    assert golden[0].question == "A?"
    assert golden.mappings[0].ignored == ignored


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        ({"is_impossible": True}, "answerable", False),
        ({"out_of_scope": "no"}, "answerable", True),
        ({"out_of_scope": None}, "answerable", True),
        ({"expected_refusal": True}, "answerable", False),
        ({"has_answer": True, "answers": {"text": [], "answer_start": []}}, "answerable", True),
        ({"answers": {"text": [], "answer_start": []}}, "answerable", False),  # as SQuAD writes it
        ({"answers": {"text": []}}, "answerable", True),
        ({"answerable": True, "is_impossible": True}, "answerable", True),
        ({"relevant_docs": ["d1"]}, "relevant_ids", {"d1": 1.0}),
        ({"expected_files": ["d1"]}, "relevant_ids", {"d1": 1.0}),
        ({"expected_id": "d1"}, "relevant_ids", {"d1": 1.0}),
        ({"relevant_sources": ["d1"]}, "relevant_ids", {"d1": 1.0}),
        (
            {"qrels": [{"doc_id": "d1", "relevance": 2}, {"id": "d2"}, 7]},
            "relevant_ids",
            {"d1": 2.0, "d2": 1.0, "7": 1.0},
        ),
        ({"status": "draft"}, "is_draft", True),
        ({}, "is_draft", False),
        ({"status": "Draft ", "reviewer": "Ada", "reviewed_on": "1 May"}, "review", Review("draft", "Ada", "1 May")),
        ({"status": "ACTIVE", "reviewer": "Ada"}, "review", None),
        ({"query_type": "factual", "difficulty": "hard"}, "tags", ("factual",)),
        ({"reference": "['a', 'b']"}, "references", ("['a', 'b']",)),
        ({"references": "['a', 'b']"}, "references", ("a", "b")),
        ({"answers": ["", "one"]}, "references", ("one",)),
        ({"answer": 35}, "reference", "35"),
        ({"answer": True}, "reference", "true"),
        ({"reference": None, "answer": "t"}, "reference", "t"),
        ({"answer": "t", "keyword_score": 0.5}, "reference", "t"),
        ({"answer": "t", "actual_sources": ["a"]}, "reference", "t"),
        ({"faithfulness": 1.0}, "reference", None),
        ({"answer": "said", "retrieved_contexts": ["r"]}, "reference", None),
        ({"answer": "a", "actual_output": "s", "contexts": ["c"]}, "reference_contexts", ("c",)),
        ({"response": "s", "retrieved_contexts": ["r"], "contexts": ["c"]}, "reference_contexts", ("c",)),
        ({"output": {"answer": "t"}}, "reference", None),
        ({"outputs": {"answer": "t"}}, "reference", "t"),
        ({"outputs": "said"}, "reference", None),
        ({"expected": 0.5}, "reference", None),
        ({"expected": 1.5}, "reference", "1.5"),
    ],
)
def test_the_value_of_a_field_is_read_from_its_column(
    tmp_path: Path, row: dict[str, Any], field: str, value: object
) -> None:
    (sample,) = load(tmp_path, {"question": "A?", **row})
    assert getattr(sample, field) == value


def test_of_two_columns_the_one_with_the_better_name_is_read(tmp_path: Path) -> None:
    golden = load(tmp_path, {"query": "B?", "question": "A?", "ground_truth": "u", "reference": "t"})
    assert (golden[0].question, golden[0].references) == ("A?", ("t",))
    assert golden.mappings[0].ignored == ("query", "ground_truth")


def test_no_question_shows_the_columns_and_the_lines_to_write(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError) as caught:
        load(tmp_path, {"frage": "A?", "antwort": "a", "fall": {"ground_truth": "t"}})
    message = str(caught.value)
    assert "Columns found: 'frage', 'antwort', 'fall', 'fall.ground_truth'" in message
    assert '[golden.columns]\n  question = "frage"\n  reference = "fall.ground_truth"' in message
    with pytest.raises(GoldenSetError, match=r"or none with text in it\. Columns found: 'question'"):
        load(tmp_path, {"question": " ", "reference": "t"}, {"question": None})


def test_any_column_can_be_named_by_the_user(tmp_path: Path) -> None:
    row = {
        "frage": "A?",
        "meta": {"antwort": {"text": "t"}, "gruppe": "g"},
        "quellen": [{"doc": {"nr": "d1"}}, {"doc": {"nr": "d2"}}],
        "abschnitte": [{"inhalt": "one"}, {"inhalt": "two"}],
    }
    columns = {"question": "frage", "reference": "meta.antwort", "relevant_ids": "quellen.doc.nr"}
    more = {"reference_contexts": "abschnitte.inhalt", "tags": "quellen.0.doc.nr", "group": "meta.gruppe"}
    golden = load(tmp_path, row, **columns, **more)
    (sample,) = golden
    assert (sample.question, sample.reference, sample.group) == ("A?", "t", "g")
    assert dict(sample.relevant_ids) == {"d1": 1.0, "d2": 1.0}
    assert sample.reference_contexts == ("one", "two")
    assert sample.tags == ("d1",)


def test_a_named_column_that_no_file_has_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="there is no column 'anser'") as caught:
        load(tmp_path, {"question": "A?", "answer": "a"}, reference="anser")
    assert "Did you mean 'answer'?" in str(caught.value)
    with pytest.raises(GoldenSetError, match="Columns found: 'titel'"):
        load(tmp_path, {"titel": "A?"}, question="frage")


def test_a_native_file_needs_none_of_the_named_columns(tmp_path: Path) -> None:
    wanted = {"id": "Nr", "question": "Frage", "reference": "Antwort"}
    assert load(tmp_path, {"id": "a", "question": "A?", "tags": ["x"]}, **wanted)[0].id == "a"
    for other in ({"Nummer": "7"}, {"response": "said"}):
        with pytest.raises(GoldenSetError, match="there is no column 'Nr'"):
            load(tmp_path, {"id": "a", "question": "A?", **other}, **wanted)
    load(tmp_path, {"id": "a", "question": "A?"}, **wanted)
    (tmp_path / "b.csv").write_text("question\nB?\n", encoding="utf-8")
    with pytest.raises(GoldenSetError, match="there is no column 'Nr'"):
        load_golden_set(["golden.jsonl", "b.csv"], root=tmp_path, columns=wanted)


def test_a_part_of_a_column_that_is_read_is_not_recorded_too(tmp_path: Path) -> None:
    golden = load(tmp_path, {"question": "A?", "contexts": [{"text": "c"}]}, reference_contexts="contexts.text")
    assert (golden[0].reference_contexts, dict(golden.mappings[0].recorded)) == (("c",), {})


def test_a_field_that_is_left_out_is_not_read_by_its_opposite(tmp_path: Path) -> None:
    assert load(tmp_path, {"question": "A?", "is_impossible": True}, answerable="")[0].answerable


def test_an_unknown_field_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown field 'questoin'") as caught:
        load(tmp_path, {"question": "A?"}, questoin="question")
    assert "Did you mean 'question'?" in str(caught.value)


@pytest.mark.parametrize("label", [0, 1, "Incorrect", None])
def test_a_file_that_rates_its_references_is_refused_unless_they_are_mapped(tmp_path: Path, label: object) -> None:
    row = {"query": "A?", "expected_response": "right", "expected_score": label}
    with pytest.raises(
        GoldenSetError, match="column 'expected_score' rates the values of 'expected_response'"
    ) as caught:
        load(tmp_path, row)
    assert '[golden.columns]\n  question = "query"\n  reference = ""' in str(caught.value)
    assert load(tmp_path, row, reference="expected_response")[0].reference == "right"
    assert load(tmp_path, row, reference="")[0].reference is None


def test_a_label_inside_of_an_object_of_inputs_counts_too(tmp_path: Path) -> None:
    fields = {"query": "A?", "expected_response": "r", "expected_score": 0}
    with pytest.raises(GoldenSetError, match=r"column 'inputs\.expected_score' rates"):
        load(tmp_path, {"inputs": fields})
    assert load(tmp_path, {"query": "A?", "expected_response": "r", "notes": fields})[0].reference == "r"


@pytest.mark.parametrize(
    "row",
    [
        {"reference": "one", "other_references": ["two", "one"]},
        {"reference": ["one", "two"]},
        {"ground_truths": ["one", "two"]},
        {"references": "['one', 'two']"},
        {"answers": {"text": ["one", "one", "two"], "answer_start": [1, 1, 5]}},
        {"answers": [{"text": "one", "answer_start": 1}, {"text": "two", "answer_start": 9}]},
        {"answer": "one", "answer_aliases": ["two"]},
        {"answer": "one", "possible_answers": '["one", "two"]'},
    ],
)
def test_layouts_of_several_references(tmp_path: Path, row: dict[str, object]) -> None:
    golden = load(tmp_path, {"question": "A?", **row}, {"question": "B?"})
    assert golden[0].references == ("one", "two")


MANY = [f"answer {n}" for n in range(1001)]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"references": MANY}, "1,001 references; at most 1,000"),
        ({"reference": {"x": 1}}, r"golden\.jsonl:1: column 'reference' \(reference\) contains an object"),
    ],
)
def test_what_is_no_reference_is_refused(tmp_path: Path, row: dict[str, object], says: str) -> None:
    assert len(load(tmp_path, {"question": "A?", "references": MANY[1:]})[0].references) == 1000
    with pytest.raises(GoldenSetError, match=says) as caught:
        load(tmp_path, {"question": "A?", **row})
    assert "[golden.columns]\n  reference = " in str(caught.value) or "1,001" in says


def test_a_sample_with_one_reference_keeps_its_hash_and_id(tmp_path: Path) -> None:
    (one,) = load(tmp_path, {"question": "A?", "references": ["one"]})
    (plain,) = load(tmp_path, {"question": "A?", "reference": "one"})
    (two,) = load(tmp_path, {"question": "A?", "references": ["one", "two"]})
    assert one.content_hash() == plain.content_hash() != two.content_hash()
    assert one.id == plain.id == two.id


def test_document_ids_are_not_taken_for_columns(tmp_path: Path) -> None:
    grades = {f"doc-{index}": 1 for index in range(3000)}
    (sample,) = load(tmp_path, {"question": "A?", "relevant_ids": {**grades, "expected_score": 0}})
    assert len(sample.relevant_ids) == 3001


@pytest.mark.parametrize(
    ("column", "field"), [("Refernce", "reference"), ("unanswerble", "unanswerable"), ("max_wrds", "max_words")]
)
def test_a_column_that_is_almost_a_field_is_refused_in_any_row_with_the_name_that_was_meant(
    tmp_path: Path, column: str, field: str
) -> None:
    with pytest.raises(GoldenSetError, match=f"'{column}' looks like a misspelt '{field}'") as caught:
        load(tmp_path, {"question": "A?"}, {"question": "B?", column: "x"})
    assert field in (caught.value.hint or "")


def test_who_means_what_is_written_says_so(tmp_path: Path) -> None:
    assert load(tmp_path, {"question": "A?", "refrence": "g"}, group="refrence")[0].group == "g"
    golden = load(tmp_path, {"question": "A?", "refrence": "a"}, reference="refrence")
    assert golden.samples[0].reference == "a"
    assert load(tmp_path, {"question": "A?", "refrence": "a"}, reference="").samples[0].reference is None


@pytest.mark.parametrize(
    "row",
    [
        {"question": "A?", "answer": "said", "contexts": ["A passage."], "faithfulness": 1.0},
        {"question": "A?", "answer": "said", "Answer Relevancy": "0.5"},
        {"user_input": "A?", "response": "said", "factual_correctness": None},
        {"question": "A?", "answer": "said", "actual_sources": ["a.md"], "keyword_score": 0.5},
    ],
)
def test_results_without_right_answers_are_no_golden_set(tmp_path: Path, row: dict[str, Any]) -> None:
    with pytest.raises(GoldenSetError, match="these are results of an evaluation") as caught:
        load(tmp_path, row)
    assert "ragstone compare golden.jsonl" in str(caught.value.hint)
    asked = next(iter(row))
    assert load(tmp_path, row, question=asked)[0].question == "A?"
    assert load(tmp_path, {**row, "ground_truth": "So."})[0].reference == "So."
