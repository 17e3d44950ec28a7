"""Replies of chat services as they are on the wire, from a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ragstone.system.streams import read_reply
from ragstone.system.worker import Fields
from tests.system.service import Reply, Server, failure, said

pytestmark = pytest.mark.usefixtures("no_proxy")

ANSWER = "30 days."
PASSAGE = {"id": "returns.md", "text": "You may return it."}
PASSAGES = [("returns.md", "You may return it.")]


def sent(kind: str, *pieces: str, **headers: str) -> Reply:
    return 200, {"Content-Type": kind, **headers}, [piece.encode() for piece in pieces]


def events(*values: object, names: bool = False) -> Reply:
    lines = [
        (f"event: {value['type']}\n" if names and isinstance(value, dict) else "")
        + f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n"
        for value in values
    ]
    return sent("text/event-stream", *lines)


def lines(kind: str, *values: object, end: str = "\n") -> Reply:
    return sent(kind, *(json.dumps(value) + end for value in values))


def sdk4(*parts: tuple[str, object], header: bool = True) -> Reply:
    headers = {"X-Vercel-AI-Data-Stream": "v1"} if header else {}
    return sent("text/plain; charset=utf-8", *(f"{code}:{json.dumps(value)}\n" for code, value in parts), **headers)


TOKENS = [("0", "30 "), ("0", "days.")]
SDK4 = [
    ("f", {"messageId": "m1"}),
    ("2", [{"sources": [PASSAGE]}]),
    ("9", {"toolCallId": "t", "toolName": "search", "args": {"text": "no"}}),
    ("g", "Let me think."),
    *TOKENS,
    ("e", {"finishReason": "stop", "usage": {"promptTokens": 1, "completionTokens": 1}, "isContinued": False}),
    ("d", {"finishReason": "stop", "usage": {"promptTokens": 7, "completionTokens": 3}}),
]
SDK5 = [
    {"type": "start", "messageId": "m1"},
    {"type": "start-step"},
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": "Let me think."},
    {"type": "tool-input-start", "toolCallId": "t", "toolName": "search"},
    {"type": "tool-input-delta", "toolCallId": "t", "inputTextDelta": "returns"},
    {"type": "tool-input-available", "toolCallId": "t", "toolName": "search", "input": {"query": "returns"}},
    {"type": "tool-output-available", "toolCallId": "t", "output": [PASSAGE]},
    {"type": "text-start", "id": "t1"},
    {"type": "text-delta", "id": "t1", "delta": "30 "},
    {"type": "text-delta", "id": "t1", "delta": "days."},
    {"type": "text-end", "id": "t1"},
    {"type": "finish-step"},
    {"type": "finish", "messageMetadata": {"model": "m"}},
    "[DONE]",
]
DELTA = {"type": "response.output_text.delta", "item_id": "m", "output_index": 1, "content_index": 0}
FOUND = {"file_id": "f", "filename": "returns.md", "score": 0.9, "text": "You may return it."}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "error": None,
    "output": [
        {"type": "file_search_call", "id": "fs", "queries": ["q"], "results": [FOUND]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
        },
    ],
    "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
}
RESPONSES = [
    {"type": "response.created", "response": {**RESPONSE, "output": [], "usage": None}},
    {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
    {"type": "response.reasoning_summary_text.delta", "delta": "Let me think."},
    {"type": "response.function_call_arguments.delta", "delta": "{}"},
    {**DELTA, "delta": "30 "},
    {**DELTA, "delta": "days."},
    {**DELTA, "type": "response.output_text.done", "text": ANSWER},
    {"type": "response.completed", "response": RESPONSE},
]
ANTHROPIC = [
    {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 7}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me think."}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "30 "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "days."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
CHUNK = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
CHUNKS = [
    {**CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {**CHUNK, "choices": [{"index": 0, "delta": {"content": "30 "}, "finish_reason": None}]},
    {**CHUNK, "choices": [{"index": 0, "delta": {"content": "days."}, "finish_reason": None}]},
    {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**CHUNK, "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    "[DONE]",
]
OLLAMA = [
    {"model": "m", "message": {"role": "assistant", "content": "30 "}, "done": False},
    {"model": "m", "message": {"role": "assistant", "content": "days."}, "done": False},
    {
        "model": "m",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "prompt_eval_count": 7,
        "eval_count": 3,
    },
]


def pairs(name: str, **more: object) -> list[dict[str, object]]:
    return [{name: "30 ", **more}, {name: "days.", **more}]


@pytest.mark.parametrize(
    ("reply", "contexts", "usage"),
    [
        pytest.param(sdk4(*SDK4), PASSAGES, (7, 3), id="AI SDK 4"),
        pytest.param(sdk4(*SDK4, header=False), PASSAGES, (7, 3), id="AI SDK 4 without its header"),
        pytest.param(sdk4(("8", [{"type": "sources", "data": [PASSAGE]}]), *TOKENS), PASSAGES, None, id="annotations"),
        pytest.param(sdk4(("a", {"toolCallId": "t", "result": [PASSAGE]}), *TOKENS), PASSAGES, None, id="a tool"),
        pytest.param(events(*SDK5), PASSAGES, None, id="AI SDK 5"),
        pytest.param(
            events({"type": "data-sources", "data": [PASSAGE]}, *SDK5[8:]), PASSAGES, None, id="AI SDK 5 with data"
        ),
        pytest.param(
            events(
                *SDK5[8:12],
                {"type": "source-document", "sourceId": "1", "filename": "returns.md", "text": "a"},
                {"type": "data-notice", "data": {"text": "Searching"}},
            ),
            [("returns.md", "a")],
            None,
            id="AI SDK 5 with a document",
        ),
        pytest.param(events(*RESPONSES, names=True), PASSAGES, (7, 3), id="OpenAI Responses"),
        pytest.param(events(*CHUNKS), [], (7, 3), id="OpenAI chunks"),
        pytest.param(events(*ANTHROPIC, names=True), [], (7, 3), id="Anthropic"),
        pytest.param(lines("application/x-ndjson", *OLLAMA), [], (7, 3), id="Ollama chat"),
        pytest.param(
            sent(
                "text/event-stream",
                'event: metadata\r\ndata: {"run_id": "r"}\r\n\r\n',
                f"event: data\r\ndata: {json.dumps({'context': [{'page_content': 'a', 'metadata': {}}]})}\r\n\r\n",
                'event: data\r\ndata: {"answer": "30 "}\r\n\r\n',
                'event: data\r\ndata: {"answer": "days."}\r\n\r\n',
                "event: end\r\n\r\n",
            ),
            [(None, "a")],
            None,
            id="LangServe",
        ),
        pytest.param(events('"30 "', '"days."'), [], None, id="strings"),
        pytest.param(sent("text/plain; charset=utf-8", "30 ", "days."), [], None, id="text"),
        pytest.param(
            sent("text/plain", *(f"data: {text}\n\n" for text in ("30 ", "days."))), [], None, id="events as text"
        ),
        pytest.param(lines("application/json", *pairs("token"), end=""), [], None, id="objects without line ends"),
        *(
            pytest.param(events(*pairs(name), "[DONE]"), [], None, id=f"{name} in events")
            for name in ("token", "delta", "content", "response", "text", "answer", "chunk")
        ),
        pytest.param(lines("application/jsonl", *pairs("delta")), [], None, id="lines"),
        pytest.param(
            events({"type": "status", "content": "Searching"}, *pairs("content", type="token")),
            [],
            None,
            id="typed events",
        ),
        pytest.param(
            events(
                *({"type": "token", "data": text} for text in ("30 ", "days.")), {"type": "sources", "data": [PASSAGE]}
            ),
            PASSAGES,
            None,
            id="tokens and sources",
        ),
        pytest.param(
            sent(
                "text/event-stream",
                f"event: context\ndata: {json.dumps({'chunks': [{'chunk_id': 'returns.md', 'text': 'a'}]})}\n\n",
                'event: delta\ndata: {"text": "30 "}\n\n',
                'event: delta\ndata: {"text": "days."}\n\n',
                'event: done\ndata: {"usage": {"input_tokens": 7, "output_tokens": 3}}\n\n',
            ),
            [("returns.md", "a")],
            (7, 3),
            id="chunks in an event named context",
        ),
        pytest.param(
            events(*pairs("token"), {"done": True, "citations": [PASSAGE]}), PASSAGES, None, id="citations at the end"
        ),
        pytest.param(
            events(*pairs("token"), {"type": "done", "answer": ANSWER + " ", "sources": [PASSAGE]}),
            PASSAGES,
            None,
            id="a final event with all again",
        ),
        pytest.param(
            lines("application/x-ndjson", *pairs("token"), {"answer": ANSWER, "sources": [PASSAGE]}),
            PASSAGES,
            None,
            id="a last line with all again",
        ),
        pytest.param(
            sent(
                "text/event-stream",
                *(f"event: token\ndata: {t}\n\n" for t in ("30 ", " days.")),
                f"event: sources\ndata: {json.dumps([PASSAGE])}\n\n",
            ),
            PASSAGES,
            None,
            id="named events",
        ),
    ],
)
def test_a_stream_is_read_by_content_type_and_shape(
    room: Any, server: Server, reply: Reply, contexts: list[tuple[str | None, str]], usage: tuple[int, int] | None
) -> None:
    server.reply = lambda path, body: reply
    (response,) = room.ask(server.url, "q")
    assert response.failure is None
    assert response.answer.replace("  ", " ") == ANSWER
    assert [(one.id, one.text) for one in response.contexts] == contexts
    found = response.usage and (response.usage.input_tokens, response.usage.output_tokens)
    assert found == usage
    assert 0 < response.first_text_s < response.latency_s


@pytest.mark.parametrize(
    "value",
    [
        {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}}]},
        {"object": "text_completion", "choices": [{"index": 0, "text": ANSWER}]},
        RESPONSE,
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
        {"model": "m", "message": {"role": "assistant", "content": ANSWER}, "done": True},
        {"output": {"answer": ANSWER, "context": [PASSAGE]}, "metadata": {"run_id": "r"}},
        {"output": {"content": ANSWER, "type": "ai"}},
        {"status": "ok", "data": {"answer": ANSWER, "sources": [PASSAGE]}},
        {"result": {"data": {"text": ANSWER}}},
        [{"output": ANSWER}],
    ],
)
def test_a_body_of_a_well_known_shape_needs_no_settings(room: Any, server: Server, value: object) -> None:
    server.reply = lambda path, body: said(value)
    (response,) = room.ask(server.url, "q")
    assert (response.failure, response.answer) == (None, ANSWER)
    assert len(response.contexts) == int("returns.md" in json.dumps(value))


def test_fields_that_are_named_come_before_known_shapes(room: Any, server: Server) -> None:
    server.reply = lambda path, body: events(*SDK5[8:12], {"type": "text-delta", "delta": "no", "v": {"t": "yes"}})
    (response,) = room.ask(server.url, "q", answer_field="v.t")
    assert response.answer == "yes"
    tool = {"type": "tool-output-available", "output": [{"name": "You may return it.", "similarity": 0.5}]}
    server.reply = lambda path, body: events(tool, *SDK5[8:])
    (response,) = room.ask(server.url, "q", context_text_field="name")
    assert [(one.text, one.score) for one in response.contexts] == [("You may return it.", 0.5)]


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (
            events({"payload": {"words": "30 days."}}),
            "bad_return",
            'such as answer_field = "payload.words", under [system]',
        ),
        (
            lines("application/x-ndjson", {"w": "30 "}, {"w": "days."}),
            "bad_return",
            "{'w': '30 '} (dict); {'w': 'days.'}",
        ),
        (sdk4(("3", "out of memory")), "raised", "out of memory"),
        (events({"type": "error", "errorText": "out of memory"}), "raised", "out of memory"),
        (lines("application/x-ndjson", {"response": "a"}, {"error": "out of memory"}), "raised", "out of memory"),
        (events({"type": "response.failed", "response": {"error": {"message": "out of memory"}}}), "raised", "memory"),
        (
            said({"reply": "30 days.", "model": "m"}),
            "bad_return",
            'set answer_field = "reply" under [system] (there is text',
        ),
        (said({"a": [{"b": {"said": "30 days."}}]}), "bad_return", 'set answer_field = "a.0.b.said" under [system].'),
        (
            (200, {"Content-Type": "text/html"}, b"<p>Hi"),
            "bad_return",
            "'<p>Hi' (str), which is not JSON. Text is an answer",
        ),
    ],
)
def test_what_can_not_be_read_is_shown_with_the_setting_that_reads_it(
    room: Any, server: Server, reply: Reply, kind: str, says: str
) -> None:
    server.reply = lambda path, body: reply
    found = failure(room.ask(server.url, "q")[0])
    assert found.kind == kind
    assert says in found.message


def test_a_separator_of_lines_that_is_none_on_the_wire_stays_in_the_answer(room: Any, server: Server) -> None:
    text = "30\u2028days\x85."
    server.reply = lambda path, body: sent(
        "text/event-stream", f"data: {json.dumps({'token': text}, ensure_ascii=False)}\n\n"
    )
    assert room.ask(server.url, "q")[0].answer == text


def test_a_line_that_comes_in_pieces_is_one_line(room: Any, server: Server) -> None:
    server.reply = lambda path, body: sent("text/event-stream", "da", 'ta: {"token": "30 d', 'ays."}\r', "\n\r\n")
    assert room.ask(server.url, "q")[0].answer == ANSWER


def test_nothing_that_arrives_within_a_line_end_ends_no_line() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b'data: {"token":\r', b"", b'\ndata: "30 days."}\r\n\r\n'):
            yield chunk

    reply = asyncio.run(read_reply(chunks(), "text/event-stream", Fields()))
    assert isinstance(reply.value, dict)
    assert reply.value["answer"] == ANSWER


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/octet-stream"])
def test_events_are_read_with_each_line_end_of_the_standard(room: Any, server: Server, kind: str, end: str) -> None:
    lines = ['data: {"token":', 'data: "30 "}', "", "event: token", 'data: {"token": "days."}', "", ""]
    if kind == "text/event-stream":
        lines.insert(0, ": a comment")
    text = end.join(lines)
    server.reply = lambda path, body: sent(kind, *text)  # each character on its own: a CRLF is split
    assert room.ask(server.url, "q")[0].answer == ANSWER


@pytest.mark.parametrize(
    "reply",
    [
        events(*(["x"] * 11)),
        events(*({"type": "ping"} for _ in range(11))),
        sent("application/x-ndjson", "{}" * 11),
        sent("text/plain", "2:[]\n" * 11, '0:"x"\n'),
    ],
)
def test_a_stream_of_endless_pieces_is_refused(
    room: Any, server: Server, monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setattr("ragstone.system.streams.MAX_PIECES", 10)
    server.reply = lambda path, body: reply
    assert failure(room.ask(server.url, "q")[0]).message.startswith("The stream has more than 10 pieces.")
