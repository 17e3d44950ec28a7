"""Golden sets as real projects write them: each is read right, or refused with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.load import load_golden_set
from tests.needs import DATA_SETS

DATA = Path(__file__).parents[2] / "../shared/data/golden_sets"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=DATA_SETS)


@pytest.mark.parametrize(
    ("name", "samples", "columns", "recorded", "first", "line", "reference"),
    [
        (
            "azure_ai-rag-chat-evaluator__qa.jsonl",
            201,
            {"question": "question", "reference": "truth"},
            {},
            "What is balance billing",
            1,
            "Balance billing is when",
        ),
        (
            "azure_ai-rag-chat-evaluator__qa_dontknows.jsonl",
            45,
            {"question": "question", "reference": "truth"},
            {},
            "What are the key benefits",
            1,
            "Generated from this prompt",
        ),
        (
            "clapnq__clapnq_dev_answerable.jsonl",
            300,
            {"id": "id", "question": "input", "reference": "output", "reference_contexts": "passages"},
            {},
            "which method of forecasting",
            1,
            "Seasonality",
        ),
        (
            "continuous-eval__correctness_sm.jsonl",
            10,
            {"question": "question", "reference": "ground_truths"},
            {"answer": "answer"},
            "who is playing halftime",
            1,
            "Justin Timberlake",
        ),
        (
            "haystack-evaluation_ARAGOG__eval_questions.json",
            107,
            {"question": "questions", "reference": "ground_truths"},
            {},
            "What are the two main tasks BERT",
            3,
            "Masked LM (MLM)",
        ),
        (
            "llama_index_LabelledRagDataset__rag_dataset.json",
            58,
            {
                "question": "examples.query",
                "reference": "examples.reference_answer",
                "reference_contexts": "examples.reference_contexts",
            },
            {},
            "What are the key issues preventing",
            3,
            "The key issues preventing",
        ),
        (
            "microsoft_ai-agent-evals__dataset.json",
            15,
            {"question": "data.query", "reference": "data.ground_truth"},
            {},
            "Tell me about Smart eyeware",
            111,
            "Smart eyeware includes",
        ),
        (
            "ragas_improve_rag__hf_doc_qa_eval.csv",
            66,
            {"question": "question", "reference": "expected_answer"},
            {},
            "What architecture is the `tokenizers-linux",
            2,
            "x86_64-unknown-linux-musl",
        ),
        (
            "ragchecker__checking_inputs.json",
            2,
            {"id": "results.query_id", "question": "results.query", "reference": "results.gt_answer"},
            {"answer": "results.response", "contexts": "results.retrieved_context"},
            "What's the longest river",
            3,
            "The Nile is",
        ),
    ],
)
def test_a_real_golden_set_is_read(
    name: str,
    samples: int,
    columns: dict[str, str],
    recorded: dict[str, str],
    first: str,
    line: int,
    reference: str,
) -> None:
    golden = load_golden_set(name, root=DATA)
    sample = golden.samples[0]
    assert len(golden) == samples
    assert dict(golden.mappings[0].columns) == columns
    assert dict(golden.mappings[0].recorded) == recorded
    assert sample.question.startswith(first)
    assert sample.origin is not None
    assert (sample.origin.file, sample.origin.line) == (name, line)
    assert sample.reference is not None
    assert sample.reference.startswith(reference)


def test_passages_of_objects_become_reference_contexts() -> None:
    golden = load_golden_set("clapnq__clapnq_dev_answerable.jsonl", root=DATA)
    assert golden.samples[0].reference_contexts[0].startswith("Seasonality is a characteristic")


def test_lines_in_a_csv_with_line_breaks_in_cells() -> None:
    golden = load_golden_set("ragas_improve_rag__hf_doc_qa_eval.csv", root=DATA)
    second = golden.samples[1]
    assert second.origin is not None
    assert (second.question, second.origin.line) == ("What is the purpose of the BLIP-Diffusion model?", 4)


@pytest.mark.parametrize(
    ("name", "says", "write", "samples"),
    [
        (
            "ares__nq_few_shot_prompt_for_judge_scoring.tsv",
            "column 'Answer_Relevance_Label' is '[[No]]', so 'Answer' is labelled wrong",
            {"question": "Query", "reference": "", "reference_contexts": ""},
            7,
        ),
        (
            "deepeval__goldens.json",
            "duplicate question at deepeval__goldens.json:139 and deepeval__goldens.json:214",
            {"id": "name"},
            15,
        ),
        (
            "trulens__ms_marco_hard_neg_balanced.csv",
            "column 'expected_score' is '0', so 'expected_response' is labelled wrong",
            {"question": "query", "reference": ""},
            None,
        ),
        (
            "braintrust_autoevals__coqa-context-relevancy.json",
            "column 'expected' is 0, so 'input.context' is labelled wrong",
            {"question": "input.input", "reference_contexts": ""},
            None,
        ),
        (
            "ragas_docs__annotated_data.json",
            "no column for the question",
            {"question": "metric_input.user_input"},
            None,
        ),
    ],
)
def test_a_file_that_is_no_golden_set_is_refused_with_the_lines_to_write(
    name: str, says: str, write: dict[str, str], samples: int | None
) -> None:
    with pytest.raises(GoldenSetError) as caught:
        load_golden_set(name, root=DATA)
    message = str(caught.value)
    assert says in message
    assert "[golden.columns]" in message
    if samples is not None:
        assert len(load_golden_set(name, root=DATA, columns=write)) == samples
        return
    # What is left asks the same question again and again, and that is said with both lines.
    with pytest.raises(GoldenSetError, match="duplicate question at"):
        load_golden_set(name, root=DATA, columns=write)


def test_deepeval_contexts_are_the_reference_ones() -> None:
    golden = load_golden_set("deepeval__goldens.json", root=DATA, columns={"id": "name"})
    assert golden.samples[0].reference_contexts == ("Geography", "Mountains")
    assert dict(golden.mappings[0].recorded) == {"answer": "actual_output", "contexts": "retrieval_context"}
