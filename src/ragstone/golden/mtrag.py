"""Tasks of MTRAG, IBM's benchmark of RAG in several turns, as rows of a golden set.

A task is one turn of a conversation, with the messages so far as `input`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class _Model(BaseModel):
    model_config = ConfigDict(defer_build=True)


class _Spoken(_Model):
    speaker: str
    text: str


class _Passage(_Model):
    text: str
    document_id: str | None = None


class _Task(_Model):
    task_id: str
    conversation_id: str | None = None
    input: Annotated[list[_Spoken], Field(min_length=1)]
    targets: Annotated[list[_Spoken], Field(min_length=1)]
    contexts: list[_Passage] = []
    answerability: list[str] = []
    question_type: list[str] = Field([], alias="Question Type")


def read_mtrag(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns of a task of MTRAG in Ragstone's names; `values` itself, if it is
    none."""
    if not {"task_id", "input", "targets"} <= values.keys():
        return values
    try:
        task = _Task.model_validate(values)
    except ValidationError:
        return values
    *earlier, question = task.input
    row = {
        "id": task.task_id,
        "group": task.conversation_id,
        "history": [
            {
                "role": "user" if message.speaker == "user" else "assistant",
                "content": message.text,
            }
            for message in earlier
        ],
        "question": question.text,
        "reference": task.targets[0].text,
        "tags": task.question_type,
        "unanswerable": "UNANSWERABLE" in task.answerability,
        "expects": "clarification" if "UNDERSPECIFIED" in task.answerability else None,
        "reference_contexts": [passage.text for passage in task.contexts],
        "relevant_ids": [
            passage.document_id for passage in task.contexts if passage.document_id
        ],
    }
    return {name: value for name, value in row.items() if value}
