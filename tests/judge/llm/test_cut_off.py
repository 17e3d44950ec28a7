"""A reply that was cut off, wherever, gives what the whole reply gives, or a failure: never another score."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from ragstone.judge.judgements import Statement
from ragstone.judge.llm.prompts import USES, VERDICTS, schema_of
from ragstone.judge.llm.provider import Stop
from ragstone.judge.llm.replies import read_reply
from ragstone.judge.llm.reply_schemas import answer_field, attribution_fields, context_fields, support_fields
from ragstone.system.response import Context
from tests.judge.conftest import asked_of, contexts_of

CONTEXTS = [Context(f"Context {rank}. It has two sentences.") for rank in range(1, 13)]
STATEMENTS = [Statement(f"s{at}", f"Statement {at}.") for at in range(1, 13)]
ANSWER = "It opened in 1931, and it was built by many people over a long time. " * 12


def thoughtful(schema: Mapping[str, Any], data: str, name: str = "", group: str = "") -> Any:
    """A model with an opinion of its own on each id, which it does not change when it is asked again."""
    chance = zlib.crc32(name.encode())
    inner = schema.get("properties", {})
    asked = asked_of(data)
    if schema.get("type") == "array" and name in asked:
        ids = [f"r{at}" for at in range(1, 9)] if asked[name] == ["*"] else asked[name]
        return [thoughtful(schema["items"], data, item_id, group=name) for item_id in ids]
    if "kind" in inner:
        return {"kind": "answers", "statements": [f'Claim {at}, "so to say" {{}}.' for at in range(1, 9)]}
    if group:
        verdict = VERDICTS[chance % 3]
        named = contexts_of(data)[:2]
        own: dict[str, Any] = {
            "id": name,
            "text": f"Is this {name}, or is it not?",
            "evidence": [] if verdict == "unsupported" else named,
            "against": [],
            "quote": "" if verdict == "unsupported" else "It has two",
            "verdict": verdict,
            "found_in": named[: chance % 3],
            "use": USES[chance % 2],
            "needed": [1, 2][: chance % 3],
        }
        return {key: own[key] for key in inner}
    if inner:
        return {key: thoughtful(value, data, key) for key, value in inner.items()}
    return 10 if 10 in schema["enum"] else schema["enum"][chance % len(schema["enum"])]


SHOWN = "<<<context c1 0>>>\n<<<context c2 0>>>\n"
FORMS = {
    "statements": ([answer_field(ANSWER)], "x"),
    "support": (
        support_fields(STATEMENTS, {"c1": CONTEXTS[0].text, "c2": CONTEXTS[1].text}),
        f"{SHOWN}Asked for: verdicts: {', '.join(item.id for item in STATEMENTS)}.",
    ),
    "context_use": (
        (*context_fields(["c1", "c2"]), *attribution_fields("", STATEMENTS[:3], ["c1", "c2"])),
        f"{SHOWN}Asked for: contexts: c1, c2; reference_statements: s1, s2, s3.",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("stop", Stop)
def test_at_every_single_character_the_values_are_those_of_the_whole_reply(
    form: str, indent: int | None, stop: Stop
) -> None:
    fields, data = FORMS[form]
    text = json.dumps(thoughtful(schema_of(form), data), indent=indent)
    whole = read_reply(text, Stop.COMPLETE, fields)
    assert len(whole) == len(fields)
    for at in range(len(text)):
        found = read_reply(text[:at], stop, fields)
        assert not found


def test_a_whole_object_in_a_reply_that_was_cut_off_was_closed_by_a_gateway(world: Any) -> None:
    repaired = json.dumps({"answer": {"kind": "answers", "statements": ["Claim 1."]}})
    reply = world.fake.completion
    world.fake.fill = thoughtful
    world.fake.script.append(
        lambda seen: web.json_response(json.loads(json.dumps(reply(seen, repaired)).replace('"stop"', '"length"')))
    )
    assert len(world.ask(answer=ANSWER).statements) == 8


def test_the_room_for_a_reply_grows_with_the_text_and_leaves_some_for_thinking(world: Any) -> None:
    judge = world.judge(context_window=128_000)
    for answer in ("Short.", ANSWER, ANSWER * 10):
        world.ask(judge, answer)
    limits = [seen.body["max_completion_tokens"] for seen in world.fake.chats]
    assert limits[0] > 8_192
    assert limits[1] - limits[0] >= len(ANSWER) // 3
    assert limits[2] - limits[0] >= 10 * len(ANSWER) // 3
