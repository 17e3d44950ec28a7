"""What a service is sent, and what its refusals say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ragstone.errors import ConfigError
from ragstone.golden.sample import Message, Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.http_service import without_secrets
from ragstone.system.request import NoPlaceError, placed, refusal
from tests.system.service import Server, failure, said

pytestmark = pytest.mark.usefixtures("no_proxy")

CHAT = {"model": "m", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}]}
PARTS = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": ""}]}]}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("messages.2.content", "'messages' is a list with 2 elements, so '2' is nowhere in it"),
        ("messages.-3.content", "'messages' is a list with 2 elements, so '-3' is nowhere in it"),
        ("messages.content", "'messages' is a list with no names, so 'content' is nowhere in it"),
        ("chat.0.content", "'chat' is not in the body, so '0' is no position in it"),
    ],
)
def test_a_position_that_is_not_there_is_refused_before_anything_is_asked(
    room: Any, server: Server, path: str, says: str
) -> None:
    with pytest.raises(NoPlaceError, match=says):
        placed(CHAT, path, "q")
    with pytest.raises(ConfigError) as caught:
        room.ask(server.url, "q", http={"question_field": path, "body": CHAT})
    assert says in str(caught.value)
    assert caught.value.where == "system.http.question_field"
    assert 'body = { messages = [{ role = "user", content = "" }] }' in str(caught.value.hint)
    assert server.seen == []


@pytest.mark.parametrize("body", [CHAT, PARTS], ids=["content", "parts"])
def test_the_earlier_turns_go_before_the_question_in_the_shape_of_its_message(
    room: Any, server: Server, body: dict[str, Any]
) -> None:
    inner = "content" if body is CHAT else "parts.0.text"
    http = {"question_field": f"messages.-1.{inner}", "history_field": "messages", "body": body, "id_field": ""}
    turns = (Message("user", "Hello?"), Message("assistant", "Yes."))
    room.ask_samples(server.url, Sample("a", "Why?", history=turns), http=http)
    sent = server.seen[0][2]
    assert sent.keys() == body.keys()
    said_by = [(one["role"], one.get("content") or one["parts"][0]["text"]) for one in sent["messages"]]
    assert said_by[-3:] == [("user", "Hello?"), ("assistant", "Yes."), ("user", "Why?")]
    assert len(sent["messages"]) == len(body["messages"]) + 2


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_question_in_the_address_is_quoted_and_not_sent_again(room: Any, server: Server, method: str) -> None:
    server.reply = lambda path, body: said({"answer": path})
    question = "Why & how? é/\ud800"
    (response,) = room.ask(f"{server.url}/ask?v=1&q={{question}}", question, http={"method": method})
    assert response.answer == "/ask?v=1&q=Why%20%26%20how%3F%20%C3%A9%2F%3F"
    assert server.seen[0][2] == (None if method == "GET" else {"id": "s0"})
    assert server.seen[0][1].get("content-type") == (None if method == "GET" else "application/json")
    assert without_secrets("http://h/ask?key=abc&q={question}") == "http://h/ask?key=***&q={question}"


@pytest.mark.parametrize(
    ("entrypoint", "method", "says"),
    [
        ("http://127.0.0.1:1/ask?q={query}", "POST", "'{query}' in the address can't be replaced"),
        ("http://127.0.0.1:1/{tenant}/ask", "POST", "'{tenant}' in the address can't be replaced"),
        ("http://{question}/ask", "POST", "'{question}' in the address can't be replaced"),
        ("http://127.0.0.1:1/ask", "GET", "the question is not in the address"),
    ],
)
def test_an_address_that_can_not_be_asked_is_refused(room: Any, entrypoint: str, method: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        room.ask(entrypoint, "q", http={"method": method})


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


def missing(*place: str, kind: str = "missing") -> dict[str, Any]:
    return {"type": kind, "loc": list(place), "msg": "Field required", "input": {"id": "s0", "question": "q"}}


@pytest.mark.parametrize(
    ("detail", "says"),
    [
        ([missing("body", "query")], "it requires 'query': set question_field = \"query\" under [system.http]"),
        ([missing("body", "utterance")], 'set question_field = "utterance" under [system.http]'),
        (
            [missing("body", "query"), missing("body", "tenant")],
            "set question_field = \"query\" under [system.http]; it requires 'tenant': set body = { tenant = … }",
        ),
        ([missing("body", "messages")], 'set question_field = "messages.-1.content" and body = { messages = [{ role'),
        ([missing("body", "id", kind="extra_forbidden")], 'it takes no id: set id_field = "" under [system.http]'),
        ([missing("body", "k", kind="extra_forbidden")], "something else at 'k' (extra_forbidden)"),
        ([missing("body", "id")], "it requires 'id'"),
        ([missing("query", "q")], "it takes 'q' in the address"),
        ([missing("query", "q", kind="int_parsing")], "something else at 'q' (int_parsing)"),
        ([missing("body", "messages", "0", "role", kind="literal_error")], "something else at 'messages.0.role'"),
        ([missing("body")], "something else at 'the body'"),
        ("no", "question_field and body under [system.http] say what is sent"),
        ([{"loc": 1}], "question_field and body under [system.http] say what is sent"),
    ],
)
def test_a_refusal_names_the_setting_that_mends_it_and_shows_what_arrived(detail: object, says: str) -> None:
    settings = SystemSettings.model_validate({"http": {"body": {"k": 1}}})
    said = refusal(json.dumps({"detail": detail}).encode(), settings)
    assert says in said
    assert said.endswith("Sent: k, id, question.")


def test_a_service_that_refuses_is_quoted_without_what_is_in_its_headers(room: Any, server: Server) -> None:
    room.environ["SERVICE_KEY"] = "s3cret"
    headers = {"Authorization": "Bearer ${SERVICE_KEY}", "X-Tenant": "short"}
    server.reply = lambda path, body: (422, {}, b"bad token s3cret of short")
    found = failure(room.ask(server.url, "q", env="SERVICE_KEY", http={"headers": headers, "id_field": "meta.ref"})[0])
    assert found.message.startswith("Answered 422 ")
    assert found.message.endswith("Sent: meta.ref, question.")
    assert found.detail == "bad token *** of short"
    server.reply = lambda path, body: said({"echo": "Bearer s3cret"})
    found = failure(room.ask(server.url, "q", env="SERVICE_KEY", http={"headers": headers, "id_field": ""})[0])
    assert "s3cret" not in found.message
    assert server.seen[0][1]["authorization"] == "Bearer s3cret"
    assert [seen[2] for seen in server.seen] == [{"meta": {"ref": "s0"}, "question": "q"}, {"question": "q"}]
