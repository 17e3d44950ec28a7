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

TIME = "2026-11-22T11:00:00+01:00"


def read(columns: dict[LogField, str] | None = None, **record: Any) -> Interaction:
    return read_interaction(record, columns or {})


def test_every_field_that_the_policy_can_map_is_read() -> None:
    assert set(NAMES) == set(get_args(LogField))


@pytest.mark.parametrize(
    "time", [TIME, "2026-11-22T10:00:00", "2026-11-22 10:00Z", 1795341600, 1795341600000, "1795341600"]
)
def test_times_in_any_form_are_in_utc(time: object) -> None:
    assert read(timestamp=time, query="q").timestamp == datetime(2026, 11, 22, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"query": "q"}, BAD_FIELD.format("timestamp")),
        ({"query": "q", "timestamp": "yesterday"}, BAD_FIELD.format("timestamp")),
        ({"query": "q", "timestamp": 1e300}, BAD_FIELD.format("timestamp")),
        ({"timestamp": TIME, "level": "info"}, EMPTY),
        ({"timestamp": TIME, "feedback": True}, EMPTY),
        ({"timestamp": TIME, "query": "q", "sources": "['One text.', 'Tw"}, BAD_FIELD.format("sources")),
    ],
)
def test_what_is_no_interaction_says_why(record: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRecord) as caught:
        read(**record)
    assert str(caught.value) == problem


def test_names_in_another_spelling_are_known() -> None:
    interaction = read(createdAt=TIME, userInput="q", actualOutput="a", conversationId=1, durationMs="250")
    assert (interaction.question, interaction.answer, interaction.session_id, interaction.latency) == (
        "q",
        "a",
        "1",
        0.25,
    )


def test_a_chat_gives_its_last_question_and_the_turns_before_it() -> None:
    roles = zip(("user", "assistant", "user"), ("one", "a", "two"), strict=True)
    interaction = read(timestamp=TIME, messages=[{"role": role, "content": text} for role, text in roles])
    assert (interaction.question, interaction.history) == ("two", (Message("user", "one"), Message("assistant", "a")))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, 1), (False, 0), ("thumbs down", 0), ("👍", 1), (-1, -1), ("0", 0), ("perhaps", None), ("4", 4)],
)
def test_feedback_is_a_number_or_a_word(value: object, expected: float | None) -> None:
    assert read(timestamp=TIME, query="q", feedback=value).feedback == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("Timeout", True), ({"type": "X"}, True), ("false", False), (False, False), ({}, False)]
)
def test_an_error_is_whatever_went_wrong(value: object, expected: bool) -> None:
    assert read(timestamp=TIME, query="q", error=value).error is expected


def test_an_interaction_is_known_by_its_id_time_and_question_or_by_all_it_says() -> None:
    first = read(id=1, timestamp=TIME, query="q", answer="a")
    second = read(id=1, timestamp=TIME, query="q", answer="b")
    assert first.key == second.key
    assert read(timestamp=TIME, query="q", answer="a").key != read(timestamp=TIME, query="q", answer="b").key
    assert read(id=1, timestamp=TIME, query="q").key != read(id=1, timestamp=TIME, query="other").key


def test_sources_may_be_a_list_written_into_a_text() -> None:
    assert read(timestamp=TIME, query="q", answer="a", sources="['One text.', 'Two.']").sources == ("One text.", "Two.")
    assert read(timestamp=TIME, query="q", answer="a", sources="One text | still one").sources == (
        "One text | still one",
    )
    assert read(timestamp=TIME, query="q", sources=[]).sources == ()
    assert read(timestamp=TIME, query="q").sources is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.heavy
@given(st.dictionaries(st.sampled_from(sorted(NAMES)), JSON))
def test_any_record_is_an_interaction_or_counted(record: dict[str, Any]) -> None:
    try:
        interaction = read(**json.loads(json.dumps(record)))
    except BadRecord:
        return
    assert interaction.question or interaction.answer or interaction.error or interaction.is_feedback
    assert len(interaction.key) == 32
