"""The schemas of replies are data: they say what the checks of the replies accept, and what strict modes demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.judge.abilities import ENTITIES_PROMPT_VERSION, Preference
from ragstone.judge.llm.completion import Form
from ragstone.judge.llm.prompts import KINDS, NAMES, OUTSIDE_IDENTITY, USES, VERDICTS, layout_of, load_prompt, schema_of
from ragstone.metrics.registry import select_metrics

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
    for schema in objects(schema_of(task)):
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])


@pytest.mark.parametrize("task", NAMES)
def test_words_to_choose_from_are_those_that_are_accepted(task: str) -> None:
    for schema in objects(schema_of(task)):
        for name, inner in schema["properties"].items():
            if inner["type"] == "string" and "enum" in inner:
                assert tuple(inner["enum"]) == tuple(map(str, WORDS[name]))
            else:
                assert name not in WORDS


@pytest.mark.parametrize("name", NAMES)
def test_the_prompts_that_judge_are_part_of_the_judges_identity_and_of_the_keys_of_their_replies(name: str) -> None:
    layout = layout_of("openai", "gpt-5.4-mini")
    prompt = layout.prompts[name]
    edited = replace(prompt, digest="of version 2")
    changed = replace(layout, prompts={**layout.prompts, name: edited})
    assert (changed.digest() != layout.digest()) is (name not in OUTSIDE_IDENTITY)
    assert Form(edited, ()).digest != Form(prompt, ()).digest


def test_the_version_of_entity_recall_names_that_of_its_prompt() -> None:
    (metric,) = select_metrics(["context_entity_recall"])
    assert load_prompt("entities").version.endswith(f".{ENTITIES_PROMPT_VERSION}")
    assert metric.info.version.startswith(f"5.{ENTITIES_PROMPT_VERSION}-")
