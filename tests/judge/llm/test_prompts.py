"""The schemas of replies are data: they say what the checks of the replies accept, and what strict modes demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ragstone.judge.abilities import Preference
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.prompts import (
    APART,
    KINDS,
    NAMES,
    USES,
    VERDICTS,
    layout_of,
    load_prompt,
    schema_of,
)

WORDS = {
    "kind": KINDS,
    "verdict": VERDICTS,
    "use": USES,
    "which": tuple(Preference),
    "difficulty": ("easy", "medium", "hard"),
    "match": ("same", "partly", "different"),
    **dict.fromkeys(("possible", "answerable", "standalone", "sensible", "trivial"), ("yes", "no")),
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


def test_the_versions_of_the_judges_prompts_are_part_of_its_identity() -> None:
    """Also of the key of each prompt's judgements."""
    judging = {name: load_prompt(name) for name in NAMES if name not in APART}
    others = {"statements": "3.3", "quotes": "3.1"}  # those whose replies are as they were, or new
    others |= dict.fromkeys(("direct_score", "direct_preference", "standalone_question"), "3.2")
    assert {name: prompt.version for name, prompt in judging.items()} == {
        name: others.get(name, "3.4") for name in judging
    }
    layout = layout_of("openai", "gpt-5.4-mini")
    for name in judging:
        earlier = {**layout.prompts, name: replace(layout.prompts[name], digest="of version 2")}
        assert replace(layout, prompts=earlier).digest() != layout.digest()
        assert Form(earlier[name], ()).digest != Form(layout.prompts[name], ()).digest
