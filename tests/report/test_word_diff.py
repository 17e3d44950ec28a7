"""What changed between two answers, word by word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.report.word_diff import Piece, word_diff

words = st.lists(st.sampled_from(["a", "bc", "d.", "e"]), max_size=30).map(" ".join)


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
