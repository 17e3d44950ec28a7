"""Reads MTRAG, IBM's benchmark of RAG in several turns, as rows of a golden set.

A conversation of MTRAG has `messages`, each with a speaker; a task is one turn of it, with
the messages up to its question as `input`, and the right answer as `targets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.golden.profile import MISSING, value_at

Values = Mapping[str, Any]


def read_mtrag(values: Values) -> Values:
    """Return a row of MTRAG with the names of Ragstone's fields, any other row as it
    is."""
    if _are_mtrag_messages(values.get("messages")):
        return {
            "id": values.get("id"),
            "turns": list(map(_read_message, values["messages"])),
        }
    is_task = _are_mtrag_messages(values.get("input")) and _are_mtrag_messages(
        values.get("targets")
    )
    if "messages" in values or not is_task:
        return values
    *earlier_messages, question = map(_read_message, values["input"])
    return {
        "id": values.get("task_id"),
        "group": values.get("conversation_id"),
        "history": earlier_messages,
        "question": question["content"],
        "reference": values["targets"][0]["text"],
        **_labels(values),
    }


def _are_mtrag_messages(messages: Any) -> bool:
    """Whether `messages` is a list of objects with `speaker` and `text`, and not
    empty."""
    return (
        isinstance(messages, list)
        and messages != []
        and all(
            isinstance(message, dict) and {"speaker", "text"} <= message.keys()
            for message in messages
        )
    )


def _read_message(message: Values) -> dict[str, Any]:
    role = "assistant"
    if message["speaker"] == "user":
        role = "user"
    enrichments = message.get("enrichments")
    labelled = dict(message)
    if isinstance(enrichments, dict):
        labelled |= enrichments
    return {"role": role, "content": message["text"], **_labels(labelled)}


def _labels(values: Values) -> dict[str, Any]:
    """Return the fields that annotators' labels mean: the type of the question, whether
    it can be answered, and the relevant passages with their ids."""
    answerability = str(values.get("Answerability", values.get("answerability")))
    contexts = values.get("contexts")
    relevant: list[object] = []
    if isinstance(contexts, list):
        relevant = list(filter(_is_relevant, contexts))
    labels = {
        "tags": values.get("Question Type"),
        "unanswerable": "UNANSWERABLE" in answerability,
        "expects": "clarification" if "UNDERSPECIFIED" in answerability else None,
        "reference_contexts": relevant,
        "relevant_ids": value_at(relevant, "document_id"),
    }
    return {
        name: value for name, value in labels.items() if value and value is not MISSING
    }


def _is_relevant(context: object) -> bool:
    """Whether the last annotator found the context relevant; True if none judged it."""
    if not isinstance(context, dict):
        return False
    verdicts = value_at(context, "feedback.relevant")
    if not isinstance(verdicts, dict) or not verdicts:
        return True
    *_, last_verdict = verdicts.values()
    return value_at(last_verdict, "value") == "yes"
