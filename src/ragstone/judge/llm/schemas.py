"""One JSON schema per task, the same for every sample: providers put it before the prompt and cache both as one prefix.

A schema describes an item, not which items there must be: a group is an array of items with ids, and the ids are
checked when the reply is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ragstone.judge.abilities import Preference
from ragstone.judge.drafting import Match
from ragstone.judge.judgements import Verdict
from ragstone.judge.llm import prompts

VERDICTS = tuple(str(verdict) for verdict in Verdict)
USES = ("useful", "not_useful")
KINDS = ("answers", "abstains")
YES_OR_NO = ("yes", "no")
DIFFICULTIES = ("easy", "medium", "hard")
MATCHES = tuple(str(match) for match in Match)

Schema = Mapping[str, object]

_TEXT: Schema = {"type": "string"}


def _closed(properties: Mapping[str, object]) -> dict[str, object]:
    """An object with exactly `properties`, all required, as strict modes demand."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _one_of(words: tuple[str, ...]) -> Schema:
    return {"type": "string", "enum": list(words)}


def _group(**properties: object) -> Schema:
    return _array(_closed({"id": _TEXT, **properties}))


_VERDICT = _one_of(VERDICTS)
_USES = _group(use=_one_of(USES))

_SCHEMAS: Mapping[str, Mapping[str, object]] = {
    "statements": {"answer": _closed({"kind": _one_of(KINDS), "statements": _array(_TEXT)})},
    "support": {"verdicts": _group(evidence=_array(_TEXT), quote=_TEXT, verdict=_VERDICT)},
    "context_use": {"contexts": _USES, "reference_statements": _group(text=_TEXT, found_in=_array(_TEXT))},
    "context_use_no_reference": {"contexts": _USES},
    "reverse_questions": {"questions": _group(text=_TEXT)},
    "reference_match": {
        "answer_verdicts": _group(verdict=_VERDICT),
        "reference_statements": _group(text=_TEXT, verdict=_VERDICT),
    },
    "context_relevance": {"contexts": _group(needed=_array({"type": "integer"}))},
    "direct_score": {"grade": _closed({"value": {"type": "integer", "enum": list(range(11))}})},
    "direct_preference": {"better": _closed({"which": _one_of(tuple(str(each) for each in Preference))})},
}
_CLOSED = {task: _closed(properties) for task, properties in _SCHEMAS.items()}

MAX_LEVELS = 10
"""Of a rubric. One schema for all rubrics: how many levels a rubric has is checked when the reply is read."""
_RUBRIC_REPLY = _closed(
    {"grade": _closed({"reason": _TEXT, "level": {"type": "integer", "enum": list(range(1, MAX_LEVELS + 1))}})}
)


_YES = _one_of(YES_OR_NO)
_REWORDED = _closed({"draft": _closed({"possible": _YES, "question": _TEXT})})
_ATTEMPT = _closed({"attempt": _closed({"answerable": _YES, "answer": _TEXT})})
_QUESTION_REPLY = _closed({"question": _closed({"text": _TEXT})})

_APART = {
    prompts.RUBRIC: _RUBRIC_REPLY,
    prompts.ENTITIES: _closed({"entities": _closed({"names": _array(_TEXT)})}),
    prompts.STANDALONE: _QUESTION_REPLY,
    prompts.PARAPHRASE: _QUESTION_REPLY,
    prompts.TRANSLATION: _QUESTION_REPLY,
    prompts.DRAFT_QUESTION: _closed(
        {
            "draft": _closed(
                {
                    "possible": _YES,
                    "question": _TEXT,
                    "answer": _TEXT,
                    "quotes": _array(_closed({"passage": _TEXT, "quote": _TEXT})),
                    "difficulty": _one_of(DIFFICULTIES),
                }
            )
        }
    ),
    prompts.DRAFT_UNANSWERABLE: _REWORDED,
    prompts.DRAFT_PARAPHRASE: _REWORDED,
    prompts.DRAFT_ATTEMPT: _ATTEMPT,
    prompts.DRAFT_RECALL: _ATTEMPT,
    prompts.DRAFT_INSPECTION: _closed(
        {
            "checks": _group(reason=_TEXT, standalone=_YES, sensible=_YES, trivial=_YES),
            "answers": _group(match=_one_of(MATCHES)),
        }
    ),
    prompts.DRAFT_WORSE: _closed({"worse": _closed({"ungrounded": _TEXT, "poor": _TEXT})}),
}


def schema_of(task: str) -> dict[str, object]:
    """The schema of the replies to the prompt called `task`."""
    return _APART[task] if task in _APART else _CLOSED[task]


def all_schemas() -> str:
    """All schemas that the judge's identity covers, as text to hash."""
    return json.dumps(_CLOSED)
