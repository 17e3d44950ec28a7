"""The schemas of replies are data: they say what the checks of the replies accept, and what strict modes demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ragstone.judge.abilities import Preference
from ragstone.judge.llm.prompts import DIFFICULTIES, KINDS, MATCHES, NAMES, USES, VERDICTS, YES_OR_NO, schema_of

WORDS = {
    "kind": KINDS,
    "verdict": VERDICTS,
    "use": USES,
    "which": tuple(Preference),
    "difficulty": DIFFICULTIES,
    "match": MATCHES,
    **dict.fromkeys(("possible", "answerable", "standalone", "sensible", "trivial"), YES_OR_NO),
}


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema, at any depth."""
    if schema.get("type") == "object":
        yield schema
        for inner in schema["properties"].values():
            yield from objects(inner)
    elif schema.get("type") == "array":
        yield from objects(schema["items"])


@pytest.mark.parametrize("task", NAMES)
def test_every_object_is_closed_and_requires_all_that_it_has(task: str) -> None:
    for found in objects(schema_of(task)):
        assert found["additionalProperties"] is False
        assert found["required"] == list(found["properties"])


@pytest.mark.parametrize("task", NAMES)
def test_words_to_choose_from_are_those_that_are_accepted(task: str) -> None:
    for found in objects(schema_of(task)):
        for name, inner in found["properties"].items():
            if inner["type"] == "string" and "enum" in inner:
                assert tuple(inner["enum"]) == tuple(map(str, WORDS[name]))
            else:
                assert name not in WORDS
