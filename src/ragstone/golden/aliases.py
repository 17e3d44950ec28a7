"""Column aliases: the names that other tools use for the fields that Ragstone reads.

Names are compared in normal form (`normal`): ``Ground Truth``, ``groundTruth`` and ``ground_truth`` are the same name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Aliases:
    """Names of one field. A strong name always means the field; a weak one only if there is no strong one."""

    strong: tuple[str, ...]
    weak: tuple[str, ...] = ()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIELDS: Final = MappingProxyType(
    {
        "id": Aliases(
            _words("id sample_id question_id query_id qid uid uuid example_id case_id test_id test_case_id item_id")
        ),
        "question": Aliases(
            _words("question questions query queries user_input user_query user_question"),
            _words("input inputs prompt instruction user_message utterance search_query messages q"),
        ),
        "history": Aliases(
            _words(
                "history chat_history conversation_history dialogue_history dialog_history message_history "
                "previous_turns previous_messages"
            )
        ),
        "reference": Aliases(
            _words(
                "reference references reference_answer reference_answers reference_output reference_response "
                "ground_truth ground_truths groundtruth ground_truth_answer ground_truth_answers gt gt_answer "
                "gt_answers gold gold_answer gold_answers golden_answer golden_answers gold_truth golden_truth "
                "expected expected_answer expected_answers expected_output expected_outputs expected_response "
                "expected_result ideal ideal_answer correct_answer correct_answers best_answer right_answer "
                "target target_answer target_output true_answer true_answers truth standard_answer"
            ),
            _words("answer answers a output outputs"),
        ),
        "other_references": Aliases(
            _words(
                "other_references other_reference reference_aliases alternative_references answer_aliases "
                "alternative_answers other_answers acceptable_answers accepted_answers possible_answers"
            ),
            _words("aliases"),
        ),
        "reference_contexts": Aliases(
            _words(
                "reference_contexts reference_context ground_truth_contexts ground_truth_context gt_contexts "
                "gt_context gold_contexts gold_context golden_contexts golden_context gold_passages gold_passage "
                "gold_documents expected_contexts expected_context expected_retrieval_context relevant_contexts "
                "relevant_context supporting_contexts supporting_passages evidence"
            ),
            _words("context contexts passage passages document documents docs knowledge"),
        ),
        "relevant_ids": Aliases(
            _words(
                "relevant_ids relevant_doc_ids relevant_document_ids relevant_chunk_ids relevant_docs qrels "
                "reference_ids reference_context_ids reference_doc_ids expected_ids expected_doc_ids "
                "expected_chunk_ids gold_ids gold_doc_ids gold_chunk_ids golden_ids ground_truth_ids "
                "ground_truth_doc_ids positive_ids"
            )
        ),
        "answerable": Aliases(_words("answerable is_answerable has_answer")),
        "unanswerable": Aliases(_words("unanswerable is_unanswerable not_answerable is_impossible should_abstain")),
        "tags": Aliases(
            _words("tags tag"),
            _words(
                "categories category topics topic question_type query_type evolution_type synthesizer_name difficulty"
            ),
        ),
        "status": Aliases(_words("status review_status")),
        "reviewer": Aliases(_words("reviewer reviewed_by")),
        "reviewed_on": Aliases(_words("reviewed_on review_date")),
        "provenance": Aliases(_words("provenance")),
        "group": Aliases(
            _words("group group_id cluster cluster_id"), _words("conversation_id session_id thread_id story_id")
        ),
        "must_contain": Aliases(_words("must_contain must_contains")),
        "must_not_contain": Aliases(_words("must_not_contain must_not_contains")),
        "regex": Aliases(_words("regex regexes")),
        "max_words": Aliases(_words("max_words max_word")),
    }
)
"""Names of each field. ``unanswerable`` is read into `Sample.answerable`, inverted; ``status``, ``reviewer`` and
``reviewed_on`` into `Sample.review`."""

RECORDED: Final = MappingProxyType(
    {
        "answer": Aliases(
            _words(
                "response actual_output actual_answer generated_answer generated_answers generated_response "
                "predicted_answer predicted_answers prediction predictions model_response model_output system_answer "
                "rag_answer llm_answer"
            ),
            _words("completion output result"),
        ),
        "contexts": Aliases(
            _words(
                "retrieved_contexts retrieved_context retrieval_context retrieval_contexts retrieved_documents "
                "retrieved_docs retrieved_passages retrieved_chunks source_documents source_nodes"
            )
        ),
    }
)
"""Output of a system under test, stored in the same file by tools that evaluate recorded answers."""

CONTAINERS: Final = frozenset(
    _words("input inputs vars row sample example item test_case golden expectations expected expected_outputs")
)
"""Objects inside a row whose keys are treated like columns."""

ROW_LISTS: Final = _words(
    "examples samples questions data results rows items records entries dataset goldens golden tests test_cases cases"
)
"""Keys under which a JSON or YAML document keeps its rows, best first."""

LABELS: Final = MappingProxyType(
    {
        "expected_score": "reference",
        "answer_relevance_label": "reference",
        "answer_faithfulness_label": "reference",
        "context_relevance_label": "reference_contexts",
    }
)
"""Columns in files for judges that rate the column of another field, row by row."""

JUDGEMENTS: Final = (
    frozenset({"kind", "task", "label"}),
    frozenset({"kind", "task", "preference"}),
    frozenset({"label_faithful"}),
)
"""Columns that, together, are in no golden set: files for `ragstone meta-eval`."""

ALIAS_KEYS: Final = _words("aliases answer_aliases")
"""Keys under which an object holds other forms of its text, as TriviaQA's answers do."""

TEXT_KEYS: Final = _words("text content page_content answer output value body passage chunk node")
"""Keys under which an object holds its text."""

ID_KEYS: Final = _words("id doc_id document_id chunk_id _id")
"""Keys under which an object names a document."""

GRADE_KEYS: Final = _words("grade relevance score rel")
"""Keys under which an object grades a document."""


@lru_cache(maxsize=4096)
def normal(name: str) -> str:
    """`name` in lower-case words joined by underscores."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^0-9a-z]+", "_", split.lower()).strip("_")
