"""A judge whose server sends too much, or no HTTP: a named failure of the judge, whatever it sent."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from ragstone.judge.llm import transport
from ragstone.judge.protocol import JudgementFailed
from tests.hostile_http import REPLIES, hostile_server

TOO_MUCH = "has more than 4,194,304 bytes"
NAMED = {
    "gzip bomb": "packed as 'gzip', which was not requested",
    "bomb in a bomb": "packed as 'gzip, gzip', which was not requested",
    "unknown packing": "packed as 'br', which was not requested",
    "endless body": TOO_MUCH,
    "endless chunks": TOO_MUCH,
    "endless error": TOO_MUCH,
    "too many headers": "is not HTTP: Too many headers",
    "a long header": "is not HTTP",
    "endless headers": "is not HTTP: Too many headers",
    "endless trailers": "broke off",
    "an endless line": "no reply within 1 s",
    "endless interim replies": "no reply within 1 s",
    "cut off": "broke off",
    "no HTTP": "is not HTTP: Bad status line",
    "brackets": "is not a JSON object",
    "digits": "is not a JSON object",
}


assert {kind for kind in REPLIES if not kind.startswith("redirect")} == NAMED.keys()


@pytest.mark.heavy
@pytest.mark.parametrize("kind", NAMED)
def test_what_a_hostile_server_sends_is_a_named_failure_of_the_judge(world: Any, kind: str) -> None:
    timeout_s = 1.0 if "within" in NAMED[kind] else 30.0
    with hostile_server(kind) as port:
        url = f"http://127.0.0.1:{port}/v1"
        judge = world.judge("openai-compatible:m", base_url=url, timeout_s=timeout_s)
        with pytest.raises(JudgementFailed) as failed:
            world.ask(judge)
    assert NAMED[kind] in failed.value.reason


@pytest.mark.parametrize("kind", ["gzip bomb", "endless body", "too many headers", "endless trailers"])
def test_the_same_of_anthropic(world: Any, kind: str) -> None:
    with hostile_server(kind) as port:
        judge = world.judge("anthropic:claude-haiku-4-5", base_url=f"http://127.0.0.1:{port}")
        with pytest.raises(JudgementFailed) as failed:
            world.ask(judge)
    assert NAMED[kind] in failed.value.reason


def test_a_reply_of_exactly_the_limit_is_read(world: Any) -> None:
    def padded(seen: Any) -> web.Response:
        body = web.json_response(world.fake.completion(seen)).body
        assert isinstance(body, bytes)
        return web.Response(body=body.ljust(transport.MAX_REPLY_BYTES), content_type="application/json")

    world.fake.always = padded
    assert world.ask().statements
