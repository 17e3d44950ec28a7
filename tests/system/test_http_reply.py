"""Replies of services as they are on the wire, from a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ragstone.system.response import Response
from tests.system.service import Reply, Server, failure, said

Reading = Callable[..., Response]


@pytest.fixture
def reading(room: Any, server: Server, no_proxy: None) -> Reading:
    """The response to a question that a service answers with this reply."""

    def read(reply: Reply, **settings: object) -> Response:
        server.reply = lambda path, body: reply
        response: Response
        (response,) = room.ask(server.url, "q", **settings)
        return response

    return read


ANSWER = "30 days."
PASSAGE = {"id": "returns.md", "text": "You may return it."}
PASSAGES = [("returns.md", "You may return it.")]


def sent(kind: str, *pieces: str) -> Reply:
    return 200, {"Content-Type": kind}, [piece.encode() for piece in pieces]


def events(*values: object) -> Reply:
    data = (value if isinstance(value, str) else json.dumps(value) for value in values)
    return sent("text/event-stream", *(f"data: {text}\n\n" for text in data))


def lines(kind: str, *values: object, end: str = "\n") -> Reply:
    return sent(kind, *(json.dumps(value) + end for value in values))


DELTA = {"type": "response.output_text.delta", "item_id": "m", "output_index": 1, "content_index": 0}
FOUND = {"file_id": "f", "filename": "returns.md", "score": 0.9, "text": "You may return it."}
MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
RESPONSE = {
    "object": "response",
    "output": [{"type": "file_search_call", "queries": ["q"], "results": [FOUND]}, MESSAGE],
    "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
}
RESPONSES = [
    {"type": "response.created", "response": {**RESPONSE, "output": [], "usage": None}},
    {"type": "response.reasoning_summary_text.delta", "delta": "Let me think."},
    {**DELTA, "delta": "30 "},
    {**DELTA, "delta": "days."},
    {**DELTA, "type": "response.output_text.done", "text": ANSWER},
    {"type": "response.completed", "response": RESPONSE},
]
CHUNKS = [
    *({"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("", "30 ", "days.")),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    "[DONE]",
]
OLLAMA = [
    {"model": "m", "message": {"role": "assistant", "content": "30 "}, "done": False},
    {"model": "m", "message": {"role": "assistant", "content": "days."}, "done": True},
]


@pytest.mark.parametrize(
    ("reply", "contexts", "usage"),
    [
        pytest.param(events(*RESPONSES), PASSAGES, (7, 3), id="OpenAI Responses"),
        pytest.param(events(*CHUNKS), [], (7, 3), id="OpenAI chunks"),
        pytest.param(
            sent(
                "text/event-stream",
                'event: metadata\r\ndata: {"run_id": "r"}\r\n\r\n',
                f"event: data\r\ndata: {json.dumps({'context': [{'page_content': 'a', 'metadata': {}}]})}\r\n\r\n",
                *(f'event: data\r\ndata: {{"answer": "{text}"}}\r\n\r\n' for text in ("30 ", "days.")),
                "event: end\r\n\r\n",
            ),
            [(None, "a")],
            None,
            id="LangServe",
        ),
        pytest.param(events({"answer": "30 ", "choices": ["a"]}, {"answer": "days."}), [], None, id="other choices"),
        pytest.param(events('"30 "', '"days."'), [], None, id="strings"),
        pytest.param(events("30 ", " days."), [], None, id="words"),
        pytest.param(sent("text/plain; charset=utf-8", "30 ", "days."), [], None, id="text"),
        pytest.param(
            events(
                {"type": "status", "text": "Searching"},
                {"contexts": [PASSAGE]},
                {"answer": "30 "},
                {"answer": "days."},
                {"type": "done", "answer": ANSWER, "usage": {"input_tokens": 7, "output_tokens": 3}},
            ),
            PASSAGES,
            (7, 3),
            id="the names of every entrypoint",
        ),
        *(
            pytest.param(
                lines(kind, {"answer": "30 "}, {"answer": "days."}, {"sources": [PASSAGE]}), PASSAGES, None, id=kind
            )
            for kind in ("application/x-ndjson", "application/jsonl")
        ),
    ],
)
def test_a_stream_is_read_by_its_content_type(
    reading: Reading, reply: Reply, contexts: list[tuple[str | None, str]], usage: tuple[int, int] | None
) -> None:
    response = reading(reply)
    assert response.failure is None
    assert response.answer.replace("  ", " ") == ANSWER
    assert [(one.id, one.text) for one in response.contexts] == contexts
    found = response.usage and (response.usage.input_tokens, response.usage.output_tokens)
    assert found == usage


@pytest.mark.parametrize(
    "value",
    [
        {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}}]},
        RESPONSE,
        {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
        {"output": {"answer": ANSWER, "context": [PASSAGE]}, "metadata": {"run_id": "r"}},
        {"output": ANSWER},
    ],
)
def test_a_body_of_a_well_known_shape_needs_no_settings(reading: Reading, value: object) -> None:
    response = reading(said(value))
    assert (response.failure, response.answer) == (None, ANSWER)
    assert len(response.contexts) == int("returns.md" in json.dumps(value))


@pytest.mark.parametrize(
    ("reply", "path"),
    [
        (lines("application/x-ndjson", *OLLAMA), "message.content"),
        (said({"data": {"answer": ANSWER, "sources": [PASSAGE]}}), "data.answer"),
    ],
)
def test_any_other_reply_is_read_by_the_path_that_its_error_asks_for(reading: Reading, reply: Reply, path: str) -> None:
    refused = failure(reading(reply))
    assert refused.kind == "bad_return"
    assert "for example answer_field =" in refused.message
    response = reading(reply, answer_field=path)
    assert (response.failure, response.answer) == (None, ANSWER)


def test_a_path_comes_before_the_usual_shapes(reading: Reading) -> None:
    sdk = [{"type": "text-start", "id": "t1"}, {"type": "text-delta", "id": "t1", "delta": ANSWER}, {"type": "finish"}]
    assert reading(events(*sdk), answer_field="delta").answer == ANSWER
    assert reading(said({"output": {"answer": "no"}, "own": ANSWER}), answer_field="own").answer == ANSWER
    assert reading(events(*CHUNKS[:-1], {"choices": [], "v": {"t": "yes"}}), answer_field="v.t").answer == "yes"
    reply = events({"hits": [{"name": "You may return it.", "similarity": 0.5}]}, {"answer": "yes"})
    response = reading(reply, contexts_field="hits", context_text_field="name")
    assert [(one.text, one.score) for one in response.contexts] == [("You may return it.", 0.5)]


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (events({"payload": "30 days."}), "bad_return", "{'payload': '30 days.'} (dict). Expected"),
        (events("[DONE]"), "bad_return", "ended without text"),
        (events("x" * 600_000, "x" * 600_000), "bad_return", "at most 1,000,000 are read"),
        (sent("text/event-stream", "event: error\ndata: out of memory\n\n"), "raised", "out of memory"),
        (events({"type": "error", "errorText": "out of memory"}), "raised", "out of memory"),
        (lines("application/x-ndjson", {"answer": "a"}, {"error": "out of memory"}), "raised", "out of memory"),
        (events({"type": "response.failed", "response": {"error": {"message": "out of memory"}}}), "raised", "memory"),
        (lines("application/json", {"answer": "30 "}, {"answer": "days."}), "bad_return", "JSON Lines if it is"),
        ((200, {"Content-Type": "text/html"}, b"<p>Hi"), "bad_return", "'<p>Hi' (str), which is not JSON. Text is"),
    ],
)
def test_what_can_not_be_read_is_shown_with_the_setting_that_reads_it(
    reading: Reading, reply: Reply, kind: str, says: str
) -> None:
    found = failure(reading(reply))
    assert found.kind == kind
    assert says in found.message


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n\n"])
def test_events_are_read_with_each_line_end_of_the_standard(reading: Reading, end: str, last: str) -> None:
    lines = [": a comment", 'data: {"answer":', 'data: "30 "}', "", "event: token", 'data: {"answer": "days."}']
    text = end.join(lines) + last
    reply = sent("text/event-stream", *text)  # each character on its own: a CRLF is split
    assert reading(reply).answer == ANSWER


@pytest.mark.parametrize(
    "reply",
    [events(*(["x"] * 11)), events(*({"type": "ping"} for _ in range(11))), sent("application/x-ndjson", "{}\n" * 11)],
)
def test_a_stream_of_endless_pieces_is_refused(reading: Reading, monkeypatch: pytest.MonkeyPatch, reply: Reply) -> None:
    monkeypatch.setattr("ragstone.system.http_reply.MAX_PIECES", 10)
    assert failure(reading(reply)).message.startswith("The stream has more than 10 pieces.")


def test_steps_come_in_any_pieces_of_a_stream(reading: Reading) -> None:
    search = {"type": "retrieval", "query": "return", "contexts": [PASSAGE]}
    lookup = {"type": "tool", "name": "lookup", "arguments": {}}
    whole = reading(events({"steps": [search]}, {"answer": "30 "}, {"steps": [lookup] * 2, "trace_id": "t"}, "days."))
    assert (whole.answer, whole.extra) == (ANSWER, {"trace_id": "t"})
    assert [type(step).__name__ for step in whole.steps] == ["Retrieval", "ToolCall", "ToolCall"]
    too_many = reading(events({"steps": [lookup] * 1_000}, {"steps": [lookup]}, "days."))
    assert "More than 1,000 steps" in failure(too_many).message


def test_a_stream_is_whole_at_its_end_though_the_connection_stays_open(reading: Reading) -> None:
    status, headers, pieces = events(*CHUNKS)
    reply = status, headers, [*pieces, *[b": keep-alive\n\n"] * 200]
    assert reading(reply, timeout_s=4.0).answer == ANSWER


@pytest.mark.parametrize(
    ("kind", "pieces", "answer"),
    [
        ("text/event-stream", ['data: {"answer": "30\u2028days\x85."}\n\n'], "30\u2028days\x85."),
        ("application/x-ndjson", ['{"answer": "30\u2028days\x85."}\n\n'], "30\u2028days\x85."),
        ("text/event-stream; charset=latin-1", ['data: {"answer": "für 30 Tage"}\n\n'], "für 30 Tage"),
        ("application/x-ndjson", ['{"answer"', ': "30 d"}', '\r\n{"answer": "ays."}'], "30 days."),
        ("text/plain", ["30"], "30"),
        ("text/plain", ['"30 days."'], "30 days."),
        ("text/plain", ['{"answer": "30 days."}'], "30 days."),
        ("text/event-stream", ["data: 30\n\n", "data:  days.\ndata:\n\n"], "30 days.\n"),
    ],
)
def test_text_is_read_as_it_is_on_the_wire(reading: Reading, kind: str, pieces: list[str], answer: str) -> None:
    assert reading(sent(kind, *pieces)).answer == answer
