"""A reply that was cut off, wherever, gives what the whole reply gives, or a failure: never another score."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import Statement
from ragstone.judge.llm.prompts import USES, VERDICTS, schema_of
from ragstone.judge.llm.provider import Stop
from ragstone.judge.llm.replies import read_reply
from ragstone.judge.llm.reply_schemas import answer_field, attribution_fields, context_fields, support_fields
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.metrics.faithfulness import Faithfulness
from ragstone.metrics.score import Scored
from ragstone.system.response import Context, Response
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


Judging = Callable[[Any], Any]
CALL = Call("q1")
JUDGEMENTS: dict[str, Judging] = {
    "statements": lambda judge: judge.statements("When?", ANSWER, call=CALL),
    "support": lambda judge: judge.support(CONTEXTS, STATEMENTS, call=CALL),
    "context_use": lambda judge: judge.context_use("When?", ANSWER, "In 1931.", CONTEXTS, call=CALL),
    "context_use_no_reference": lambda judge: judge.context_use("When?", None, ANSWER, CONTEXTS, call=CALL),
    "reverse_questions": lambda judge: judge.reverse_questions("When?", ANSWER, n=3, call=CALL),
    "reference_match": lambda judge: judge.reference_match("When?", ANSWER, STATEMENTS, ANSWER, call=CALL),
    "context_relevance": lambda judge: judge.context_relevance("When?", CONTEXTS, call=CALL),
    "direct_score": lambda judge: judge.direct_score("faithfulness", "When?", ANSWER, ["One."], call=CALL),
    "direct_preference": lambda judge: judge.direct_preference(
        "faithfulness", "When?", ("One.", ["1"]), ("Two.", ["2"]), call=CALL
    ),
}


def cut(world: Any, share: float, *, said: bool) -> Callable[[Any], web.StreamResponse]:
    """Answers with the first `share` of the whole reply; `said`: and with the stop reason of a reply cut off."""

    def answer(seen: Any) -> web.StreamResponse:
        text = world.fake.text(seen)
        text = text[: int(share * len(text))]
        if seen.path.endswith("/messages"):
            reply = world.fake.message(seen, text)
            reply["stop_reason"] = "max_tokens" if said else "end_turn"
        else:
            reply = world.fake.completion(seen, text)
            reply["choices"][0]["finish_reason"] = "length" if said else "stop"
        return web.json_response(reply)

    return answer


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"])
@pytest.mark.parametrize("kind", JUDGEMENTS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 0.9999), again=st.none() | st.floats(0, 0.9999), said=st.booleans())
def test_a_reply_cut_anywhere_gives_the_whole_reply_s_judgement_or_a_failure(
    world: Any, kind: str, name: str, share: float, again: float | None, said: bool
) -> None:
    world.fake.fill = thoughtful
    world.fake.script.clear()
    known: dict[str, Any] = world.__dict__.setdefault("whole", {})
    whole = known.setdefault(kind, None) or world.run(JUDGEMENTS[kind](world.judge(name)))
    known[kind] = whole
    world.fake.script.append(cut(world, share, said=said))
    if again is not None:
        world.fake.script.append(cut(world, again, said=said))

    try:
        found = world.run(JUDGEMENTS[kind](world.judge(name)))
    except JudgementFailed:
        if again is None:
            raise
        return
    assert found == whole


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
    some = 0
    for at in range(len(text)):
        found = read_reply(text[:at], stop, fields)
        assert found.items() <= whole.items()
        some += bool(found)
    assert not some


def test_half_a_list_of_statements_is_not_the_list(world: Any) -> None:
    """Its first 29 of 60 statements are all supported, and the rest is not: the score is one half, not one."""
    claims = [f"Claim number {at} of this answer." for at in range(1, 61)]
    listed = json.dumps({"answer": {"kind": "answers", "statements": claims}})
    half = listed[: listed.index(claims[29]) + 4]

    def fill(_schema: Mapping[str, Any], data: str) -> Any:
        yes = {"evidence": ["c1"], "quote": "One.", "verdict": "supported"}
        no = {"evidence": [], "quote": "", "verdict": "unsupported"}
        ids = asked_of(data)["verdicts"]
        return {"verdicts": [{"id": name, **(yes if int(name[1:]) <= 30 else no)} for name in ids]}

    asked: list[Any] = []

    def answer(seen: Any) -> Any:
        if seen.kind != "answer":
            return None
        reply = world.fake.completion(seen, listed if asked else half)
        reply["choices"][0]["finish_reason"] = "stop" if asked else "length"
        asked.append(seen)
        return web.json_response(reply)

    world.fake.fill, world.fake.always = fill, answer
    sample, response = Sample("q1", "What?"), Response("q1", " ".join(claims), (Context("One."),))
    metric = Faithfulness()
    judgements = world.run(collect_judgements(world.judge(), sample, response, metric.needs(sample), CALL))

    assert metric.score(sample, response, judgements) == Scored(0.5)


def test_a_whole_object_in_a_reply_that_was_cut_off_was_closed_by_somebody_else(world: Any) -> None:
    """Gateways repair the JSON of a cut-off reply."""
    repaired = json.dumps({"answer": {"kind": "answers", "statements": ["Claim 1."]}})
    world.fake.fill = thoughtful
    world.fake.script.append(lambda seen: web.json_response(closed_off(world.fake.completion(seen, repaired))))
    found = world.run(JUDGEMENTS["statements"](world.judge("openai-compatible:llama")))
    assert len(found.statements) == 8


def closed_off(reply: dict[str, Any]) -> dict[str, Any]:
    reply["choices"][0]["finish_reason"] = "length"
    return reply


@pytest.mark.parametrize("reason", ["length", "max_tokens", "model_length", "MAX_TOKENS"])
def test_every_word_for_a_reply_cut_off_is_known(world: Any, reason: str) -> None:
    world.fake.finish = reason
    with pytest.raises(JudgementFailed, match="cut off at its length limit"):
        world.run(JUDGEMENTS["statements"](world.judge("openai-compatible:llama")))


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5", "openai-compatible:llama"])
def test_the_room_for_a_reply_grows_with_the_text_and_leaves_some_for_thinking(world: Any, name: str) -> None:
    world.fake.usage = {"prompt_tokens": 9_000}
    judge = world.judge(name, context_window=128_000)
    for answer in ("Short.", ANSWER, ANSWER * 10):
        world.run(judge.statements("When?", answer, call=CALL))
    limits = [seen.body.get("max_completion_tokens") or seen.body["max_tokens"] for seen in world.fake.chats]
    assert limits[0] > 8_192
    assert limits[1] - limits[0] >= len(ANSWER) // 3
    assert limits[2] - limits[0] >= 10 * len(ANSWER) // 3


def test_a_small_window_keeps_most_of_its_room_for_texts(world: Any) -> None:
    world.fake.usage = {"prompt_tokens": 9_000}
    judge = world.judge("openai-compatible:llama", context_window=8_192)
    assert world.run(judge.statements("When?", ANSWER, call=CALL)).statements
    for seen in world.fake.chats:
        assert seen.body["max_tokens"] + sum(len(message["content"]) for message in seen.body["messages"]) // 4 < 8_192
