"""Services that answer one form of request: `init --probe` finds it, and what it writes works."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import Completed, ragstone
from tests.system.conftest import server  # noqa: F401 - a fixture
from tests.system.service import Reply, Server, said

Reads = Callable[[Any], object]
"""The question in a request; raises LookupError or TypeError if it is none that the service takes."""


def strict(read: Reads, answer: Callable[[str], Reply] = lambda question: said({"answer": f"On {question}"})) -> Any:
    def reply(path: str, body: Any) -> Reply:
        try:
            question = read(body)
        except (LookupError, TypeError, AttributeError):
            question = None
        return answer(question) if isinstance(question, str) and question else (400, {}, b"no such field")

    return reply


def sdk5(question: str) -> Reply:
    events = [{"type": "text-delta", "delta": "On "}, {"type": "text-delta", "delta": question}, {"type": "finish"}]
    return 200, {"Content-Type": "text/event-stream"}, [f"data: {json.dumps(one)}\n\n".encode() for one in events]


def sdk4(question: str) -> Reply:
    text = f"0:{json.dumps('On ')}\n0:{json.dumps(question)}\n"
    return 200, {"Content-Type": "text/plain", "X-Vercel-AI-Data-Stream": "v1"}, text.encode()


def completion(question: str) -> Reply:
    return said({"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": question}}]})


def model(body: Any) -> object:
    if body.keys() - {"model", "messages"} or not body["model"]:
        raise LookupError
    return body["messages"][-1]["content"]


def probe(folder: Path, server: Server, path: str) -> Completed:  # noqa: F811
    return ragstone(["init", "--probe", "--entrypoint", server.url + path], folder)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("path", "read", "answer"),
    [
        *(
            pytest.param("/ask", lambda body, name=name: body[name], None, id=name)
            for name in ("question", "input", "q")
        ),
        pytest.param("/rag/invoke", lambda body: body["input"]["question"], None, id="LangServe"),
        pytest.param("/api/chat", lambda body: body["messages"][-1]["content"], sdk4, id="AI SDK 4"),
        pytest.param("/api/chat", lambda body: body["messages"][-1]["parts"][0]["text"], sdk5, id="AI SDK 5"),
        pytest.param("/v1/chat/completions", model, completion, id="OpenAI"),
        pytest.param(
            "/ask", lambda body: body["query"], lambda question: said({"reply": f"On {question}"}), id="reply"
        ),
    ],
)
def test_the_form_that_a_service_answers_is_written_and_works(
    tmp_path: Path,
    server: Server,  # noqa: F811
    path: str,
    read: Reads,
    answer: Callable[[str], Reply] | None,
) -> None:
    server.reply = strict(read, *([answer] if answer else []))
    done = probe(tmp_path, server, path)
    assert done.returncode == 0, done.stderr
    assert f"asked  {server.url}{path}: it answered '" in done.stdout
    checked = ragstone(["check"], tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    golden = (tmp_path / "golden" / "golden.jsonl").read_text().splitlines()
    assert read(server.seen[-1][2]) == json.loads(golden[0])["question"]


def test_a_service_that_answers_no_form_is_said_to_with_its_reply(tmp_path: Path, server: Server) -> None:  # noqa: F811
    server.reply = lambda path, body: (401, {}, b"who are you")
    done = probe(tmp_path, server, "/ask")
    assert "gave no answer: Answered 401" in " ".join(done.stdout.split())
    assert [path for path, _, _ in server.seen] == ["/openapi.json", "/ask"]
    assert "http" not in tomllib.loads((tmp_path / "ragstone.toml").read_text())["system"]


@pytest.mark.heavy
def test_what_the_service_describes_is_written_even_if_it_needs_more(tmp_path: Path, server: Server) -> None:  # noqa: F811
    fields = {"query": {"type": "string"}, "model": {"type": "string"}, "k": {"default": 3}}
    body = {"content": {"application/json": {"schema": {"required": ["query", "model", "k"], "properties": fields}}}}
    described = said({"openapi": "3.1.0", "paths": {"/ask": {"post": {"requestBody": body}}}})
    server.reply = lambda path, body: described if body is None else (500, {}, b"no such model")
    done = probe(tmp_path, server, "/ask")
    assert "it also requires model: fill it in under [system.http] body" in " ".join(done.stdout.split())
    http = tomllib.loads((tmp_path / "ragstone.toml").read_text())["system"]["http"]
    assert http == {"question_field": "query", "body": {"model": "", "k": 3}}


def test_without_probe_a_named_service_is_not_asked(tmp_path: Path, server: Server) -> None:  # noqa: F811
    ragstone(["init", "--entrypoint", f"{server.url}/ask"], tmp_path)
    assert server.seen == []
