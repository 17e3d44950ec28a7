"""Records of any shape are interactions, or are counted as what they are not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.tools.monitor.interaction import BadRecord, Interaction, Problem, Reader


def hashed(value: str) -> bytes:
    return f"<{value}>".encode()


def read(columns: dict[str, str] | None = None, good_from: float | None = None, **record: Any) -> Interaction:
    return Reader(columns or {}, hashed, good_from=good_from).read(record)


T = "2026-11-22T10:00:00Z"


def test_the_plain_shape() -> None:
    one = read(
        timestamp=T, query="q", answer="a", sources=["s"], latency_ms=1500, user_id=7, session_id="s1", route="x"
    )
    assert (one.query, one.answer, one.sources, one.latency_s, one.route) == ("q", "a", ("s",), 1.5, "x")
    assert (one.user, one.session, one.error, one.feedback) == (b"<7>", b"<s1>", None, None)
    assert one.time == datetime(2026, 11, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-22T10:00:00Z",
        "2026-11-22T11:00:00+01:00",
        "2026-11-22 10:00:00",
        1795341600,
        1795341600000,
        1795341600000000,
        1795341600000000000,
        "1795341600",
        "1795341600.0",
    ],
)
def test_times_in_all_usual_forms(value: object) -> None:
    assert read(ts=value, query="q").time == datetime(2026, 11, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"query": "q"}, Problem.NO_TIME),
        ({"query": "q", "timestamp": "yesterday"}, Problem.BAD_TIME),
        ({"query": "q", "timestamp": True}, Problem.BAD_TIME),
        ({"query": "q", "timestamp": 1e300}, Problem.BAD_TIME),
        ({"timestamp": T, "level": "info"}, Problem.EMPTY),
        ({"timestamp": T, "feedback": True}, Problem.EMPTY),
    ],
)
def test_what_is_no_interaction_says_why(record: dict[str, Any], problem: Problem) -> None:
    with pytest.raises(BadRecord) as caught:
        read(**record)
    assert caught.value.problem is problem


def test_columns_of_any_shape_are_mapped() -> None:
    one = read(
        {"timestamp": "meta.at", "query": "body.q", "answer": "body.reply.text", "user_id": "meta.who"},
        meta={"at": T, "who": "anna"},
        body={"q": "q", "reply": {"text": "a"}},
    )
    assert (one.query, one.answer, one.user) == ("q", "a", b"<anna>")


def test_names_in_another_spelling_are_known() -> None:
    one = read(createdAt=T, userInput="q", actualOutput="a", conversationId=1, durationMs="250")
    assert (one.query, one.answer, one.session, one.latency_s) == ("q", "a", b"<1>", 0.25)


def test_a_chat_gives_its_last_question() -> None:
    turns = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "two"},
    ]
    assert read(timestamp=T, messages=turns).query == "two"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1.0),
        (False, 0.0),
        ("thumbs down", 0.0),
        ("👍", 1.0),
        (1, 1.0),
        (-1, 0.0),
        ("0", 0.0),
        ({"score": 1}, 1.0),
        ("perhaps", None),
        (float("nan"), None),
    ],
)
def test_feedback_is_good_or_bad(value: object, expected: float | None) -> None:
    assert read(timestamp=T, query="q", feedback=value).feedback == expected


def test_stars_are_good_from_a_number_on() -> None:
    assert [read(None, 4, timestamp=T, query="q", rating=n).feedback for n in (3, 4)] == [0.0, 1.0]


def test_an_interaction_is_known_by_its_id_and_time_or_by_all_it_says() -> None:
    one, two = read(id=1, timestamp=T, query="q", answer="a"), read(id=1, timestamp=T, query="q", answer="b")
    assert one.key == two.key
    assert read(timestamp=T, query="q", answer="a").key != read(timestamp=T, query="q", answer="b").key
    assert read(id=1, timestamp=T, query="q").key != read(id=1, timestamp=T, query="other").key


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["id", "timestamp", "query", "answer", "sources", "results", "latency_ms", "user_id", "error", "feedback"]


@pytest.mark.heavy
@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_record_is_an_interaction_or_counted(record: dict[str, Any]) -> None:
    try:
        one = read(**json.loads(json.dumps(record)))
    except BadRecord:
        return
    assert one.query or one.answer or one.error or one.only_feedback
    assert len(one.key) == 16
    (one.query + one.answer + one.route).encode("utf-8")


def test_sources_may_be_a_list_written_into_a_text() -> None:
    assert read(timestamp=T, query="q", answer="a", sources="['One text.', 'Two.']").sources == ("One text.", "Two.")
    assert read(timestamp=T, query="q", answer="a", sources="One text | still one").sources == ("One text | still one",)
    with pytest.raises(BadRecord, match="begin like a list"):
        read(timestamp=T, query="q", answer="a", sources="['One text.', 'Tw")
