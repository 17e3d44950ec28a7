"""A reply that was cut off, wherever, gives what the whole reply gives, or a failure: never another score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from ragstone.judge.judgements import Statement
from ragstone.judge.llm.provider import Stop
from ragstone.judge.llm.replies import Field, read_reply
from ragstone.judge.llm.reply_schemas import answer_field, attribution_fields, context_fields, support_fields

CONTEXTS = {"c1": "Context 1. It has two sentences.", "c2": "Context 2."}
STATEMENTS = [Statement(f"s{at}", f"Statement {at}.") for at in range(1, 4)]
ANSWER = "It opened in 1931, and it was built by many people over a long time. " * 12
CLAIMS = {"answer": {"kind": "answers", "statements": [f'Claim {at}, "so to say" {{}}.' for at in range(1, 9)]}}
FOUND = {"evidence": ["c1"], "against": [], "quote": "It has two", "verdict": "supported"}
NOT_FOUND = {"evidence": [], "against": [], "quote": "", "verdict": "unsupported"}
FORMS: dict[str, tuple[Sequence[Field], object]] = {
    "statements": ([answer_field(ANSWER)], CLAIMS),
    "support": (
        support_fields(STATEMENTS, CONTEXTS),
        {"verdicts": [{"id": "s1", **FOUND}, {"id": "s2", **NOT_FOUND}, {"id": "s3", **FOUND}]},
    ),
    "context_use": (
        (*context_fields(["c1", "c2"]), *attribution_fields("", STATEMENTS, ["c1", "c2"])),
        {
            "contexts": [{"id": "c1", "use": "useful"}, {"id": "c2", "use": "not_useful"}],
            "reference_statements": [{"id": one.id, "text": "", "found_in": ["c1"]} for one in STATEMENTS],
        },
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("stop", Stop)
def test_at_every_single_character_the_values_are_those_of_the_whole_reply(
    form: str, indent: int | None, stop: Stop
) -> None:
    fields, reply = FORMS[form]
    text = json.dumps(reply, indent=indent)
    assert len(read_reply(text, Stop.COMPLETE, fields)) == len(fields)
    for at in range(len(text)):
        assert not read_reply(text[:at], stop, fields)


def test_a_whole_object_in_a_reply_that_was_cut_off_was_closed_by_a_gateway(world: Any) -> None:
    repaired = json.dumps({"answer": {"kind": "answers", "statements": ["Claim 1."]}})
    reply = world.fake.completion
    world.fake.fill = lambda *_: CLAIMS
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
