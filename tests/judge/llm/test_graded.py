"""Verdicts with a probability, from the log-probabilities of the tokens that a model wrote."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ragstone.judge.judgements import Statement
from ragstone.judge.llm.graded import with_probabilities
from ragstone.judge.llm.provider import ChatReply, Stop, Usage
from ragstone.judge.protocol import Call
from ragstone.metrics.metric import expected_share
from ragstone.system.response import Context

VALUES: Mapping[Any, Any] = {
    ("verdicts", "s1"): {"verdict": "supported"},
    ("verdicts", "s2"): {"verdict": "unsupported"},
}
SURE = {"supported": 0.9, "unsupported": 0.06, "contradicted": 0.04}


def token(text: str, others: Mapping[str, float] | None = None, chance: float = 1.0) -> dict[str, Any]:
    def one(written: str, p: float) -> dict[str, Any]:
        return {"token": written, "logprob": math.log(p), "bytes": list(written.encode())}

    return {**one(text, chance), "top_logprobs": [one(other, p) for other, p in (others or {}).items()]}


def cut(pieces: Sequence[str | dict[str, Any]]) -> list[dict[str, Any]]:
    return [token(one) if isinstance(one, str) else one for one in pieces]


def chances(tokens: Sequence[object], values: Mapping[Any, Any] | None = None) -> dict[str, object]:
    reply = ChatReply("", Stop.COMPLETE, Usage(), tokens=tokens)
    found = with_probabilities(VALUES if values is None else values, reply)
    return {path[1]: value.get("probability") for path, value in found.items()}  # type: ignore[attr-defined]


FIRST, SECOND = (
    '{"verdicts":[{"id":"s1","evidence":["c1"],"quote":"a \\"b\\" c","verdict":"',
    '"},{"id":"s2","quote":"","verdict":"',
)


def test_the_probability_is_that_of_the_token_with_which_the_verdict_begins() -> None:
    halves = token("un", {"un": 0.6, "supported": 0.3, "contr": 0.1}, 0.6)
    tokens = cut([FIRST, token("supported", SURE, 0.9), SECOND, halves, "supported", '"}]}'])
    assert chances(tokens) == {"s1": 0.9, "s2": 0.3}


def test_a_token_may_begin_before_the_verdict_and_end_behind_it() -> None:
    wide = token('":"supported"},{', {'":"supported"},{': 0.5, '":"unsupported"},{': 0.25, '": "x': 0.1}, 0.5)
    tokens = cut([FIRST[:-3], wide, SECOND[4:], token("uns", {"uns": 0.8, "supp": 0.2}, 0.8), 'upported"}]}'])
    assert chances(tokens) == {"s1": 0.6667, "s2": 0.2}


def test_pieces_of_characters_are_put_together_by_their_bytes() -> None:
    quoted = [
        {"token": "\\xe2\\x82", "logprob": 0.0, "bytes": [0xE2, 0x82]},
        {"token": "?", "logprob": 0.0, "bytes": [0xAC]},
    ]
    start, end = FIRST.split("a ")
    tokens = [*cut([start]), *quoted, *cut([end, token("supported", SURE, 0.9), SECOND, "unsupported", '"}]}'])]
    assert chances(tokens) == {"s1": 0.9, "s2": 0.0}


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
    tokens = cut([FIRST, token("supported", SURE, 0.9), SECOND, "un", "supported", '"}]}'])
    assert chances(tokens, claimed) == {"s1": 0.9, "s2": 0.0}


def test_a_verdict_that_is_not_the_one_in_the_tokens_gets_no_probability() -> None:
    tokens = cut([FIRST, "contradicted", SECOND, "un", "supported", '"}]}'])
    assert chances(tokens) == {"s1": None, "s2": 0.0}


# -- through the SDK ---------------------------------------------------------------------------------------------------

CONTEXT = Context("The Vell bridge was opened in 1931 by R. Okafor.")
STATEMENTS = tuple(Statement(f"s{number}", f"It is statement {number} on the bridge.") for number in range(1, 5))


def model(world: Any, draw: Callable[[], float], chance: float) -> Callable[[Any], web.Response | None]:
    """Finds each statement supported if `draw` gives less than `chance`, and says how likely that was if asked to."""

    def reply(seen: Any) -> web.Response | None:
        if seen.kind != "verdicts":
            return None
        pieces: list[dict[str, Any]] = [token('{"verdicts":[')]
        for at, name in enumerate(seen.asked["verdicts"]):
            supported = draw() < chance
            evidence = '["c1"]' if supported else "[]"
            quote = "opened in 1931" if supported else ""
            others = {"supported": chance, "un": 1.0 - chance}
            first = token("supported", others, chance) if supported else token("un", others, 1.0 - chance)
            pieces += cut(
                [f'{"," * (at > 0)}{{"id":"{name}","evidence":{evidence},"quote":"{quote}","verdict":"', first]
            )
            pieces += cut([*([] if supported else ["supported"]), '"}'])
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
    world.fake.always = model(world, lambda: 0.0, 0.8)
    cache = tmp_path / "judgements.sqlite"
    judge = world.judge(name, cache=cache)
    found = supports(world, judge)
    assert [one.probability for one in found] == [0.8] * 4
    assert expected_share(found, STATEMENTS, "", "").value == pytest.approx(0.8)
    assert all((seen.body["logprobs"], seen.body["top_logprobs"]) == (True, 4) for seen in world.fake.chats)
    world.run(judge.statements("Why?", "Because.", call=Call("q")))
    assert "logprobs" not in world.fake.chats[-1].body
    world.run(judge.close())
    asked = len(world.fake.chats)
    again = world.judge(name, cache=cache)
    assert supports(world, again) == found
    assert len(world.fake.chats) == asked
    assert again.identity == judge.identity


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unsupported parameter: 'logprobs' is not supported with this model."),
        (400, "Unsupported parameter: 'top_logprobs' is not supported with this model."),
        (403, "You are not allowed to request logprobs from this model"),
        (422, "extra fields not permitted: logprobs"),
    ],
)
def test_a_model_that_refuses_them_is_asked_without(world: Any, refuse: Any, status: int, message: str) -> None:
    answer = model(world, lambda: 0.0, 0.8)
    world.fake.always = lambda seen: refuse(status, message)(seen) if "logprobs" in seen.body else answer(seen)
    judge = world.judge()
    assert [(one.verdict, one.probability) for one in supports(world, judge)] == [("supported", None)] * 4
    assert supports(world, judge, Call("other", fresh=True))[0].probability is None
    assert ["logprobs" in seen.body for seen in world.fake.chats] == [True, False, False]
    (note,) = judge.notes
    assert "'logprobs'" in note


def test_a_judge_without_log_probabilities_gives_verdicts_alone(world: Any) -> None:
    world.fake.always = model(world, lambda: 0.0, 0.8)
    plain = world.judge(graded="never")
    assert [one.probability for one in supports(world, plain)] == [None] * 4
    assert "logprobs" not in world.fake.chats[-1].body
    assert plain.identity != world.judge().identity
    world.fake.always = None
    assert {one.probability for one in supports(world, world.judge("anthropic:claude-haiku-4-5"))} == {None}
    assert "logprobs" not in world.fake.chats[-1].body


def test_the_expected_share_flips_less_than_the_share_of_verdicts(world: Any) -> None:
    """A model that is unsure draws its verdicts: what it would say on average is the same number each time."""
    seed = random.Random(5)
    world.fake.always = model(world, seed.random, 0.7)
    spread = {}
    for graded in ("auto", "never"):
        judge = world.judge(graded=graded)
        each = [supports(world, judge, Call(f"q{number}", fresh=True)) for number in range(60)]
        shares = [expected_share(found, STATEMENTS, "", "").value for found in each]
        spread[graded] = statistics.stdev(shares)
        assert statistics.mean(shares) == pytest.approx(0.7, abs=0.1)
    assert spread["never"] > 0.15
    assert spread["auto"] < 0.01
