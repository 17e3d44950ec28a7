"""Records of any shape as interactions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.gate.policy_table import LogField
from ragstone.golden.sample import Message
from ragstone.tools.monitor.interactions import BAD_FIELD, EMPTY, NAMES, BadRecord, Interaction, read_interaction

T = "2026-11-22T11:00:00+01:00"


def read(columns: dict[LogField, str] | None = None, **record: Any) -> Interaction:
    return read_interaction(record, columns or {})


def test_every_field_that_the_policy_can_map_is_read() -> None:
    assert set(NAMES) == set(get_args(LogField))


@pytest.mark.parametrize(
    "time", [T, "2026-11-22T10:00:00", "2026-11-22 10:00Z", 1795341600, 1795341600000, "1795341600"]
)
def test_times_in_any_form_are_in_utc(time: object) -> None:
    assert read(timestamp=time, query="q").timestamp == datetime(2026, 11, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"query": "q"}, BAD_FIELD.format("timestamp")),
        ({"query": "q", "timestamp": "yesterday"}, BAD_FIELD.format("timestamp")),
        ({"query": "q", "timestamp": 1e300}, BAD_FIELD.format("timestamp")),
        ({"timestamp": T, "level": "info"}, EMPTY),
        ({"timestamp": T, "feedback": True}, EMPTY),
        ({"timestamp": T, "query": "q", "sources": "['One text.', 'Tw"}, BAD_FIELD.format("sources")),
    ],
)
def test_what_is_no_interaction_says_why(record: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRecord) as caught:
        read(**record)
    assert str(caught.value) == problem


def test_names_in_another_spelling_are_known() -> None:
    one = read(createdAt=T, userInput="q", actualOutput="a", conversationId=1, durationMs="250")
    assert (one.question, one.answer, one.session_id, one.latency) == ("q", "a", "1", 0.25)


def test_a_chat_gives_its_last_question_and_the_turns_before_it() -> None:
    roles = zip(("user", "assistant", "user"), ("one", "a", "two"), strict=True)
    one = read(timestamp=T, messages=[{"role": role, "content": text} for role, text in roles])
    assert (one.question, one.history) == ("two", (Message("user", "one"), Message("assistant", "a")))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, 1), (False, 0), ("thumbs down", 0), ("👍", 1), (-1, -1), ("0", 0), ("perhaps", None), ("4", 4)],
)
def test_feedback_is_a_number_or_a_word(value: object, expected: float | None) -> None:
    assert read(timestamp=T, query="q", feedback=value).feedback == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("Timeout", True), ({"type": "X"}, True), ("false", False), (False, False), ({}, False)]
)
def test_an_error_is_whatever_went_wrong(value: object, expected: bool) -> None:
    assert read(timestamp=T, query="q", error=value).error is expected


def test_an_interaction_is_known_by_its_id_time_and_question_or_by_all_it_says() -> None:
    one, two = read(id=1, timestamp=T, query="q", answer="a"), read(id=1, timestamp=T, query="q", answer="b")
    assert one.key == two.key
    assert read(timestamp=T, query="q", answer="a").key != read(timestamp=T, query="q", answer="b").key
    assert read(id=1, timestamp=T, query="q").key != read(id=1, timestamp=T, query="other").key


def test_sources_may_be_a_list_written_into_a_text() -> None:
    assert read(timestamp=T, query="q", answer="a", sources="['One text.', 'Two.']").sources == ("One text.", "Two.")
    assert read(timestamp=T, query="q", answer="a", sources="One text | still one").sources == ("One text | still one",)
    assert read(timestamp=T, query="q", sources=[]).sources == ()
    assert read(timestamp=T, query="q").sources is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.heavy
@given(st.dictionaries(st.sampled_from(sorted(NAMES)), JSON))
def test_any_record_is_an_interaction_or_counted(record: dict[str, Any]) -> None:
    try:
        one = read(**json.loads(json.dumps(record)))
    except BadRecord:
        return
    assert one.question or one.answer or one.error or one.is_feedback
    assert len(one.key) == 32
