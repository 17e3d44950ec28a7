"""Golden rows with the earlier turns of a conversation."""

from __future__ import annotations

from pathlib import Path

from ragstone.golden.sample import Message
from tests.golden.loading import load_rows

TURNS = (Message("user", "How long may I return shoes?"), Message("assistant", "30 days."))


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
