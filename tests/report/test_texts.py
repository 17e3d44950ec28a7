"""The texts of a sample, as the page gets them: contexts, steps, tracebacks and word diffs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.redact import Redactor
from ragstone.golden.sample import ConversationTurn, Message, Sample
from ragstone.judge.judgements import Judgements, Statement, StatementList, Support, SupportTable, Verdict
from ragstone.metrics.score import Failed, NotApplicable, Scored
from ragstone.report.filters import PHRASES
from ragstone.report.texts import MAX_CHARACTERS, MAX_CONTEXTS, MAX_ITEMS, TextPreparer, sample_texts
from ragstone.report.tracebacks import last_frames
from ragstone.report.word_diff import Piece, word_diff
from ragstone.system.response import (
    Context,
    ConversationSoFar,
    ModelCall,
    Response,
    Retrieval,
    Step,
    SystemFailure,
    SystemFailureKind,
    TokenUsage,
    ToolCall,
)
from tests.cli.project import ragstone, write_rows
from tests.evaluation.builders import one_answer
from tests.report.hostile import every_fragment

PORT = "The gateway listens on port 8443 unless the file gateway.toml names another port for it."
SAMPLE = Sample("port", "Which port?", "Port 8443.", reference_contexts=(PORT,))


def record(
    *contexts: Context, answer: str = "Port 8443.", sample: Sample = SAMPLE, judged: Judgements | None = None
) -> SampleRecord:
    response = Response(sample.id, answer, contexts)
    return one_answer(sample, response, (judged or Judgements(),), {"faithfulness": Scored(0.5, "1 of 2")})


def texts(now: SampleRecord, then: SampleRecord | None = None) -> dict[str, Any]:
    return sample_texts(now, then, str)


def contexts(now: SampleRecord, then: SampleRecord | None = None) -> list[dict[str, Any]]:
    (pair,) = texts(now, then)["pairs"]
    return list(pair["contexts"])


def test_contexts_are_added_lost_moved_or_changed() -> None:
    one, two, three, new = (Context(text, text[:3]) for text in ("One.", "Two.", "Three.", "New."))
    changed = Context("Three, in other words.", "Thr")
    found = contexts(record(two, new, changed), record(one, two, three))
    assert [(entry["id"], entry["rank"], entry["baselineRank"], entry["baselineText"]) for entry in found] == [
        ("Two", 1, 2, None),
        ("New", 2, None, None),
        ("Thr", 3, 3, "Three."),
        ("One", None, 1, None),
    ]


def test_the_same_text_twice_is_two_contexts() -> None:
    same = Context("Twice.")
    found = contexts(record(same, same), record(same))
    assert [(entry["rank"], entry["baselineRank"]) for entry in found] == [(1, 1), (2, None)]


def test_contexts_that_have_evidence_are_named_and_those_that_lost_it() -> None:
    found = contexts(record(Context(f"Before that. {PORT} After that."), Context("Nothing of it is here.")))
    assert [entry["hasEvidence"] for entry in found] == [True, False]
    found = contexts(record(Context("Another.", "a")), record(Context(PORT, "a"), Context(PORT)))
    assert [(entry["hasEvidence"], entry["lostEvidence"]) for entry in found] == [(False, True), (True, False)]


def test_statements_have_their_verdict_evidence_and_quote() -> None:
    judged = Judgements(
        statements=StatementList(
            (Statement("s1", "It is 8443."), Statement("s2", "It is red."), Statement("s3", "It is 8080.")),
            abstains=False,
        ),
        support=SupportTable(
            (
                Support("s1", Verdict.SUPPORTED, ("c1", "c2")),
                Support("s2", Verdict.CONTRADICTED, quote="it is blue"),
                Support("s3", Verdict.SUPPORTED, ("c1",), contradicted_by=("c2",)),
            )
        ),
    )
    found = texts(record(Context("As painted, it is blue."), Context(PORT), judged=judged))
    (pair,) = found["pairs"]
    assert pair["current"]["statements"] == [
        {"text": "It is 8443.", "verdict": "supported", "supportedBy": ["c1", "c2"], "contradictedBy": [], "quote": ""},
        {
            "text": "It is red.",
            "verdict": "contradicted",
            "supportedBy": [],
            "contradictedBy": [],
            "quote": "it is blue",
        },
        {"text": "It is 8080.", "verdict": "supported", "supportedBy": ["c1"], "contradictedBy": ["c2"], "quote": ""},
    ]
    assert found["scores"] == [["Faithfulness", "", "0.50", "1 of 2"]]


def test_scores_say_why_there_is_none() -> None:
    now = dataclasses.replace(record(), scores={"mrr": NotApplicable("no ids"), "tone": Failed("judge", "refused")})
    found = texts(now, dataclasses.replace(record(), scores={"mrr": Scored(0.25)}))
    assert found["scores"] == [["Reciprocal rank", "0.25", "n/a", "no ids"], ["tone", "", "failed", "refused"]]


def test_a_failure_and_a_conversation_are_shown() -> None:
    sample = dataclasses.replace(
        SAMPLE, history=tuple(Message("user", f"turn {number}") for number in range(MAX_ITEMS + 8))
    )
    failed = Response(sample.id, failure=SystemFailure(SystemFailureKind.TIMEOUT, "No answer within 60 s"))
    found = texts(SampleRecord(sample, (Answer(failed),), {}))
    assert found["history"][-1] == ["user", f"turn {MAX_ITEMS - 1}"]
    assert (len(found["history"]), found["cut"]) == (MAX_ITEMS, True)
    assert found["pairs"][0]["current"]["failure"] == "timeout: No answer within 60 s"


def test_the_messages_of_a_conversation_are_shown_as_they_were_asked_and_beside_those_of_the_baseline() -> None:
    sample = dataclasses.replace(
        SAMPLE, turn=ConversationTurn("talk", 3, 3), history=(Message("user", "A?"), Message("user", "B?"))
    )

    def asked(answer: str, *failed: int) -> SampleRecord:
        messages = (Message("user", "A?"), Message("assistant", answer), Message("user", "B?"))
        response = Response(sample.id, "Yes.", so_far=ConversationSoFar(messages, failed_turns=failed))
        return SampleRecord(sample, (Answer(response),), {})

    now = asked("It is red.", 2)
    found = texts(now, asked("It is blue."))
    said = [["user", "A?"], ["assistant", "It is red."], ["user", "B?"]]
    assert found["history"] == [*said, ["note", "after turn 2 failed"]]
    assert found["baselineHistory"] == [["user", "A?"], ["assistant", "It is blue."], ["user", "B?"]]


def test_a_context_of_an_earlier_turn_is_named_so() -> None:
    so_far = ConversationSoFar(contexts=(Context("It is red."),))
    response = Response(SAMPLE.id, "It is red.", (Context("It has a door."),), so_far=so_far)
    judged = Judgements(
        statements=StatementList((Statement("s1", "It is red."),), abstains=False),
        support=SupportTable((Support("s1", Verdict.SUPPORTED, ("c1", "c2")),)),
    )
    (pair,) = texts(SampleRecord(SAMPLE, (Answer(response, (judged,)),), {}))["pairs"]
    assert pair["current"]["statements"][0]["supportedBy"] == ["c1", "of an earlier turn"]


def test_texts_and_lists_are_cut_and_that_is_said() -> None:
    judged = Judgements(
        statements=StatementList(tuple(Statement(f"s{at}", "So.") for at in range(MAX_ITEMS + 7)), abstains=False)
    )
    long = record(*(Context("x" * 19_000) for _ in range(10_000)), answer="a" * 2_000_000, judged=judged)
    found = texts(long, record(answer="b" * 2_000_000))
    (pair,) = found["pairs"]
    assert found["cut"]
    assert len(pair["current"]["text"]) == len(pair["baseline"]["text"]) == MAX_CHARACTERS
    assert len(pair["contexts"]) == MAX_CONTEXTS
    assert len(pair["contexts"][0]["text"]) == MAX_CHARACTERS
    assert len(pair["current"]["statements"]) == MAX_ITEMS
    whole = texts(record(answer="a" * MAX_CHARACTERS))
    assert (len(whole["pairs"][0]["current"]["text"]), whole["cut"]) == (MAX_CHARACTERS, False)


SECRET = "sk-live-0123456789abcdef"


@pytest.mark.parametrize("ahead", [0, MAX_CHARACTERS - 8])
def test_secrets_are_gone_before_anything_is_cut(ahead: int) -> None:
    leak = f"{'x' * ahead} {SECRET} {'y' * 40_000}"
    judged = Judgements(
        statements=StatementList((Statement("s1", leak),), abstains=False),
        support=SupportTable((Support("s1", Verdict.CONTRADICTED, (leak,), quote=leak),)),
        standalone_question=leak,
    )
    sample = dataclasses.replace(
        SAMPLE, question=leak, reference=leak, reference_contexts=(leak,), history=(Message("user", leak),)
    )
    now = record(Context(leak, leak), answer=leak, sample=sample, judged=judged)
    now = dataclasses.replace(now, scores={SECRET: Failed("judge", leak)})
    then = record(Context(leak + "!", leak), answer=leak + "!", sample=sample, judged=judged)
    assert "sk-live" not in repr(sample_texts(now, then, Redactor([SECRET])))


def test_nothing_invisible_gets_to_the_page() -> None:
    sample = dataclasses.replace(
        SAMPLE, question=every_fragment, reference=every_fragment, reference_contexts=(every_fragment,)
    )
    found = repr(texts(record(Context(every_fragment, every_fragment), answer=every_fragment, sample=sample)))
    assert not any(sign in found for sign in ("\u202e", "\u2066", "\x1b", "\ud800", "\u200b", "\\x1b", "\\ud800"))


SEARCH = Retrieval("returns", (Context("a"), Context("b")), "docs")
LOOKUP = ToolCall("lookup_order", {"order_id": 7, "to": {"city": "Köln"}}, "Shipped.")


def record_with(*steps: Step) -> SampleRecord:
    response = Response("a", "30 days.", steps=steps)
    return one_answer(Sample("a", "How long?"), response, (Judgements(),), {})


def shown(now: SampleRecord, then: SampleRecord | None = None, redact: Any = str) -> dict[str, Any]:
    (pair,) = sample_texts(now, then, redact)["pairs"]
    return dict(pair)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (SEARCH, 'docs "returns" → 2 contexts'),
        (Retrieval("x"), 'search "x" → 0 contexts'),
        (LOOKUP, 'lookup_order(order_id=7, to={"city": "Köln"}) → Shipped.'),
        (ToolCall("now"), "now() → no result"),
        (ToolCall("refund", error="no permission"), "refund() → failed: no permission"),
        (ModelCall("gpt-5", TokenUsage(800, 12), 1.2), "model gpt-5 → 812 tokens, 1.20 s"),
        (ModelCall(""), "model"),
    ],
)
def test_a_step_is_what_was_done_and_what_came_of_it(step: Step, line: str) -> None:
    assert PHRASES["step_text"](step) == line


def test_steps_on_the_page_are_few_short_and_without_secrets() -> None:
    secret = "sk-live-1234567890"
    leaks = ToolCall("call", {"key": secret}, "x" * 250 + secret * 1_000)
    pair = shown(record_with(*[leaks] * (MAX_ITEMS + 5)), redact=Redactor([secret]))
    assert len(pair["current"]["steps"]) == MAX_ITEMS
    assert secret[:8] not in repr(pair)
    assert max(map(len, pair["current"]["steps"])) <= MAX_CHARACTERS


def test_hostile_texts_in_steps_are_made_visible() -> None:
    hostile = ToolCall("a\x1b[2J", {"b": every_fragment}, every_fragment)
    assert "\x1b" not in repr(shown(record_with(hostile)))


TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/app.py", line 20, in answer
    documents = find(question)
                ^^^^^^^^^^^^^^
  File "/srv/rag/search.py", line 7, in find
    return index.query(
        question,
    )
  File "/srv/.venv/lib/python3.13/site-packages/index/client.py", line 900, in query
    raise ConnectionError(url)
ConnectionError: http://localhost:6333
"""


def test_the_last_frames_are_those_of_the_users_code_and_the_error() -> None:
    assert last_frames(TRACEBACK) == (
        'File "/srv/app.py", line 20, in answer',
        "  documents = find(question)",
        'File "/srv/rag/search.py", line 7, in find',
        "  return index.query(",
        "      question,",
        "  )",
        "ConnectionError: http://localhost:6333",
    )
    only_library = "\n".join(["Traceback (most recent call last):", *TRACEBACK.splitlines()[8:]])
    assert last_frames(only_library)[0].endswith("line 900, in query")


def test_many_frames_are_cut_to_the_last() -> None:
    frames = "".join(f'  File "/srv/app.py", line {n}, in answer\n    answer()\n' for n in range(1, 30))
    lines = last_frames(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    shown = [line for line in lines if line.startswith("File")]
    assert shown == [f'File "/srv/app.py", line {n}, in answer' for n in (27, 28, 29)]


def test_what_is_no_traceback_is_its_last_lines() -> None:
    assert last_frames("\n".join(map(str, range(20)))) == ("14", "15", "16", "17", "18", "19")
    assert last_frames(None) == ()


words = st.lists(st.sampled_from(["a", "bc", "d.", "e"]), max_size=30).map(" ".join)


APP = """
def find(question):
    return {}[question]

def answer(question):
    return find(question)
"""


def test_a_system_that_only_fails_is_not_asked_to_the_end_and_shows_where(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"What is {n}?", "reference": "It is."} for n in range(40)]
    write_rows(tmp_path / "golden.jsonl", rows)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    arguments = ["gate", "--golden", "golden.jsonl", "--entrypoint", "app:answer"]
    gate = ragstone(arguments, tmp_path, exit_code=4)
    assert "return {}[question]" in gate.stdout
    assert "system.log" not in gate.stdout
    run = tmp_path / "ragstone-run"
    records = (run / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum("not asked, since the first 20 questions failed" in record for record in records) >= 10
    markdown = (run / "report.md").read_text(encoding="utf-8")
    assert markdown.count("return {}[question]") == 1
    assert "return {}[question]" in (run / "report.html").read_text(encoding="utf-8")


def test_what_was_lost_and_what_was_gained_stand_beside_what_stayed() -> None:
    assert word_diff("The port is 8443.", "The port is 8080, or 80.", 500) == (
        Piece("same", "The port is"),
        Piece("gone", "8443."),
        Piece("new", "8080, or 80."),
    )


def test_long_unchanged_parts_are_left_out_between_changes() -> None:
    same = " ".join(f"w{i}" for i in range(40))
    found = word_diff(f"old {same} end", f"new {same} END", 500)
    assert [piece.text for piece in found] == ["old", "new", "w0 w1 w2 w3 … w36 w37 w38 w39", "end", "END"]


@given(words, words, st.integers(min_value=1, max_value=60))
def test_it_never_exceeds_its_limit_by_more_than_its_marks(before: str, now: str, limit: int) -> None:
    found = word_diff(before, now, limit)
    assert len(" ".join(piece.text for piece in found)) <= limit + 3


@given(words, words)
def test_nothing_that_changed_is_left_out_where_there_is_room(before: str, now: str) -> None:
    found = word_diff(before, now, 10_000)
    kept = [piece for piece in found if "…" not in piece.text]
    if len(kept) == len(found):
        assert " ".join(piece.text for piece in found if piece.kind != "new") == before
        assert " ".join(piece.text for piece in found if piece.kind != "gone") == now


def test_texts_in_tuples_are_redacted_and_cut_as_those_in_lists() -> None:
    preparer = TextPreparer(Redactor(["sk-live-0123456789"]))
    assert "sk-live" not in repr(preparer.prepare({"trace": ("uses sk-live-0123456789", ("sk-live-0123456789",))}))
    assert len(preparer.prepare(("x",) * (MAX_ITEMS + 1))) == MAX_ITEMS
    assert preparer.has_cut
