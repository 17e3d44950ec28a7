"""Texts longer than the window are judged in parts: nothing is cut off, and the merge follows its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.judge.judgements import Statement
from ragstone.judge.llm.windows import cut_into_pieces, pack_into_parts, room_for_data, tokens_at_most
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.system.response import Context
from tests.judge.conftest import asked_of, contexts_of

texts = st.text(alphabet=st.sampled_from("ab. \n文é"), max_size=400)


@settings(max_examples=100, deadline=None)
@given(text=texts, room=st.integers(10, 60))
def test_the_pieces_of_a_text_are_the_whole_text_and_each_fits(text: str, room: int) -> None:
    pieces = cut_into_pieces(text, room)
    assert "".join(pieces) == text
    assert all(tokens_at_most(piece) <= room for piece in pieces)


@settings(max_examples=100, deadline=None)
@given(contexts=st.lists(texts.filter(bool), min_size=1, max_size=6), room=st.integers(40, 120))
def test_parts_hold_every_context_in_order_and_each_part_fits(contexts: list[str], room: int) -> None:
    named = [(f"c{at}", text) for at, text in enumerate(contexts, start=1)]
    parts = pack_into_parts(named, room)
    for name, text in named:
        assert "".join(piece for part in parts for owner, piece in part if owner == name) == text
    assert all(parts)
    for part in parts:
        assert sum(tokens_at_most(piece) + 20 for _, piece in part) <= room


@pytest.mark.parametrize(("room", "sizes"), [(62, [2]), (61, [1, 1]), (42, [1, 1])])
def test_a_part_is_filled_to_the_last_token(room: int, sizes: list[int]) -> None:
    """Eleven tokens each of 30 and 32 letters, with 20 for the marks."""
    assert [len(part) for part in pack_into_parts([("c1", "x" * 30), ("c2", "y" * 32)], room)] == sizes


def test_texts_that_leave_no_room_for_contexts_are_too_long() -> None:
    assert room_for_data(1_000, "", 699, []) == 200
    with pytest.raises(JudgementFailed, match="window of 1,000 tokens"):
        room_for_data(1_000, "", 700, [])


def test_a_cut_falls_between_paragraphs_or_sentences_where_it_can() -> None:
    first = "The bridge opened. " * 3
    assert cut_into_pieces(f"{first}\n\nThe mill closed. It was old.", 24)[0] == f"{first}\n\n"
    assert cut_into_pieces("x" * 30, tokens_at_most("x" * 30)) == ["x" * 30], "what just fits is not cut"


def long_contexts() -> list[Context]:
    return [Context(f"Marker{n}. " + "Some filler words here. " * 250) for n in range(1, 6)]


def by_marker(marked: dict[str, str]) -> Any:
    """A model that finds statement s in the part with its marker, and says "unsupported" elsewhere."""

    def fill(_schema: Any, data: str) -> Any:
        given = []
        for name in asked_of(data)["verdicts"]:
            rank, word = marked[name].split()
            is_in_part = f"Marker{rank}." in data
            evidence, quote = ([f"c{rank}"], f"marker{rank}.  some FILLER") if is_in_part else ([], "")
            verdict = word if is_in_part else "unsupported"
            given.append({"id": name, "evidence": evidence, "against": [], "quote": quote, "verdict": verdict})
            assert not is_in_part or f"c{rank}" in contexts_of(data)
        return {"verdicts": given}

    return fill


def test_support_in_any_part_is_support_and_contradiction_counts_where_nothing_supports(world: Any) -> None:
    marked = {"s1": "1 supported", "s2": "5 supported", "s3": "3 contradicted", "s4": "9 supported"}
    world.fake.fill = by_marker(marked)
    statements = [Statement(name, f"Statement {name}.") for name in marked]
    judge = world.judge(context_window=8_192)
    table = world.run(judge.support(long_contexts(), statements, call=Call("q1")))
    assert len(world.fake.chats) > 1
    assert [str(each.verdict) for each in table.supports] == ["supported", "supported", "contradicted", "unsupported"]
    assert [each.supported_by for each in table.supports] == [("c1",), ("c5",), (), ()]
    assert any("be made in parts" in note for note in judge.notes)


def test_context_use_in_parts_lists_the_reference_once_and_unites_what_is_found(world: Any) -> None:
    def fill(schema: Any, data: str) -> Any:
        here = [f"c{n}" for n in range(1, 6) if f"Marker{n}." in data]
        asked = asked_of(data)
        contexts = [{"id": name, "use": "useful" if name in here else "not_useful"} for name in asked["contexts"]]
        text = "It opened." if asked["reference_statements"] == ["*"] else ""
        return {"contexts": contexts, "reference_statements": [{"id": "r1", "text": text, "found_in": here}]}

    world.fake.fill = fill
    judge = world.judge(context_window=8_192)
    use = world.run(judge.context_use("When?", "It opened.", "It did.", long_contexts(), call=Call("q1")))
    assert len(world.fake.chats) > 1
    assert [each.context_id for each in use.contexts] == ["c1", "c2", "c3", "c4", "c5"]
    assert all(each.useful for each in use.contexts)
    assert use.attributions[0].supported_by == ("c1", "c2", "c3", "c4", "c5")
    assert [item.text for item in use.reference_statements] == ["It opened."]


@pytest.mark.parametrize("kind", ["statements", "reverse", "match", "support", "relevance"])
def test_what_can_not_be_split_says_that_it_is_too_long(world: Any, kind: str) -> None:
    judge = world.judge(context_window=8_192)
    answer = "The bridge is long. " * 2_000
    work: Callable[[], Any] = {
        "statements": lambda: judge.statements("How?", answer, call=Call("q1")),
        "relevance": lambda: judge.context_relevance("How?", [Context(answer)], call=Call("q1")),
        "reverse": lambda: judge.reverse_questions("How?", answer, n=3, call=Call("q1")),
        "match": lambda: judge.reference_match("How?", answer, [Statement("s1", "It is.")], "It is.", call=Call("q1")),
        "support": lambda: judge.support([Context("x")], [Statement("s1", answer)], call=Call("q1")),
    }[kind]
    with pytest.raises(JudgementFailed, match="window of 8,192 tokens"):
        world.run(work())
    assert world.fake.chats == []


def test_a_window_that_nobody_states_is_said(world: Any) -> None:
    assert any("set judge.context_window" in note for note in world.judge("openai-compatible:llama").notes)
    assert world.judge("openai-compatible:llama", context_window=8_192).notes == ()
    assert world.judge("openai:gpt-4o-mini").notes == ()
