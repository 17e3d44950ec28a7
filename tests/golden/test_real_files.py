"""Golden sets as real projects write them: each is read right, or refused with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Origin
from tests.needs import DATA_SETS

DATA = Path(__file__).parents[2] / "../shared/data/golden_sets"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=DATA_SETS)


@pytest.mark.parametrize(
    ("name", "samples", "line", "question", "reference"),
    [
        ("azure_ai-rag-chat-evaluator__qa.jsonl", 201, 1, "What is balance billing", "Balance billing is when"),
        ("clapnq__clapnq_dev_answerable.jsonl", 300, 1, "which method of forecasting", "Seasonality"),
        ("haystack-evaluation_ARAGOG__eval_questions.json", 107, None, "What are the two main tasks", "Masked LM"),
        ("llama_index_LabelledRagDataset__rag_dataset.json", 58, 3, "What are the key issues", "The key issues"),
        ("microsoft_ai-agent-evals__dataset.json", 15, 111, "Tell me about Smart eyeware", "Smart eyeware includes"),
        ("ragas_improve_rag__hf_doc_qa_eval.csv", 66, 2, "What architecture is", "x86_64-unknown-linux-musl"),
    ],
)
def test_a_real_golden_set_is_read(name: str, samples: int, line: int | None, question: str, reference: str) -> None:
    golden = load_golden_set(name, root=DATA)
    first = golden.samples[0]
    assert len(golden) == samples
    assert first.origin == Origin(name, line)
    assert first.question.startswith(question)
    assert (first.reference or "").startswith(reference)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("trulens__ms_marco_hard_neg_balanced.csv", "expected_response"),
        ("braintrust_autoevals__coqa-context-relevancy.json", "input.context"),
        ("ares__nq_few_shot_prompt_for_judge_scoring.tsv", "Document"),
    ],
)
def test_a_file_that_labels_its_references_is_refused(name: str, column: str) -> None:
    with pytest.raises(GoldenSetError, match=f"rates the values of '{column}'") as caught:
        load_golden_set(name, root=DATA)
    assert "[golden.columns]" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says", "columns", "samples"),
    [
        (
            "ares__nq_few_shot_prompt_for_judge_scoring.tsv",
            "made for testing judges",
            {"question": "Query", "reference": "", "reference_contexts": ""},
            7,
        ),
        ("deepeval__goldens.json", r"duplicate question at \S+:139 and \S+:214", {"id": "name"}, 15),
    ],
)
def test_a_file_is_read_with_the_columns_that_its_refusal_names(
    name: str, says: str, columns: dict[str, str], samples: int
) -> None:
    with pytest.raises(GoldenSetError, match=says):
        load_golden_set(name, root=DATA)
    assert len(load_golden_set(name, root=DATA, columns=columns)) == samples
