"""http(s):// entrypoints, against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.http_service import HttpService, without_secrets
from ragstone.system.response import Context, Response
from tests.hostile_http import REPLIES, hostile_server
from tests.system.service import Reply, Server, failure, said

pytestmark = pytest.mark.usefixtures("no_proxy")
Kinds = Callable[[list[Response]], list[str]]


def test_a_question_is_posted_with_its_id(room: Any, server: Server) -> None:
    server.reply = lambda path, body: said({"answer": body["question"].upper(), "contexts": [{"text": "c", "id": 1}]})
    (response,) = room.ask(f"{server.url}/ask?v=1", "what? \ud800 é")
    assert response.answer == "WHAT? \ufffd É"
    assert response.contexts == (Context("c", "1"),)
    assert response.latency_s is not None
    path, headers, body = server.seen[0]
    assert path == "/ask?v=1"
    assert body == {"id": "s0", "question": "what? \ud800 é"}
    assert headers["content-type"] == "application/json"


def test_request_and_reply_fields_are_configurable(room: Any, server: Server) -> None:
    server.reply = lambda path, body: said(
        {
            "answer": "not this",
            "choices": [{"message": {"content": body["input"]["query"]}}],
            "hits": [{"source": {"text": "a"}}, {"source": {"text": "b"}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        }
    )
    fields = {"answer_field": "choices.0.message.content", "contexts_field": "hits.*.source"}
    http = {"question_field": "input.query", "body": {"top_k": 5, "input": {"lang": "en"}}}
    (response,) = room.ask(server.url, "q", http=http, **fields)
    assert response.answer == "q"
    assert response.contexts == (Context("a"), Context("b"))
    assert response.usage is not None
    assert server.seen[0][2] == {"id": "s0", "top_k": 5, "input": {"lang": "en", "query": "q"}}


def test_a_field_that_is_not_in_the_reply_is_named(room: Any, server: Server) -> None:
    (response,) = room.ask(server.url, "q", answer_field="data.answer")
    assert "answer_field 'data.answer'" in failure(response).message
    assert "'fine'" in failure(response).message


def test_contexts_that_are_null_are_none_at_all(room: Any, server: Server) -> None:
    server.reply = lambda path, body: said({"answer": "a", "found": {"passages": None}})
    (response,) = room.ask(server.url, "q", contexts_field="found.passages")
    assert (response.failure, response.contexts) == (None, ())


def test_headers_take_their_secrets_from_the_environment(room: Any, server: Server) -> None:
    room.environ["SERVICE_KEY"] = "s3cret"
    room.ask(server.url, "q", env="SERVICE_KEY", http={"headers": {"Authorization": "Bearer ${SERVICE_KEY}"}})
    assert server.seen[0][1]["authorization"] == "Bearer s3cret"


def test_a_header_can_not_be_split(room: Any, server: Server) -> None:
    room.environ["SERVICE_KEY"] = "a\r\nX-Other: b"
    with pytest.raises(ConfigError, match="printable ASCII"):
        room.ask(server.url, "q", env="SERVICE_KEY", http={"headers": {"Authorization": "${SERVICE_KEY}"}})


def test_each_way_to_fail_is_named_and_costs_its_sample_only(room: Any, server: Server, kinds: Kinds) -> None:
    replies: dict[str, Reply] = {
        "a": said({"answer": "fine"}),
        "503": (503, {}, b"try later " + b"x" * 5_000),
        "404": (404, {}, b""),
        "reset": (0, {}, b""),
        "text": (200, {}, b"plain text"),
        "invalid": (200, {}, b"\xff\xfe{"),
        "string": said("just a string"),
        "number": said(7),
        "huge": said("x" * 10_000_100),
        "bomb": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"0" * 30_000_000)),
        "broken gzip": (200, {"Content-Encoding": "gzip"}, b"not gzip"),
        "b": said({"answer": "fine"}),
    }

    server.reply = lambda path, body: replies[body["question"]]
    responses = room.ask(server.url, *replies)
    assert dict(zip(replies, kinds(responses), strict=True)) == {
        "a": "answered",
        "503": "http",
        "404": "http",
        "reset": "http",
        "text": "bad_return",
        "invalid": "bad_return",
        "string": "answered",
        "number": "bad_return",
        "huge": "bad_return",
        "bomb": "bad_return",
        "broken gzip": "http",
        "b": "answered",
    }
    unavailable = failure(responses[1])
    assert unavailable.message == "Answered 503 Service Unavailable"
    assert len(unavailable.detail or "") == 1_000
    assert "'plain text'" in failure(responses[4]).message
    assert "10,000,000 bytes" in failure(responses[9]).message


NAMED = {
    "gzip bomb": "more than 10,000,000 bytes",
    "deflate bomb": "more than 10,000,000 bytes",
    "bare deflate bomb": "more than 10,000,000 bytes",
    "bomb in a bomb": "packed as 'gzip, gzip', which was not requested",
    "unknown packing": "packed as 'br', which was not requested",
    "no gzip": "DecodingError",
    "endless body": "more than 10,000,000 bytes",
    "endless chunks": "more than 10,000,000 bytes",
    "endless error": "more than 10,000,000 bytes",
    "too many headers": "Receive buffer too long",
    "a long header": "Receive buffer too long",
    "endless headers": "Receive buffer too long",
    "endless trailers": "Receive buffer too long",
    "an endless line": "Receive buffer too long",
    "endless interim replies": "No answer within 2 s",
    "cut off": "RemoteProtocolError",
    "no HTTP": "RemoteProtocolError",
    "brackets": "which is not JSON",
    "digits": "which is not JSON",
    "redirect to half an address": "redirecting to no address: 'http://[::1' (str) (Invalid IPv6 URL)",
    "redirect to no port": "redirecting to no address",
}


def test_every_kind_of_hostile_reply_is_tried() -> None:
    assert REPLIES.keys() == NAMED.keys()


@pytest.mark.attack(
    by="network",
    tries="a server that sends without end, or a decompression bomb",
    stopped_by="counted on the wire and while decompressing",
)
@pytest.mark.heavy
@pytest.mark.parametrize("kind", NAMED)
def test_what_a_hostile_server_sends_is_a_named_failure_of_the_system(room: Any, kind: str) -> None:
    with hostile_server(kind) as port:
        (response,) = room.ask(f"http://127.0.0.1:{port}/", "q", timeout_s=2 if "within" in NAMED[kind] else 30)
    assert NAMED[kind] in failure(response).message


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "Identity"])
def test_an_ordinary_packed_answer_is_read(room: Any, server: Server, encoding: str) -> None:
    packers: dict[str, Callable[[bytes], bytes]]
    packers = {"gzip": gzip.compress, "deflate": zlib.compress, "Identity": bytes}
    server.reply = lambda path, body: (
        200,
        {"Content-Encoding": encoding},
        packers[encoding](b'{"answer": "' + b"fine " * 50_000 + b'"}'),
    )
    (response,) = room.ask(server.url, "q")
    assert response.answer == "fine " * 50_000
    assert server.seen[0][1]["accept-encoding"] == "gzip, deflate"


def asked(url: str, waits: list[float], *, retries: int) -> Response:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def scenario() -> Response:
        service = HttpService(url, SystemSettings(retries=retries), sleep=sleep)
        await service.start()
        try:
            return await service.ask(Sample("a", "q"))
        finally:
            await service.close()

    return asyncio.run(scenario())


def test_what_may_pass_is_tried_again_with_growing_pauses(server: Server) -> None:
    answers = iter([(503, {}, b""), (429, {"Retry-After": "7"}, b""), (0, {}, b""), said("fine")])
    server.reply = lambda path, body: next(answers)
    waits: list[float] = []
    assert asked(server.url, waits, retries=5).answer == "fine"
    assert waits == [0.5, 7.0, 2.0]


@pytest.mark.parametrize(
    ("after", "pauses"),
    [
        ("86400", [30.0, 30.0]),
        ("inf", [30.0, 30.0]),
        ("nan", [0.5, 1.0]),
        ("-1", [0.5, 1.0]),
        ("9" * 5_000, [30.0] * 2),
    ],
)
def test_a_server_can_not_make_ragstone_wait_for_ever(server: Server, after: str, pauses: list[float]) -> None:
    server.reply = lambda path, body: (503, {"Retry-After": after}, b"")
    waits: list[float] = []
    assert asked(server.url, waits, retries=2).failure is not None
    assert waits == pauses
    assert len(server.seen) == 3


@pytest.mark.parametrize("status", [400, 404])
def test_a_refusal_is_not_tried_again(server: Server, status: int) -> None:
    server.reply = lambda path, body: (status, {}, b"no")
    waits: list[float] = []
    assert str(status) in failure(asked(server.url, waits, retries=3)).message
    assert waits == []


def test_a_redirect_on_the_same_host_keeps_the_question(room: Any, server: Server) -> None:
    server.reply = lambda path, body: said(body["question"]) if path == "/v2/" else (307, {"Location": "/v2/"}, b"")
    assert room.ask(f"{server.url}/v2", "q")[0].answer == "q"


def test_a_redirect_to_another_host_gets_neither_question_nor_key(room: Any, server: Server) -> None:
    other = Server()
    try:
        for location in (f"http://localhost:{other.port}/?token=abc", other.url, f"//evil@127.0.0.1:{other.port}"):
            server.reply = lambda path, body, to=location: (308, {"Location": to}, b"")  # type: ignore[misc]
            (response,) = room.ask(server.url, "q", http={"headers": {"Authorization": "Bearer k"}})
            assert "redirecting to another host" in failure(response).message
            assert "abc" not in failure(response).message
        assert other.seen == []
    finally:
        other.stop()


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_drop_the_question_is_named(room: Any, server: Server, status: int) -> None:
    server.reply = lambda path, body: (status, {"Location": "/login"}, b"")
    assert "/login" in failure(room.ask(server.url, "q")[0]).message


def test_redirects_in_a_circle_end(room: Any, server: Server) -> None:
    server.reply = lambda path, body: (307, {"Location": path}, b"")
    assert "More than 3 redirects" in failure(room.ask(server.url, "q")[0]).message


def test_a_refused_connection_is_said_before_any_question(room: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SystemUnderTestError, match=f"no connection to 127.0.0.1:{port}"):
        room.ask(f"http://127.0.0.1:{port}/ask", "q", startup_timeout_s=0.3)


def test_a_service_that_is_still_starting_is_waited_for(room: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        threading.Timer(0.3, listener.listen).start()
        (response,) = room.ask(f"http://127.0.0.1:{listener.getsockname()[1]}", "q", timeout_s=0.2)
    assert failure(response).kind.value == "timeout"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pw@host:8080/ask?key=abc&v=1#frag", "https://host:8080/ask?key=***&v=***"),
        ("http://host/ask", "http://host/ask"),
        ("http://[::1]:80/ask?flag", "http://[::1]:80/ask?flag=***"),
    ],
)
def test_the_shown_address_holds_no_secret(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
    service = HttpService(url, SystemSettings(), headers={"Authorization": "s3cret"})
    assert service.entrypoint == shown
    assert "s3cret" not in repr(service)


# -- streams of events -------------------------------------------------------------------------------------------------


def events(*pieces: str) -> Reply:
    return 200, {"Content-Type": "text/event-stream; charset=utf-8"}, [piece.encode() for piece in pieces]


def test_a_stream_of_events_is_one_answer_and_its_first_text_is_timed(room: Any, server: Server) -> None:
    server.reply = lambda path, body: events(
        'data: {"contexts": [{"id": "c1", "text": "the rules"}]}\n\n',
        ': keep alive\n\nevent: token\ndata: "30 "\n\n',
        'data: {"type": "ping"}\n\ndata: {"answer": "days."}\r\n\r\n',
        "data: [DONE]\n\ndata: ignored\n\n",
    )
    (response,) = room.ask(server.url, "how long?")
    assert response.answer == "30 days."
    assert response.contexts == (Context("the rules", "c1"),)
    assert 0.02 < response.first_text_s < response.latency_s
    assert "text/event-stream" in server.seen[0][1]["accept"]


def test_events_may_hold_plain_text_or_fields_that_are_named(room: Any, server: Server) -> None:
    server.reply = lambda path, body: events("data: 30\n\n", "data:  days.\ndata:\n\n")
    assert room.ask(server.url, "?")[0].answer == "30 days.\n"
    named = [{"delta": {"t": "30 "}}, {"found": [{"body": "rules"}]}, {"delta": {"t": "days."}}, {"other": 1}]
    server.reply = lambda path, body: events(*(f"data: {json.dumps(event)}\n\n" for event in named))
    (response,) = room.ask(server.url, "?", answer_field="delta.t", contexts_field="found.*.body")
    assert (response.answer, [context.text for context in response.contexts]) == ("30 days.", ["rules"])


@pytest.mark.parametrize(
    ("pieces", "kind", "says"),
    [
        (["data: [DONE]\n\n"], "bad_return", "ended without text"),
        (['data: {"answer": "30 "}\n\n', "event: error\ndata: out of memory\n\n"], "raised", "out of memory"),
        ([f"data: {'x' * 600_000}\n\n"] * 2, "bad_return", "more than 1,000,000 characters"),
        (['data: {"answer": "a", "contexts": 5}\n\n'], "bad_return", "it is not a list"),
    ],
)
def test_a_stream_of_events_that_gives_no_answer_fails_its_sample(
    room: Any, server: Server, pieces: list[str], kind: str, says: str
) -> None:
    server.reply = lambda path, body: events(*pieces)
    found = failure(room.ask(server.url, "?")[0])
    assert found.kind == kind
    assert says in found.message


def test_a_stream_of_events_without_end_is_stopped(room: Any, server: Server) -> None:
    server.reply = lambda path, body: events(*(["data: a\n\n"] * 100))
    assert failure(room.ask(server.url, "?", timeout_s=0.3)[0]).kind == "timeout"
    server.reply = lambda path, body: events(*([f": {'x' * 4_000_000}\n\n"] * 3))
    assert "more than 10,000,000 bytes" in failure(room.ask(server.url, "?")[0]).message
