"""Which column becomes which field, and what a user is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ConfigError, GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet


def load(folder: Path, *rows: dict[str, Any], **columns: str) -> GoldenSet:
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return load_golden_set("a.jsonl", root=folder, columns=columns)


@pytest.mark.parametrize(
    ("row", "recorded"),
    [
        ({"question": "A?", "truth": "t"}, {}),
        ({"Query": "A?", "Expected Answer": "t"}, {}),
        ({"userInput": "A?", "groundTruth": "t"}, {}),
        ({"question": "A?", "answer": "t"}, {}),
        ({"user_input": "A?", "reference_contexts": ["c"], "reference": "t", "synthesizer_name": "multi_hop"}, {}),
        ({"question": "A?", "contexts": ["c"], "ground_truth": "t"}, {}),
        ({"inputs": {"question": "A?"}, "outputs": {"answer": "t"}}, {}),
        ({"inputs": {"question": "A?"}, "expectations": {"expected_response": "t"}}, {}),
        ({"id": "1", "question": "A?", "context": "c", "answers": {"text": ["t"], "answer_start": [3]}}, {}),
        ({"input": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "A?"}], "ideal": "t"}, {}),
        ({"input": "A?", "passages": [{"title": "p", "text": "c"}], "output": [{"answer": "t"}, {"answer": "u"}]}, {}),
        ({"vars": {"question": "A?", "expected": "t"}, "assert": [{"type": "llm-rubric"}]}, {}),
        (
            {"question": "A?", "answer": "said", "contexts": ["r"], "ground_truths": ["t"]},
            {"answer": "answer", "contexts": "contexts"},
        ),
        (
            {"user_input": "A?", "retrieved_contexts": ["r"], "response": "said", "reference": "t"},
            {"answer": "response", "contexts": "retrieved_contexts"},
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
            {"input": "A?", "actual_output": "said", "expected_output": "t", "context": ["c"]},
            {"answer": "actual_output"},
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


def test_unknown_columns_are_listed_as_ignored(tmp_path: Path) -> None:
    golden = load(tmp_path, {"question": "A?", "cost": 3}, {"question": "B?", "author": {"name": "x"}})
    assert golden.mappings[0].ignored == ("cost", "author")


def test_a_column_that_begins_late_is_read(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"question": f"{index}?"} for index in range(500)]
    golden = load(tmp_path, *rows, {"question": "late?", "reference": "t"})
    assert golden.samples[-1].reference == "t"
    assert golden.samples[0].reference is None


def test_strong_names_come_before_weak_ones(tmp_path: Path) -> None:
    golden = load(tmp_path, {"input": "not this", "question": "A?", "prompt": "nor this"})
    assert golden.samples[0].question == "A?"
    assert golden.mappings[0].ignored == ("input", "prompt")


def test_a_column_comes_before_one_inside_of_another(tmp_path: Path) -> None:
    golden = load(tmp_path, {"question": "A?", "inputs": {"question": "not this"}})
    assert golden.samples[0].question == "A?"


def test_two_columns_that_could_be_the_question_are_ambiguous_where_they_differ(tmp_path: Path) -> None:
    assert load(tmp_path, {"question": "A?", "query": "A?"}).samples[0].question == "A?"
    with pytest.raises(GoldenSetError, match=r"a\.jsonl:2: columns 'question' and 'query' could both") as caught:
        load(tmp_path, {"question": "A?", "query": "A?"}, {"question": "A?", "query": "B?"})
    assert '[golden.columns]\n  question = "question"' in str(caught.value)


def test_no_question_shows_the_columns_and_the_lines_to_write(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError) as caught:
        load(tmp_path, {"frage": "A?", "antwort": "a", "fall": {"ground_truth": "t"}})
    message = str(caught.value)
    assert "Columns found: 'frage', 'antwort', 'fall', 'fall.ground_truth'" in message
    assert '[golden.columns]\n  question = "frage"\n  reference = "fall.ground_truth"' in message


def test_any_column_can_be_named_by_the_user(tmp_path: Path) -> None:
    row = {
        "frage": "A?",
        "meta": {"antwort": {"text": "t"}, "a.b": "g"},
        "quellen": [{"doc": {"nr": "d1"}}, {"doc": {"nr": "d2"}}],
        "abschnitte": [{"inhalt": "one"}, {"inhalt": "two"}],
    }
    golden = load(
        tmp_path,
        row,
        question="frage",
        reference="meta.antwort",
        relevant_ids="quellen.doc.nr",
        reference_contexts="abschnitte.inhalt",
        tags="quellen.0.doc.nr",
        group="meta.a.b",
    )
    (sample,) = golden
    assert (sample.question, sample.reference, sample.group) == ("A?", "t", "g")
    assert dict(sample.relevant_ids) == {"d1": 1.0, "d2": 1.0}
    assert sample.reference_contexts == ("one", "two")
    assert sample.tags == ("d1",)


def test_an_empty_name_leaves_a_field_out(tmp_path: Path) -> None:
    golden = load(tmp_path, {"id": "x", "question": "A?", "answer": "a"}, id="", reference="")
    assert golden.samples[0].reference is None
    assert golden.samples[0].id.startswith("q-")


def test_a_named_column_that_no_file_has_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="there is no column 'anser'") as caught:
        load(tmp_path, {"question": "A?", "answer": "a"}, reference="anser")
    assert "Did you mean 'answer'?" in str(caught.value)
    with pytest.raises(GoldenSetError, match=r"no column 'frage'.*Columns found: 'titel'"):
        load(tmp_path, {"titel": "A?"}, question="frage")


def test_a_native_file_needs_none_of_the_named_columns(tmp_path: Path) -> None:
    wanted = {"id": "Nr", "question": "Frage", "reference": "Antwort"}
    assert load(tmp_path, {"id": "a", "question": "A?", "tags": ["x"]}, **wanted)[0].id == "a"
    with pytest.raises(GoldenSetError, match="there is no column 'Nr'"):
        load(tmp_path, {"id": "a", "question": "A?", "Nummer": "7"}, **wanted)
    (tmp_path / "b.csv").write_text("question\nB?\n", encoding="utf-8")
    with pytest.raises(GoldenSetError, match="there is no column 'Nr'"):
        load_golden_set(["a.jsonl", "b.csv"], root=tmp_path, columns=wanted)


def test_a_named_column_may_be_in_one_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("frage\nA?\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("question\nB?\n", encoding="utf-8")
    golden = load_golden_set(["a.csv", "b.csv"], root=tmp_path, columns={"question": "frage"})
    assert [sample.question for sample in golden] == ["A?", "B?"]


def test_an_unknown_field_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown field 'questoin'") as caught:
        load(tmp_path, {"question": "A?"}, questoin="question")
    assert "Did you mean 'question'?" in str(caught.value)


@pytest.mark.parametrize("column", ["is_impossible", "out_of_scope"])
def test_unanswerable_is_read_the_other_way_round(tmp_path: Path, column: str) -> None:
    golden = load(tmp_path, {"question": "A?", column: True}, {"question": "B?", column: "no"}, {"question": "C?"})
    assert [sample.answerable for sample in golden] == [False, True, True]
    assert golden.mappings[0].columns["answerable"] == column


def test_an_empty_answer_as_squad_writes_it_means_unanswerable(tmp_path: Path) -> None:
    golden = load(
        tmp_path,
        {"question": "A?", "context": "c", "answers": {"text": ["a"], "answer_start": [0]}},
        {"question": "B?", "context": "c", "answers": {"text": [], "answer_start": []}},
        {"question": "C?", "context": "c", "answers": {"text": []}},
    )
    assert [sample.answerable for sample in golden] == [True, False, True]
    assert "an empty 'answers' is read as unanswerable (samples without an answer: 1)" in golden.mappings[0].notes


def test_a_column_that_says_whether_a_question_is_answerable_wins_over_an_empty_answer(tmp_path: Path) -> None:
    rows = [{"question": "A?", "has_answer": True, "answers": {"text": [], "answer_start": []}}]
    assert [sample.answerable for sample in load(tmp_path, *rows)] == [True]


def test_the_layout_of_squad_is_read_with_its_paragraphs(tmp_path: Path) -> None:
    asked = [
        {"id": "1", "question": "Where?", "answers": [{"text": "Here", "answer_start": 0}], "is_impossible": False},
        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    paragraphs = [{"context": "Here it is.", "qas": asked}, {"context": "Nothing.", "qas": []}]
    document = {"version": "v2.0", "data": [{"title": "Places", "paragraphs": paragraphs}]}
    (tmp_path / "dev.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    golden = load_golden_set("dev.json", root=tmp_path)
    assert [(s.id, s.reference, s.reference_contexts, s.answerable) for s in golden] == [
        ("1", "Here", ("Here it is.",), True),
        ("2", None, ("Here it is.",), False),
    ]


def test_recorded_results_of_an_evaluation_are_told_from_its_references(tmp_path: Path) -> None:
    header = "questions,true_answers,predicted_answers,contexts\n"
    (tmp_path / "results.csv").write_text(f"{header}A?,right,guessed,\"['p', 'q']\"\n", encoding="utf-8")
    golden = load_golden_set("results.csv", root=tmp_path)
    assert [(s.reference, s.reference_contexts) for s in golden] == [("right", ())]
    assert golden.mappings[0].recorded == {"answer": "predicted_answers", "contexts": "contexts"}


def test_a_file_that_labels_its_references_is_refused_at_the_first_bad_one(tmp_path: Path) -> None:
    rows = [
        {"query": "A?", "expected_response": "right", "expected_score": 1},
        {"query": "A?", "expected_response": "wrong", "expected_score": 0},
    ]
    with pytest.raises(GoldenSetError, match=r"a\.jsonl:2: column 'expected_score' is 0") as caught:
        load(tmp_path, *rows)
    assert '[golden.columns]\n  question = "query"\n  reference = ""' in str(caught.value)
    assert len(load(tmp_path, rows[0])) == 1
    assert len(load(tmp_path, *rows, reference="expected_response")) == 2


def test_several_references_are_all_read_and_noted(tmp_path: Path) -> None:
    golden = load(tmp_path, {"question": "A?", "answers": ["", "one", "two"]}, {"question": "B?", "answers": ["one"]})
    assert [sample.references for sample in golden] == [("one", "two"), ("one",)]
    assert golden.mappings[0].notes == ("of several references, the best counts (samples with several: 1)",)


@pytest.mark.parametrize(
    "row",
    [
        {"reference": "one", "other_references": ["two", "one"]},
        {"reference": ["one", "two"]},
        {"ground_truths": ["one", "two"]},
        {"references": "['one', 'two']"},
        {"answers": {"text": ["one", "one", "two"], "answer_start": [1, 1, 5]}},
        {"answers": [{"text": "one", "answer_start": 1}, {"text": "two", "answer_start": 9}]},
        {"answer": {"value": "one", "aliases": ["two", "one"]}},
        {"answer": "one", "answer_aliases": ["two"]},
        {"answer": "one", "possible_answers": '["one", "two"]'},
        {"best_answer": "one", "correct_answers": ["two", "one"]},
    ],
)
def test_layouts_of_several_references(tmp_path: Path, row: dict[str, object]) -> None:
    (sample,) = load(tmp_path, {"question": "A?", **row})
    assert sample.references == ("one", "two")


def test_a_text_that_looks_like_a_list_is_one_answer_under_a_singular_name(tmp_path: Path) -> None:
    (sample,) = load(tmp_path, {"question": "Which flags are set?", "reference": "['a', 'b']"})
    assert sample.references == ("['a', 'b']",)


def test_an_answer_that_is_none_of_the_right_ones_is_a_conflict(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="could both be the reference, but differ"):
        load(tmp_path, {"question": "A?", "best_answer": "three", "correct_answers": ["two", "one"]})


def test_too_many_references_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="1,001 references; at most 1,000"):
        load(tmp_path, {"question": "A?", "references": [f"answer {n}" for n in range(1001)]})


def test_a_sample_with_one_reference_keeps_its_hash_and_id(tmp_path: Path) -> None:
    (one,) = load(tmp_path, {"question": "A?", "references": ["one"]})
    (plain,) = load(tmp_path, {"question": "A?", "reference": "one"})
    (two,) = load(tmp_path, {"question": "A?", "references": ["one", "two"]})
    assert one.content_hash() == plain.content_hash() != two.content_hash()
    assert one.id == plain.id == two.id


def test_an_object_without_a_text_names_the_line_and_its_keys(tmp_path: Path) -> None:
    with pytest.raises(
        GoldenSetError, match=r"a\.jsonl:1: column 'reference' \(reference\) contains an object"
    ) as caught:
        load(tmp_path, {"question": "A?", "reference": {"x": 1}})
    assert '[golden.columns]\n  reference = "…"' in str(caught.value)


def test_numbers_and_truth_values_are_text_where_text_is_wanted(tmp_path: Path) -> None:
    golden = load(tmp_path, *({"question": f"{value}?", "answer": value} for value in (35, True, 0.5)))
    assert [sample.reference for sample in golden] == ["35", "true", "0.5"]


def test_document_ids_are_not_taken_for_columns(tmp_path: Path) -> None:
    grades = {f"doc-{index}": 1 for index in range(3000)}
    (sample,) = load(tmp_path, {"question": "A?", "relevant_ids": {**grades, "expected_score": 0}})
    assert len(sample.relevant_ids) == 3001


@pytest.mark.parametrize(
    ("column", "field"),
    [("Refernce", "reference"), ("reference_contexs", "reference_contexts"), ("unanswerble", "unanswerable")],
)
def test_a_column_that_is_almost_a_field_is_refused_in_any_row_with_the_name_that_was_meant(
    tmp_path: Path, column: str, field: str
) -> None:
    with pytest.raises(GoldenSetError, match=f"'{column}' looks like a misspelt '{field}'") as caught:
        load(tmp_path, {"question": "A?"}, {"question": "B?", column: "x"})
    assert field in (caught.value.hint or "")


def test_who_means_what_is_written_says_so(tmp_path: Path) -> None:
    golden = load(tmp_path, {"question": "A?", "refrence": "a"}, reference="refrence")
    assert golden.samples[0].reference == "a"
    assert load(tmp_path, {"question": "A?", "refrence": "a"}, reference="").samples[0].reference is None


@pytest.mark.parametrize(
    "column",
    ["preference", "groups", "reference2", "references_2", "reference_id", "reference_contextual", "stage", "tips"],
)
def test_a_column_that_is_another_word_is_only_ignored(tmp_path: Path, column: str) -> None:
    assert load(tmp_path, {"question": "A?", column: "x"}).mappings[0].ignored == (column,)


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
    assert "ragstone compare a.jsonl" in str(caught.value.hint)
    asked = next(iter(row))
    assert load(tmp_path, row, question=asked)[0].question == "A?"
    assert load(tmp_path, {**row, "ground_truth": "So."})[0].reference == "So."


def test_another_name_of_a_field_is_not_a_misspelt_one(tmp_path: Path) -> None:
    (sample,) = load(tmp_path, {"question": "A?", "relevant_docs": ["d1"]})
    assert sample.relevant_ids == {"d1": 1.0}


def test_all_columns_of_tags_add_up(tmp_path: Path) -> None:
    golden = load(tmp_path, {"question": "A?", "query_type": "factual", "difficulty": "hard"})
    assert golden[0].tags == ("factual", "hard")
    assert golden.mappings[0].columns["tags"] == "query_type, difficulty"


@pytest.mark.parametrize("name", ["expected_id", "relevant_sources", "expected_files", "relevant_doc_files"])
def test_documents_that_an_answer_needs_are_known_by_many_names(tmp_path: Path, name: str) -> None:
    golden = load(tmp_path, {"question": "A?", name: ["faq.md"]})
    assert dict(golden[0].relevant_ids) == {"faq.md": 1.0}


def test_a_question_that_should_be_refused_is_unanswerable(tmp_path: Path) -> None:
    golden = load(tmp_path, {"question": "A?", "expected_refusal": True}, {"question": "B?", "expected_refusal": False})
    assert [sample.answerable for sample in golden] == [False, True]
