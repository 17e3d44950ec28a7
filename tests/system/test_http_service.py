"""http(s):// entrypoints, against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from typing import Any

import pytest

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Message, Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.http_service import HttpService, without_secrets
from ragstone.system.request import MissingPositionError, with_value_at
from ragstone.system.response import Context, Response
from tests.hostile_http import REPLIES, hostile_server
from tests.system.service import Reply, Server, by_kind, failure, said

pytestmark = pytest.mark.usefixtures("no_proxy")


def test_a_question_is_posted(room: Any, server: Server) -> None:
    server.reply = lambda path, body: said({"answer": body["question"].upper(), "contexts": [{"text": "c", "id": 1}]})
    (response,) = room.ask(f"{server.url}/ask?v=1", "what? \ud800 é")
    assert response.answer == "WHAT? \ufffd É"
    assert response.contexts == (Context("c", "1"),)
    assert response.latency_s is not None
    path, headers, body = server.seen[0]
    assert path == "/ask?v=1"
    assert body == {"question": "what? \ud800 é"}
    assert headers["content-type"] == "application/json"


def test_a_header_can_not_be_split(room: Any) -> None:
    room.environ["SERVICE_KEY"] = "a\r\nX-Other: b"
    with pytest.raises(ConfigError, match="the value of a header can contain only printable ASCII"):
        room.ask("http://127.0.0.1:1/", "q", env="SERVICE_KEY", http={"headers": {"Authorization": "${SERVICE_KEY}"}})
    with pytest.raises(ConfigError, match="the name of a header can contain only letters, digits"):
        room.ask("http://127.0.0.1:1/", "q", http={"headers": {"X Key": "k"}})


@pytest.mark.parametrize(
    ("statuses", "pauses"),
    [
        ([503, 429, 0, 408, 425, 200], [0.5, 1.0, 2.0, 4.0, 8.0]),
        ([500, 502, 504, 200], [0.5, 1.0, 2.0]),
        ([503] * 7, [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]),
        ([404, 200], []),
        ([501, 200], []),
    ],
)
def test_what_may_pass_is_tried_again_with_growing_pauses_and_nothing_else(
    server: Server, statuses: list[int], pauses: list[float]
) -> None:
    left = iter(statuses)
    server.reply = lambda path, body: (next(left), {}, b'"fine"')
    waits: list[float] = []
    response = asked(server.url, waits, retries=6)
    assert waits == pauses
    assert (response.failure is None) is (len(pauses) in (3, 5))


def test_each_way_to_fail_is_named_and_costs_its_sample_only(room: Any, server: Server) -> None:
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
    }

    server.reply = lambda path, body: replies[body["question"]]
    responses = room.ask(server.url, *replies)
    assert by_kind(replies, responses) == {
        "answered": ["a", "string"],
        "http": ["503", "404", "reset", "bomb"],
        "bad_return": ["text", "invalid", "number", "huge"],
    }
    unavailable = failure(responses[1])
    assert unavailable.message == "Answered 503 Service Unavailable"
    assert len(unavailable.detail or "") == 1_000
    assert "'plain text'" in failure(responses[4]).message
    assert "10,000,000 bytes" in failure(responses[8]).message


NAMED = {
    "gzip bomb": "packed as 'gzip', which was not requested",
    "bomb in a bomb": "packed as 'gzip, gzip', which was not requested",
    "unknown packing": "packed as 'br', which was not requested",
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
    "redirect to half an address": "redirecting to 'http://[::1' (str), which is not followed",
    "redirect to no port": "which is not followed",
}


def test_every_kind_of_hostile_reply_is_tried() -> None:
    assert REPLIES.keys() == NAMED.keys()


@pytest.mark.attack(
    by="network", tries="endless replies, decompression bombs", stopped_by="counted, and never unpacked"
)
@pytest.mark.heavy
@pytest.mark.parametrize("kind", NAMED)
def test_what_a_hostile_server_sends_is_a_named_failure_of_the_system(room: Any, kind: str) -> None:
    with hostile_server(kind) as port:
        (response,) = room.ask(f"http://127.0.0.1:{port}/", "q", timeout_s=2 if "within" in NAMED[kind] else 30)
    assert NAMED[kind] in failure(response).message


def test_no_packing_is_asked_for(room: Any, server: Server) -> None:
    server.reply = lambda path, asked: (200, {"Content-Encoding": "Identity"}, b'{"answer": "fine"}')
    (response,) = room.ask(server.url, "q")
    assert response.answer == "fine"
    assert server.seen[0][1]["accept-encoding"] == "identity"


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


@pytest.mark.parametrize("code", [301, 303, 307, 308])
def test_a_redirect_is_named_and_gets_neither_question_nor_key(room: Any, server: Server, code: int) -> None:
    other = Server()
    try:
        for location in ("/login?token=abc", f"{other.url}/?token=abc", "http://[::1"):
            server.reply = lambda path, body, to=location: (code, {"Location": to}, b"")  # type: ignore[misc]
            (response,) = room.ask(server.url, "q", http={"headers": {"Authorization": "Bearer k"}})
            assert "which is not followed" in failure(response).message
            assert "abc" not in failure(response).message
        assert other.seen == []
        assert {path for path, _, _ in server.seen} == {"/"}
    finally:
        other.stop()


@pytest.mark.parametrize("status", [300, 304])
def test_a_status_of_redirects_without_an_address_is_named(room: Any, server: Server, status: int) -> None:
    server.reply = lambda path, body: (status, {}, b"")
    (response,) = room.ask(server.url, "q")
    assert failure(response).message.startswith(f"Answered {status} ")
    assert "redirecting" not in failure(response).message


def test_the_time_limit_for_the_port_is_that_of_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse_then_hang(*_: object) -> None:
        attempts.append(time.monotonic())
        if len(attempts) == 1:
            await asyncio.sleep(0.6)
            raise ConnectionRefusedError
        await asyncio.sleep(60)

    attempts: list[float] = []
    monkeypatch.setattr(asyncio, "open_connection", refuse_then_hang)
    service = HttpService("http://127.0.0.1:1/", SystemSettings(startup_timeout_s=1))
    started = time.monotonic()
    with pytest.raises(SystemUnderTestError, match=r"no connection to 127\.0\.0\.1:1 within 1 s"):
        asyncio.run(service.start())
    assert len(attempts) == 2
    assert time.monotonic() - started < 1.4


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


# -- what a service is sent --------------------------------------------------------------------------------------------

CHAT = {"model": "m", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}]}
PARTS = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": ""}]}]}


@pytest.mark.parametrize("path", ["messages.2.content", "messages.-3.content", "messages.content"])
def test_a_position_that_is_not_there_is_refused_before_anything_is_asked(room: Any, server: Server, path: str) -> None:
    with pytest.raises(MissingPositionError):
        with_value_at(CHAT, path, "q")
    with pytest.raises(ConfigError, match=f"'{path}' can't be set") as caught:
        room.ask(server.url, "q", http={"question_field": path, "body": CHAT})
    assert caught.value.where == "system.http.question_field"
    assert 'body = { messages = [{ role = "user", content = "" }] }' in str(caught.value.hint)
    assert server.seen == []


@pytest.mark.parametrize("body", [CHAT, PARTS], ids=["content", "parts"])
def test_the_earlier_turns_go_before_the_question_in_the_shape_of_its_message(
    room: Any, server: Server, body: dict[str, Any]
) -> None:
    inner = "content" if body is CHAT else "parts.0.text"
    http = {"question_field": f"messages.-1.{inner}", "history_field": "messages", "body": body}
    turns = (Message("user", "Hello?"), Message("assistant", "Yes."))
    room.ask_samples(server.url, Sample("a", "Why?", history=turns), http=http)
    sent = server.seen[0][2]
    assert sent.keys() == body.keys()
    said_by = [(one["role"], one.get("content") or one["parts"][0]["text"]) for one in sent["messages"]]
    assert said_by[-3:] == [("user", "Hello?"), ("assistant", "Yes."), ("user", "Why?")]
    assert len(sent["messages"]) == len(body["messages"]) + 2


@pytest.mark.parametrize(
    ("fields", "path", "found"),
    [
        ({"input": {"lang": "en"}, "k": 3}, "input.query", {"input": {"lang": "en", "query": "q"}, "k": 3}),
        ({"messages": ["a", {"text": ""}]}, "messages.1.text", {"messages": ["a", {"text": "q"}]}),
        ({"messages": ["a", {"text": ""}]}, "messages.-1.text", {"messages": ["a", {"text": "q"}]}),
        ({"by": {"0": 1}}, "by.0", {"by": {"0": "q"}}),
        ({"text": "none"}, "text.inner", {"text": {"inner": "q"}}),
    ],
)
def test_a_value_is_placed_without_changing_what_is_around_it(fields: Any, path: str, found: object) -> None:
    before = json.dumps(fields)
    assert with_value_at(fields, path, "q") == found
    assert json.dumps(fields) == before


def test_a_service_that_refuses_is_quoted_without_what_is_in_its_headers(room: Any, server: Server) -> None:
    room.environ["SERVICE_KEY"] = "s3cret"
    http = {"headers": {"Authorization": "Bearer ${SERVICE_KEY}", "X-Tenant": "short"}}
    server.reply = lambda path, body: (422, {}, b"bad token s3cret of short")
    found = failure(room.ask(server.url, "q", env="SERVICE_KEY", http=http)[0])
    assert found.message.startswith("Answered 422 ")
    assert "question_field and body under [system.http]" in found.message
    assert found.detail == "bad token *** of short"
    server.reply = lambda path, body: said({"echo": "Bearer s3cret"})
    found = failure(room.ask(server.url, "q", env="SERVICE_KEY", http=http)[0])
    assert "s3cret" not in found.message
    assert server.seen[0][1]["authorization"] == "Bearer s3cret"
    assert [seen[2] for seen in server.seen] == [{"question": "q"}] * 2
