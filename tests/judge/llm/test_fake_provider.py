"""The fake provider of the benches replies to requests of every kind, whichever way they carry their schema."""

from __future__ import annotations

from typing import Any

import pytest
from fake_judge import reply_to, schema_of

from ragstone.judge.protocol import Call
from tests.judge.llm.test_hostile_text import EVERYTHING, HARMLESS


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "openai-compatible:llama"])
@pytest.mark.parametrize("task", EVERYTHING)
def test_a_request_of_every_kind_is_replied_to(world: Any, task: str, name: str) -> None:
    world.fake.always = lambda seen: (
        None if "input" in seen.body else reply_to(seen.data, schema_of(seen.body, seen.data))
    )
    judge = world.judge(name)
    world.run(EVERYTHING[task](judge, HARMLESS, Call("q1")))
