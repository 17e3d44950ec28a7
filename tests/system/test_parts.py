"""Halves of a system: one that only retrieves, and one that generates from contexts that it is given."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import pytest

from ragstone.golden.sample import Sample
from ragstone.system.given import ignores
from ragstone.system.payload import read
from ragstone.system.response import Context, Response, SystemFailureKind
from ragstone.system.worker import fields
from tests.system.service import Server, failure

GIVEN = ("It opens at nine.", "It closes at six.")
OPENS = Sample("opens", "When does it open?", reference_contexts=GIVEN)


def test_recorded_answers_without_contexts_have_those_that_were_given(room: Any) -> None:
    room.write("outputs.jsonl", '{"id": "opens", "answer": "At nine."}\n')
    (found,) = room.ask_samples("file:outputs.jsonl", OPENS, part="generation")
    assert (found.answer, [one.text for one in found.contexts]) == ("At nine.", list(GIVEN))


def test_contexts_that_a_system_returns_are_its_own(room: Any) -> None:
    room.app("def answer(question, contexts=None): return 'At nine.', contexts[:1]\n")
    (found,) = room.ask_samples("python:app:answer", OPENS, part="generation")
    assert [one.text for one in found.contexts] == [GIVEN[0]]


@pytest.mark.parametrize(
    ("returned", "wanted"),
    [
        (["opens  at NINE."], False),
        (["Intro. It opens at nine. More."], False),
        ([], False),
        (["It opens at nine.", "It is blue."], True),
        ([" "], False),
    ],
)
def test_other_contexts_than_those_that_were_given_are_noticed(returned: list[str], wanted: bool) -> None:
    assert ignores(GIVEN, Response("opens", "x", tuple(map(Context, returned)))) is wanted


# -- a system that only retrieves --------------------------------------------------------------------------------------

RETURNS = [
    ["one", "two"],
    {"answer": None, "documents": [{"page_content": "one"}, {"content": "two"}]},
    {"answer": "ignored", "contexts": ["one", "two"]},
    ("ignored", ["one", "two"]),
    iter(("one", "two")),
    [({"text": "one"}, 0.5), ({"text": "two"}, 0.25)],
]
ONLY_RETRIEVES = fields.Fields(contexts_only=True)


@pytest.mark.parametrize("returned", RETURNS)
def test_a_retriever_returns_contexts_without_an_answer(returned: object) -> None:
    found = read("opens", returned, None, fields=ONLY_RETRIEVES)
    assert (found.failure, found.answer, [one.text for one in found.contexts]) == (None, "", ["one", "two"])


def test_an_empty_list_is_a_retriever_that_found_nothing() -> None:
    found = read("opens", [], None, fields=ONLY_RETRIEVES)
    assert (found.failure, found.contexts) == (None, ())


@pytest.mark.parametrize("returned", ["an answer", None, {"answer": "It is so."}, 7, [7], map(str, itertools.count())])
def test_what_holds_no_contexts_or_endless_ones_is_a_bad_return_of_a_retriever(returned: object) -> None:
    assert failure(read("opens", returned, None, fields=ONLY_RETRIEVES)).kind is SystemFailureKind.BAD_RETURN


def test_a_reply_without_an_answer_stays_a_failure_of_a_whole_system() -> None:
    found = failure(read("opens", {"contexts": ["one"]}, None))
    assert found.kind is SystemFailureKind.BAD_RETURN
    assert 'set part = "retrieval"' in found.message


def test_commands_services_and_files_may_only_retrieve(room: Any, server: Server) -> None:
    lines = (
        "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({'contexts': ['one', 'two']}), flush=True)\n"
    )
    room.write("rag.py", lines)
    room.write("once.py", 'print(\'["one", "two"]\')\n')
    room.write("outputs.jsonl", '{"id": "opens", "contexts": ["one", "two"]}\n')

    def retrieved(entrypoint: str, **fields: str) -> list[str]:
        (found,) = room.ask_samples(entrypoint, OPENS, part="retrieval", **fields)
        assert found.failure is None
        return [one.text for one in found.contexts]

    commands = [f"command:{sys.executable} {words}" for words in ("rag.py", "once.py {question}")]
    for entrypoint in (*commands, "file:outputs.jsonl"):
        assert retrieved(entrypoint) == ["one", "two"], entrypoint
    server.reply = lambda _path, _body: (200, {}, json.dumps({"hits": [{"body": "one"}, {"body": "two"}]}).encode())
    assert retrieved(server.url, contexts_field="hits", context_text_field="body") == ["one", "two"]
    stream = [b'data: {"contexts": ["one", "two"]}\n\n', b"data: [DONE]\n\n"]
    server.reply = lambda _path, _body: (200, {"Content-Type": "text/event-stream"}, stream)
    assert retrieved(server.url) == ["one", "two"]
