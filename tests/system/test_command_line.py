"""command: entrypoints, through real programs."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.system.command_line import without_secrets
from ragstone.system.payload import MAX_DETAIL_CHARACTERS
from ragstone.system.response import Context
from tests.system.service import by_kind, failure

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
RAG = f"command:{sys.executable} rag.py"


@pytest.fixture(autouse=True)
def program(room: Any) -> None:
    room.write(
        "rag.py",
        """
        import json, os, sys, time

        def say(value): print(json.dumps(value), flush=True)

        for line in sys.stdin:
            asked = json.loads(line)
            question = asked["question"]
            if question == "nonsense": print("Loading the model...", flush=True)
            elif question == "number": say(42)

            elif question == "as a number": say({"id": 7, "answer": "x"})
            elif question == "other id": say({"id": "another", "answer": "x"})
            elif question == "no answer": say({"anser": "x"})
            elif question == "error": say({"error": "index not found"})
            elif question == "die": sys.stderr.write("out of luck\\n"); os._exit(4)
            elif question == "hang": time.sleep(600)
            elif question == "close": os.close(1); time.sleep(600)
            elif question == "huge": sys.stdout.write('"' + "x" * 10_000_010 + '"\\n'); sys.stdout.flush()
            elif question == "flood": sys.stderr.write("y" * 1_000_000); say({"answer": "fine"})
            elif question == "last": say({"answer": "bye"}); sys.exit(0)
            elif question == "blank first": print("\\n\\n", flush=True); say({"answer": "fine"})

            else: say({"id": asked["id"], "output": question.upper(), "sources": [{"content": "c", "doc_id": 1}]})
        """,
    )


def test_a_program_in_any_language_is_asked_line_by_line(room: Any) -> None:
    numbered, text = room.ask_samples(RAG, Sample("7", "as a number"), Sample("s", "what?"))
    assert (numbered.failure, text.answer) == (None, "WHAT?")
    assert text.contexts == (Context("c", "1", None),)
    assert text.latency_s is not None


def test_start_up_has_its_own_time_and_may_be_announced_and_text_may_hold_anything(room: Any) -> None:
    room.write(
        "echo.py",
        """
        import json, sys, time
        time.sleep(0.6)
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            question = json.loads(line)["question"]
            print(json.dumps({"answer": question if question != "argv" else json.dumps(sys.argv[1:])}), flush=True)
        """,
    )
    question = 'line\none "two" \u2028 ünï 𝔘 \ud800 \x00'
    command = f"command:{sys.executable} echo.py 'two words' $HOME '; touch pwned' > out"
    anything, argv = room.ask(command, question, "argv", timeout_s=0.4)
    assert anything.answer == question.replace("\ud800", "\ufffd")
    assert json.loads(argv.answer) == ["two words", "$HOME", "; touch pwned", ">", "out"]
    assert not (room.folder / "pwned").exists()


@pytest.mark.attack(by="pull request", tries="fill the disk with an error's details", stopped_by="cut to their end")
def test_of_a_long_detail_the_end_is_kept(room: Any) -> None:
    room.write(
        "rag.py", "import json\nprint(json.dumps({'error': 'no', 'detail': 'x' * 9_000_000 + 'the end'}), flush=True)"
    )
    (response,) = room.ask(f"command:{sys.executable} rag.py", "q")
    detail = failure(response).detail
    assert detail is not None
    assert len(detail) == MAX_DETAIL_CHARACTERS
    assert detail.endswith("the end")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("./not-there", "No such file"),
        ("not-on-path-anywhere --flag", "No such file"),
        (f"{sys.executable} -S -E -c \"import sys; sys.exit('no index')\"", "exited with status 1 .*(\n.*)*no index"),
        pytest.param("./not-executable", "must be executable", marks=POSIX),
        ("./rag 'open", "Close each quote that is opened"),
    ],
)
def test_a_program_that_can_not_be_run_is_said_before_any_question(room: Any, command: str, says: str) -> None:
    room.write("not-executable", "#!/bin/sh\n")
    with pytest.raises((SystemUnderTestError, ConfigError), match=says):
        room.ask(f"command:{command}", "q")


def test_each_way_to_fail_costs_the_sample_that_failed_and_no_other(room: Any) -> None:
    failing = ["nonsense", "number", "other id", "no answer", "error", "die", "hang", "close", "huge"]
    questions = ["a", *failing[:3], "b", *failing[3:], "c", "flood", "last", "blank first"]
    responses = room.ask(RAG, *questions, timeout_s=1, startup_timeout_s=2, concurrency=2)
    assert by_kind(questions, responses) == {
        "answered": ["a", "b", "c", "flood", "last", "blank first"],
        "bad_return": ["nonsense", "number", "other id", "no answer", "huge"],
        "raised": ["error"],
        "crashed": ["die", "close"],
        "timeout": ["hang"],
    }
    failures = {q: r.failure for q, r in zip(questions, responses, strict=True) if r.failure}
    assert "'Loading the model...'" in failures["nonsense"].message
    assert "logs go to stderr" in failures["nonsense"].message
    assert "'another'" in failures["other id"].message
    assert failures["error"].message == "index not found"
    assert failures["die"].message == "The command exited with status 4 while answering this question."
    assert failures["die"].detail == "out of luck"
    assert "longer than 10,000,000 bytes" in failures["huge"].message


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("./rag --api-key sk-123 --k 3", "./rag --api-key *** --k 3"),
        ("./rag --token=abc", "./rag --token=***"),
        ("env OPENAI_API_KEY=sk ./rag", "env OPENAI_API_KEY=*** ./rag"),
        ("./rag --top-k 3", "./rag --top-k 3"),
    ],
)
def test_the_shown_command_holds_no_secret(command: str, shown: str) -> None:
    assert without_secrets(command) == shown


def test_the_fields_of_a_reply_may_have_names_of_their_own(room: Any) -> None:
    reply = {"said": "30 days.", "found": {"hits": [{"body": "c", "ref": "d1"}]}}
    fields = {"answer_field": "said", "contexts_field": "found.hits"}
    fields |= {"context_text_field": "body", "context_id_field": "ref"}
    room.write("named.py", f"import sys\nfor _ in sys.stdin: print({json.dumps(json.dumps(reply))}, flush=True)")
    room.write("out.jsonl", json.dumps({"id": "s0", **reply}))
    room.app(f"def answer(question):\n    return {reply!r}\n")
    for entrypoint in ("app:answer", f"command:{sys.executable} named.py", "file:out.jsonl"):
        (response,) = room.ask(entrypoint, "how long?", **fields)
        assert (response.answer, response.contexts) == ("30 days.", (Context("c", "d1"),))
