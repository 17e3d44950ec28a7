"""Verdicts with a probability, from the log-probabilities of the tokens that a model wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.judge.judgements import Statement
from ragstone.judge.llm.graded import with_probabilities
from ragstone.judge.llm.provider import ChatReply, Stop, Usage
from ragstone.judge.llm.reply_schemas import support_fields
from ragstone.judge.protocol import Call
from ragstone.metrics.metric import expected_share
from ragstone.system.response import Context

VALUES: dict[Any, Any] = {("verdicts", "s1"): {"verdict": "supported"}, ("verdicts", "s2"): {"verdict": "unsupported"}}
SURE = {"supported": 0.9, "unsupported": 0.06, "contradicted": 0.04}


def token(text: str, others: Mapping[str, float] | None = None, chance: float = 1.0) -> dict[str, Any]:
    def one(written: str, p: float) -> dict[str, Any]:
        return {"token": written, "logprob": math.log(p)}

    return {**one(text, chance), "top_logprobs": [one(other, p) for other, p in (others or {}).items()]}


def cut(pieces: Sequence[str | dict[str, Any]]) -> list[dict[str, Any]]:
    return [token(one) if isinstance(one, str) else one for one in pieces]


def chances(tokens: Sequence[object], values: dict[Any, Any] | None = None) -> dict[str, object]:
    reply = ChatReply("", Stop.COMPLETE, Usage(), tokens=tokens)
    graded_values = with_probabilities(VALUES if values is None else values, reply)
    return {path[1]: value.get("probability") for path, value in graded_values.items()}  # type: ignore[attr-defined]


FIRST, SECOND = (
    '{"verdicts":[{"id":"s1","evidence":["c1"],"quote":"a \\"b\\" c","verdict":"',
    '"},{"id":"s2","quote":"","verdict":"',
)
YES, END = token("supported", SURE, 0.9), '"}]}'
HALVES = token("un", {"un": 0.6, "supported": 0.3, "contr": 0.1}, 0.6)
WIDE = token('":"supported"},{', {'":"supported"},{': 0.5, '":"unsupported"},{': 0.25, '": "x': 0.1}, 0.5)
UNS = token("uns", {"uns": 0.8, "supp": 0.2}, 0.8)
START, REST = FIRST.split("a ")
EURO = [{"token": "\\xe2\\x82", "logprob": 0.0}, {"token": "?", "logprob": 0.0}]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (cut([FIRST, YES, SECOND, HALVES, "supported", END]), (0.9, 0.3)),
        (cut([FIRST[:-3], WIDE, SECOND[4:], UNS, 'upported"}]}']), (0.6667, 0.2)),
        ([*cut([START]), *EURO, *cut([REST, YES, SECOND, "unsupported", END])], (0.9, 0.0)),
        (cut([FIRST, token("supported", {"x": 0.5}, 0.5), SECOND, "un", "supported", END]), (1.0, 0.0)),
        (cut([FIRST, token("supported", {"x": 0.51}, 0.49), SECOND, "un", "supported", END]), (None, 0.0)),
        (cut([FIRST, "contradicted", SECOND, "un", "supported", END]), (None, 0.0)),  # not the verdict of the reply
    ],
    ids=[
        *("the token with which a verdict begins", "a token that begins before the verdict and ends behind it"),
        *("pieces of characters in the quote", "alternatives of one half say enough"),
        *("alternatives of less than one half say too little", "another verdict than in the tokens"),
    ],
)
def test_the_probability_is_that_of_the_token_with_which_the_verdict_begins(
    tokens: Sequence[object], expected: tuple[float | None, ...]
) -> None:
    assert tuple(chances(tokens).values()) == expected


BOTH = cut([FIRST, "supported", SECOND, "un", "supported", '"'])


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [None],
        ["supported"],
        cut([FIRST]),
        cut([FIRST, token("supported", {"yes": 0.9}, 0.1), SECOND, token("un", {"yes": 0.9}, 0.1), "supported", '"']),
        [{**one, "logprob": math.nan, "top_logprobs": None} for one in BOTH],
        [{**one, "logprob": "0", "top_logprobs": 7} for one in BOTH],
        cut(['{"verdicts":[{"id":"s1"},{"id":"s2"}]}']),
        cut(['{"verdicts":[{"id":"s1","verdict":"perhaps"},{"id":"s2","verdict":"perhaps"}]}']),
        cut([f'{FIRST}supported{SECOND}unsupported"}},', f'{FIRST}supported{SECOND}unsupported"}}]}}']),  # named twice
    ],
)
def test_what_says_too_little_gives_no_probability(tokens: Sequence[object]) -> None:
    assert chances(tokens) == {"s1": None, "s2": None}


def test_a_probability_that_the_reply_claims_is_left_out() -> None:
    claimed = {path: {**value, "probability": 0.99} for path, value in VALUES.items()}
    assert chances([], claimed) == {"s1": None, "s2": None}
    assert chances(cut([FIRST, YES, SECOND, "un", "supported", END]), claimed) == {"s1": 0.9, "s2": 0.0}
    other_values: dict[Any, Any] = {("answer",): {"kind": "answers"}, ("verdicts", "s1"): "supported"}
    assert with_probabilities(other_values, ChatReply("", Stop.COMPLETE, Usage(), tokens=BOTH)) == other_values


@pytest.mark.parametrize("odd", [10**400, -1, -0.01, 1.01, math.nan, math.inf, True, "1", [1], None])
def test_a_probability_in_the_cache_is_one_or_is_left_out(odd: object) -> None:
    (field,) = support_fields([Statement("s1", "One.")], {})
    plain = {"verdict": "unsupported", "evidence": []}
    assert field.check({**plain, "probability": odd}) == plain
    for chance in (0, 0.1, 1):
        assert field.check({**plain, "probability": chance}) == {**plain, "probability": chance}


@pytest.mark.parametrize(
    "value", [-(10**400), 10**400, math.inf, -math.inf, math.nan, True, False, "0", None, [0.0], 1e308, 5, 0.01, -1e5]
)
def test_a_number_that_can_not_be_a_logarithm_of_a_probability_is_none(value: object) -> None:
    assert chances(cut([FIRST, {**token("supported"), "logprob": value}, SECOND, "un", END]))["s1"] is None
    sure = token("supported", {"un": 0.1}, 0.9)
    sure["top_logprobs"][0]["logprob"] = value
    assert chances(cut([FIRST, sure, SECOND, "un", END]))["s1"] == 1.0


@pytest.mark.parametrize("order", [("id", "quote", "verdict"), ("verdict", "id", "quote"), ("verdict", "quote", "id")])
def test_a_probability_goes_to_the_statement_of_its_own_item(order: Sequence[str]) -> None:
    pieces: list[str | dict[str, Any]] = ['{"verdicts":[']
    for name, chance in (("s1", 0.9), ("s2", 0.6)):
        members: dict[str, list[str | dict[str, Any]]] = {
            "id": [f'"id":"{name}"'],
            "quote": ['"quote":"\\"id\\": \\"s9\\", {\\"verdict\\":\\"unsupported\\"}"'],
            "verdict": ['"verdict":"', token("supported", {"un": 1 - chance}, chance), '"'],
        }
        for at, member in enumerate(order):
            pieces += ["," if at else "{", *members[member]]
        pieces.append("}," if name == "s1" else "}]}")
    values: dict[Any, Any] = {("verdicts", name): {"verdict": "supported"} for name in ("s1", "s2")}
    assert chances(cut(pieces), values) == {"s1": 0.9, "s2": 0.6}


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400) | st.just(-(10**400)),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.sampled_from([FIRST, "supported", "un", '"}', '"', "\\", "{", "", "\udc80"])
TOKEN = ODD | st.fixed_dictionaries(
    {},
    optional={
        "token": TEXT | ODD,
        "logprob": st.floats(-20, 0) | ODD,
        "top_logprobs": st.lists(st.fixed_dictionaries({"token": TEXT, "logprob": ODD}) | ODD, max_size=4) | ODD,
    },
)


@settings(deadline=None)
@given(st.lists(TOKEN, max_size=12))
def test_no_odd_log_probability_raises(tokens: list[object]) -> None:
    for chance in chances(tokens).values():
        assert chance is None or (isinstance(chance, float) and 0.0 <= chance <= 1.0)


@pytest.mark.parametrize("text", ['"\\', '"', "\\", '"id":', '"id":"', '"id":[', '"verdict":"', '"id" '])
def test_no_text_takes_long_to_look_through(text: str) -> None:
    assert chances([token(text * 100_000)]) == {"s1": None, "s2": None}


CONTEXT = Context("The Vell bridge was opened in 1931 by R. Okafor.")
STATEMENTS = tuple(Statement(f"s{number}", f"It is statement {number} on the bridge.") for number in range(1, 5))


def model(world: Any) -> Callable[[Any], web.Response | None]:
    """Finds each statement supported, and says that this is as likely as 0.8 if asked to."""

    def reply(seen: Any) -> web.Response | None:
        if seen.kind != "verdicts":
            return None
        pieces = [token('{"verdicts":[')]
        for at, name in enumerate(seen.asked["verdicts"]):
            start = f'{"," * (at > 0)}{{"id":"{name}","evidence":["c1"],"quote":"opened in 1931","verdict":"'
            pieces += cut([start, token("supported", {"supported": 0.8, "un": 0.2}, 0.8), '"}'])
        pieces.append(token("]}"))
        document = world.fake.completion(seen, "".join(one["token"] for one in pieces))
        if seen.body.get("logprobs"):
            document["choices"][0]["logprobs"] = {"content": pieces, "refusal": None}
        return web.json_response(document)

    return reply


def supports(world: Any, judge: Any, call: Call | None = None) -> Any:
    return world.run(judge.support([CONTEXT], STATEMENTS, call=call or Call("q"))).supports


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "openai-compatible:llama"])
def test_verdicts_have_a_probability_where_the_provider_gives_it(world: Any, name: str, tmp_path: Path) -> None:
    world.fake.always = model(world)
    cache = tmp_path / "judgements.sqlite"
    judge = world.judge(name, cache=cache)
    table = supports(world, judge)
    assert [one.probability for one in table] == [0.8] * 4
    assert expected_share(table, STATEMENTS, "", "").value == pytest.approx(0.8)
    assert all((seen.body["logprobs"], seen.body["top_logprobs"]) == (True, 4) for seen in world.fake.chats)
    world.run(judge.statements("Why?", "Because.", call=Call("q")))
    assert "logprobs" not in world.fake.chats[-1].body
    world.run(judge.close())
    requests = len(world.fake.chats)
    again = world.judge(name, cache=cache)
    assert supports(world, again) == table
    assert len(world.fake.chats) == requests
    assert again.identity == judge.identity


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unsupported parameter: 'top_logprobs' is not supported with this model."),
        (403, "You are not allowed to request logprobs from this model"),
    ],
)
def test_a_model_that_refuses_them_is_asked_without(world: Any, refuse: Any, status: int, message: str) -> None:
    answer = model(world)
    world.fake.always = lambda seen: refuse(status, message)(seen) if "logprobs" in seen.body else answer(seen)
    judge = world.judge()
    assert [(one.verdict, one.probability) for one in supports(world, judge)] == [("supported", None)] * 4
    assert supports(world, judge, Call("other", fresh=True))[0].probability is None
    assert ["logprobs" in seen.body for seen in world.fake.chats] == [True, False, False]
    (note,) = judge.notes
    assert "'logprobs'" in note


def test_a_judge_without_log_probabilities_gives_verdicts_alone(world: Any) -> None:
    assert {one.probability for one in supports(world, world.judge("anthropic:claude-haiku-4-5"))} == {None}
    assert "logprobs" not in world.fake.chats[-1].body
