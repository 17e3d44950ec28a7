"""http(s):// entrypoints, against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.http_service import HttpService, _redirected, _Refused, without_secrets
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


def test_a_header_can_not_be_split(room: Any) -> None:
    room.environ["SERVICE_KEY"] = "a\r\nX-Other: b"
    with pytest.raises(ConfigError, match="printable ASCII"):
        room.ask("http://127.0.0.1:1/", "q", env="SERVICE_KEY", http={"headers": {"Authorization": "${SERVICE_KEY}"}})


def status(code: int, after: str = "") -> Reply:
    return code, {"Retry-After": after} if after else {}, b""


@pytest.mark.parametrize(
    ("replies", "pauses"),
    [
        ([status(503), status(429, "7"), status(0), said("fine")], [0.5, 7.0, 2.0]),
        ([status(408, "86400"), status(425, "inf"), said("fine")], [30.0, 30.0]),
        ([status(500, "nan"), status(502, "-1"), status(504, "9" * 5_000), said("fine")], [0.5, 1.0, 30.0]),
        ([status(503)] * 6, [0.5, 1.0, 2.0, 4.0, 8.0]),
        ([status(404), said("fine")], []),
        ([status(501, "7"), said("fine")], []),
    ],
)
def test_what_may_pass_is_tried_again_with_growing_pauses_and_nothing_else(
    server: Server, replies: list[Reply], pauses: list[float]
) -> None:
    left = iter(replies)
    server.reply = lambda path, body: next(left)
    waits: list[float] = []
    response = asked(server.url, waits, retries=5)
    assert waits == pauses
    assert (response.failure is None) is (len(pauses) < 5 and bool(pauses))


@pytest.mark.parametrize(
    ("code", "location", "says"),
    [
        (301, "/login", "in a way that would drop the question (http://127.0.0.1"),
        (303, "/login", "in a way that would drop the question"),
        (307, "", "in a way that would drop the question"),
        (307, "/", "More than 3 redirects"),
    ],
)
def test_a_redirect_that_leads_nowhere_is_named(room: Any, server: Server, code: int, location: str, says: str) -> None:
    server.reply = lambda path, body: (code, {"Location": location}, b"")
    assert says in failure(room.ask(server.url, "q")[0]).message


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


@pytest.mark.attack(by="network", tries="endless replies, decompression bombs", stopped_by="counted")
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


def test_a_stream_of_events_without_end_is_stopped(room: Any, server: Server) -> None:
    def events(*pieces: bytes) -> Reply:
        return 200, {"Content-Type": "text/event-stream"}, list(pieces)

    server.reply = lambda path, body: events(*[b"data: a\n\n"] * 100)
    assert failure(room.ask(server.url, "?", timeout_s=0.3)[0]).kind == "timeout"
    server.reply = lambda path, body: events(*[b": " + b"x" * 4_000_000 + b"\n\n"] * 3)
    assert "more than 10,000,000 bytes" in failure(room.ask(server.url, "?")[0]).message


@pytest.mark.parametrize(
    ("url", "location", "target"),
    [
        ("http://shop/v1", "/v2", "http://shop/v2"),
        ("http://shop/v1", "https://shop/v1", "https://shop/v1"),
        ("https://shop/v1", "http://shop/v1", None),
        ("http://shop:80/v1", "https://shop/v1", None),
        ("http://shop/v1", "https://shop:444/v1", None),
        ("http://shop/v1", "http://shop:81/v1", None),
        ("http://shop/v1", "http://shops/v1", None),
    ],
)
def test_a_redirect_is_followed_on_the_same_host_and_to_https(url: str, location: str, target: str | None) -> None:
    if target is not None:
        assert _redirected(url, 307, location) == target
        return
    with pytest.raises(_Refused) as refused:
        _redirected(url, 307, location)
    assert "redirecting to another host" in refused.value.message


def test_a_redirect_keeps_the_question(room: Any, server: Server) -> None:
    server.reply = lambda path, body: said(body["question"]) if path == "/v2/" else (307, {"Location": "/v2/"}, b"")
    assert room.ask(f"{server.url}/v2", "q")[0].answer == "q"
