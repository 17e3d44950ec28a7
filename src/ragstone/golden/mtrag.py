"""Conversations and tasks of MTRAG, IBM's benchmark of RAG in several turns, as rows of
a golden set.

A conversation has `messages` of a speaker; a task is one turn of it, with the messages
so far as `input`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.golden.profile import MISSING, follow

Values = Mapping[str, Any]


def read_mtrag(values: Values) -> Values:
    """The columns of a row of MTRAG in Ragstone's names; `values` itself, if it is
    none."""
    spoken = values.get("messages", values.get("input"))
    targets: Any = values.get("targets")
    has_messages = "messages" in values
    if not _are_spoken(spoken) or not (has_messages or _are_spoken(targets)):
        return values
    if has_messages:
        return {
            "id": values.get("id"),
            "turns": list(map(_message, spoken)),
        }
    *earlier, question = map(_message, spoken)
    return {
        "id": values.get("task_id"),
        "group": values.get("conversation_id"),
        "history": earlier,
        "question": question["content"],
        "reference": targets[0]["text"],
        **_labels(values),
    }


def _are_spoken(messages: Any) -> bool:
    """Whether these are messages with a speaker."""
    return (
        isinstance(messages, list)
        and messages != []
        and all(
            isinstance(message, dict) and {"speaker", "text"} <= message.keys()
            for message in messages
        )
    )


def _message(message: Values) -> dict[str, Any]:
    role = "assistant"
    if message["speaker"] == "user":
        role = "user"
    enrichments = message.get("enrichments")
    labelled = dict(message)
    if isinstance(enrichments, dict):
        labelled |= enrichments
    return {"role": role, "content": message["text"], **_labels(labelled)}


def _labels(values: Values) -> dict[str, Any]:
    """The kind of a question, whether it can be answered, and the passages that were
    found relevant, with their ids."""
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
        "relevant_ids": follow(relevant, "document_id"),
    }
    return {
        name: value for name, value in labels.items() if value and value is not MISSING
    }


def _is_relevant(context: object) -> bool:
    """What the last annotator says of a context; without one, it is."""
    if not isinstance(context, dict):
        return False
    verdicts = follow(context, "feedback.relevant")
    if not isinstance(verdicts, dict) or not verdicts:
        return True
    *_, last = verdicts.values()
    return follow(last, "value") == "yes"
