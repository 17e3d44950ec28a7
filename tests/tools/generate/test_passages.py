"""Passages: parts of documents word for word, chosen for coverage, and quotes found in them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.tools.generate.documents import Document
from ragstone.tools.generate.passages import (
    MIN_LETTERS,
    PASSAGE,
    Passage,
    Related,
    find_quote,
    passages_of,
    spread_order,
)

WORDS = "The keeper of the seventh lighthouse writes down every ship that passes in the night. "


def test_passages_are_whole_paragraphs_from_heading_to_heading() -> None:
    ships = f"## Ships\n\n{WORDS * 2}Ships.\n\nMore on ships."
    text = f"# Guide\n\n{WORDS * 2}\n\n{ships}\n\n## Empty\n\n## Nights\n\n{WORDS * 3}"
    found = passages_of([Document("a.md", text)])
    assert [passage.text.splitlines()[0] for passage in found] == ["# Guide", "## Ships", "## Empty"]
    assert found[1].text.endswith("More on ships.")
    assert [passage.name for passage in found] == ["a.md:1", "a.md:2", "a.md:3"]


@given(st.lists(st.text(alphabet="ab. \n#é字。", max_size=4_000), max_size=3))
def test_a_passage_stands_in_its_document_and_is_neither_tiny_nor_huge(texts: list[str]) -> None:
    documents = [Document(str(at), text) for at, text in enumerate(texts)]
    for passage in passages_of(documents):
        assert passage.text in texts[int(passage.document)]
        assert len(passage.text) <= 2 * PASSAGE
        assert sum(map(str.isalnum, passage.text)) >= MIN_LETTERS


def test_copies_and_captions_are_left_out() -> None:
    licence = WORDS * 2
    found = passages_of([Document("a", licence), Document("b", licence.upper()), Document("c", "Figure 3.")])
    assert [passage.document for passage in found] == ["a"]


def test_every_document_has_a_turn_before_any_has_a_second_one() -> None:
    sizes = {"large": 40, "middle": 20, "small": 2}
    passages = [Passage(name, number, "") for name, size in sizes.items() for number in range(1, size + 1)]
    order = spread_order(passages, 3)
    assert sorted(order) == list(range(62))
    turns = [passages[place].document for place in order]
    assert set(turns[:3]) == set(turns[3:6]) == set(sizes)
    assert Counter(turns[6:42]) == {"large": 18, "middle": 18}
    assert order == spread_order(passages, 3)
    assert order != spread_order(passages, 4)


def anywhere(_: int) -> bool:
    return True


def test_related_passages_share_rare_words() -> None:
    texts = [
        "the night ferry to Aarau",
        "the ferry timetable",
        "bread and butter",
        "ferry tickets for Aarau",
        "the 字典索引",
        "cats",
    ]
    related = Related([Passage(str(at), 1, text) for at, text in enumerate(texts)])
    assert related.to("When does the ferry to Aarau leave?", most=2, among=anywhere)[0] in (0, 3)
    assert related.to("cheese", most=3, among=anywhere) == []
    assert related.to(texts[0], most=3, least=2, among=lambda at: at != 0)[0] == 3
    assert related.to("in Aarau by night", most=3, least=2, among=anywhere) == [0]
    assert related.to("字典", most=1, among=anywhere) == [4]


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("It\u2019s \u201cfree\u201d - from 22:00", 'It\'s "free" – from  22:00'),
        ('free" – from 22:00 on.', 'free" – from  22:00\non.'),
        ("the \ufb01rst", "the first"),
        ("  the first ", "the first"),
        ("The first", None),
        ("", None),
        (" \n", None),
        ("free of charge", None),
    ],
)
def test_quotes_are_found_despite_typography_and_returned_as_they_stand(quote: str, found: str | None) -> None:
    texts = ["Nothing.", 'It\'s "free" – from  22:00\non. See the first page.']
    assert find_quote(quote, texts) == (None if found is None else (1, found))


@given(st.text(max_size=60), st.data())
def test_every_part_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = find_quote(text[start:end], [text])
    if found is not None:
        assert found[1] in text
    elif text[start:end].isalnum() and text.isascii():
        raise AssertionError
