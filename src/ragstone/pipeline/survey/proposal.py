"""An entrypoint that `init` proposes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

QUESTION_NAMES = (
    "question",
    "query",
    "user_query",
    "user_question",
    "user_input",
    "q",
    "prompt",
    "input",
    "message",
    "text",
)
"""Names of a parameter or request field that takes the question, the surest first."""

ASKING = re.compile(r"ask|answer|quer|question|chat|rag|complet|qa", re.IGNORECASE)
"""What the path of a route says that is for questions."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """`why` is a clause. `settings` are further keys of [system]; `question_field` and `http` are of [system.http].

    `glue` is the source of the module that the entrypoint names, if it is yet to be written. `rank` orders proposals,
    the surest first.
    """

    entrypoint: str
    why: str
    rank: int
    settings: Mapping[str, str] = field(default_factory=dict)
    question_field: str | None = None
    http: Mapping[str, Any] = field(default_factory=dict)
    glue: str | None = None
