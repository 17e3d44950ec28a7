"""What a service is sent, and what its refusals say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.golden.sample import Message, Sample
from ragstone.system.request import NoPlaceError, placed
from tests.system.service import Server, failure, said

pytestmark = pytest.mark.usefixtures("no_proxy")

CHAT = {"model": "m", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}]}
PARTS = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": ""}]}]}


@pytest.mark.parametrize("path", ["messages.2.content", "messages.-3.content", "messages.content"])
def test_a_position_that_is_not_there_is_refused_before_anything_is_asked(room: Any, server: Server, path: str) -> None:
    with pytest.raises(NoPlaceError):
        placed(CHAT, path, "q")
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
        ({"messages": ["a", "b"]}, "messages.-2", {"messages": ["q", "b"]}),
        ({"by": {"0": 1}}, "by.0", {"by": {"0": "q"}}),
        ({}, "0", {"0": "q"}),
        ({"text": "none"}, "text.inner", {"text": {"inner": "q"}}),
    ],
)
def test_a_value_is_placed_without_changing_what_is_around_it(fields: Any, path: str, found: object) -> None:
    before = json.dumps(fields)
    assert placed(fields, path, "q") == found
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
