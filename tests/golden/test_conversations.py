"""Golden rows with the earlier turns of a conversation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.errors import GoldenSetError
from ragstone.golden.sample import Message
from tests.golden.loading import load_rows

TURNS = (Message("user", "How long may I return shoes?"), Message("assistant", "30 days."))


@pytest.mark.parametrize(
    "row",
    [
        {"history": [{"role": "user", "content": TURNS[0].text}, {"role": "assistant", "content": "30 days."}]},
        {"chat_history": [{"type": "human", "content": TURNS[0].text}, {"type": "ai", "content": "30 days."}]},
        {"history": [TURNS[0].text, "30 days."]},
        {"history": [[TURNS[0].text, "30 days."]]},
        {"history": json.dumps([TURNS[0].text, "30 days."])},
    ],
)
def test_layouts_of_a_history(tmp_path: Path, row: dict[str, object]) -> None:
    (sample,) = load_rows(tmp_path, {"question": "And without the receipt?", **row})
    assert (sample.question, sample.history) == ("And without the receipt?", TURNS)


def test_a_chat_is_its_last_question_and_what_came_before(tmp_path: Path) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": TURNS[0].text},
        {"role": "tool", "content": "{}"},
        {"role": "assistant", "content": "30 days."},
        {"role": "user", "content": "And without the receipt?"},
        {"role": "assistant", "content": "Then not."},
    ]
    golden = load_rows(
        tmp_path, {"messages": chat, "reference": "Not."}, {"messages": chat[1:2], "reference": "30 days."}
    )
    assert [sample.history for sample in golden] == [(Message("system", "Be brief."), *TURNS), ()]
    assert "earlier turns of conversations are read (samples with a history: 1)" in golden.mappings[0].notes


def test_a_history_is_part_of_what_is_asked(tmp_path: Path) -> None:
    plain, one, other = (
        load_rows(tmp_path, {"question": "And then?", **row}).samples[0]
        for row in ({}, {"history": ["a", "b"]}, {"history": ["a", "c"]})
    )
    assert len({plain.content_hash(), one.content_hash(), other.content_hash()}) == 3
    assert len({plain.id, one.id, other.id}) == 3
    assert plain.id == load_rows(tmp_path, {"question": "And then?", "history": []}).samples[0].id


@pytest.mark.parametrize(
    ("history", "says"),
    [
        ("He asked before", "expected a list of messages"),
        ([7], "expected a message with role and content"),
        (["x"] * 201, "contains 201 messages; at most 200"),
    ],
)
def test_what_is_no_history_is_refused_with_its_line(tmp_path: Path, history: object, says: str) -> None:
    with pytest.raises(GoldenSetError, match=says) as error:
        load_rows(tmp_path, {"question": "And then?", "history": history})
    assert str(error.value.where).endswith("golden.jsonl:1")
