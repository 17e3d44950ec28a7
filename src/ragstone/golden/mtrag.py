"""The conversations and tasks of MTRAG, IBM's benchmark of RAG in several turns, as rows of a golden set.

A conversation has `messages` of a speaker; a task is one turn of it, with the messages so far as `input`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ROLES = {"user": "user", "agent": "assistant"}


def read_mtrag(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns of a row of MTRAG in Ragstone's names; `values` itself, if it is none."""
    if _are_spoken(values.get("messages")):
        editor = values.get("editor", values.get("author"))
        turns = [_message(message) | _evidence(message, editor) for message in values["messages"]]
        return {"id": values.get("id", values.get("conversation_id")), "turns": turns}
    if _are_spoken(values.get("input")) and _are_spoken(values.get("targets")):
        *earlier, question = values["input"]
        return {
            "id": values.get("task_id"),
            "group": values.get("conversation_id"),
            "history": [_message(message) for message in earlier],
            "question": question["text"],
            "reference": values["targets"][0]["text"],
            **_kind(values),
            **_evidence(values, None),
        }
    return values


def _are_spoken(messages: object) -> bool:
    if not isinstance(messages, list) or not messages:
        return False
    return all(isinstance(message, dict) and message.keys() >= {"speaker", "text"} for message in messages)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = _ROLES.get(message["speaker"], "tool")
    kind = _kind(message["enrichments"]) if isinstance(message.get("enrichments"), dict) else {}
    return {"role": role, "content": message["text"], **kind}


def _kind(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the annotators say of a question. An underspecified one is to be asked back."""
    answerability = values.get("Answerability", values.get("answerability"))
    words = answerability if isinstance(answerability, list) else [answerability]
    kind: dict[str, Any] = {"tags": values.get("Question Type")}
    if "UNANSWERABLE" in words:
        kind["answerable"] = False
    if "UNDERSPECIFIED" in words:
        kind["expects"] = "clarification"
    return kind


def _evidence(values: Mapping[str, Any], editor: object) -> dict[str, Any]:
    """The passages that the last annotator found relevant, and their ids."""
    contexts = values.get("contexts")
    listed = contexts if isinstance(contexts, list) else []
    relevant = [context for context in listed if isinstance(context, dict) and _is_relevant(context, editor)]
    if not relevant:
        return {}
    ids = [context["document_id"] for context in relevant if "document_id" in context]
    return {"reference_contexts": relevant, "relevant_ids": ids}


def _is_relevant(context: Mapping[str, Any], editor: object) -> bool:
    feedback = context.get("feedback")
    verdicts = feedback.get("relevant") if isinstance(feedback, dict) else None
    if not isinstance(verdicts, dict) or not verdicts:
        return True
    verdict = verdicts.get(editor) or next(iter(verdicts.values()))
    return isinstance(verdict, dict) and verdict.get("value") == "yes"
