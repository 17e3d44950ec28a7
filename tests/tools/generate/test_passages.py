"""Passages: parts of documents word for word, chosen for coverage, and quotes found in them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.tools.generate import passages as module
from ragstone.tools.generate.passages import Passage, RelatedPassages, find_quote, passages_of, spread_order

WORDS = "The keeper of the seventh lighthouse writes down every ship that passes in the night. "


def test_passages_are_whole_paragraphs_from_heading_to_heading() -> None:
    ships = f"## Ships\n\n{WORDS * 2}Ships.\n\nMore on ships."
    text = f"# Guide\n\n{WORDS * 2}\n\n{ships}\n\n## Empty\n\n## Nights\n\n{WORDS * 3}"
    found = passages_of({"a.md": text})
    assert [passage.text.splitlines()[0] for passage in found] == ["# Guide", "## Ships", "## Empty"]
    assert found[1].text.endswith("More on ships.")
    assert [passage.name for passage in found] == ["a.md:1", "a.md:2", "a.md:3"]


@given(st.lists(st.text(alphabet="ab. \n#é字。", max_size=4_000), max_size=3))
def test_a_passage_stands_in_its_document_and_is_neither_tiny_nor_huge(texts: list[str]) -> None:
    documents = {str(at): text for at, text in enumerate(texts)}
    for passage in passages_of(documents):
        assert passage.text in texts[int(passage.document)]
        assert len(passage.text) <= 2 * module.MAX_CHARACTERS
        assert sum(map(str.isalnum, passage.text)) >= module.MIN_LETTERS


def test_copies_and_captions_are_left_out() -> None:
    licence = WORDS * 2
    found = passages_of({"a": licence, "b": licence.upper(), "c": "Figure 3."})
    assert [passage.document for passage in found] == ["a"]


def test_every_document_has_a_turn_before_any_has_a_second_one() -> None:
    sizes = {"large": 40, "middle": 20, "small": 2}
    passages = [Passage(name, number, "") for name, size in sizes.items() for number in range(1, size + 1)]
    order = spread_order(passages, 3)
    assert set(order) == set(passages)
    turns = [passage.document for passage in order]
    assert set(turns[:3]) == set(turns[3:6]) == set(sizes)
    assert Counter(turns[6:42]) == {"large": 18, "middle": 18}
    assert order == spread_order(passages, 3)
    assert order != spread_order(passages, 4)


def test_related_passages_share_rare_words() -> None:
    texts = ["the night ferry to Aarau", "the ferry timetable", "bread", "ferry tickets for Aarau", "the 字典索引"]
    related = RelatedPassages([Passage(str(number), 1, text) for number, text in enumerate(texts)])

    def closest(text: str, without: int = -1) -> list[str]:
        among = related.find(text, limit=3, is_candidate=lambda passage: passage.document != str(without))
        return [passage.document for passage in among]

    assert closest("When does the ferry to Aarau leave?")[0] in ("0", "3")
    assert closest("cheese") == []
    assert closest(texts[0], without=0)[0] == "3"
    assert closest("in Aarau by night")[0] == "0"
    assert closest("字典") == ["4"]


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("It\u2019s \u201cfree\u201d - from 22:00", 'It\'s "free" – from  22:00'),
        ('free" – from 22:00 on.', 'free" – from  22:00\non.'),
        ("  the first ", "the first"),
        ("The first", None),
        ("", None),
        ("free of charge", None),
    ],
)
def test_quotes_are_found_despite_typography_and_returned_as_they_stand(quote: str, found: str | None) -> None:
    assert find_quote(quote, 'It\'s "free" – from  22:00\non. See the first page.') == found


@given(st.text(max_size=60), st.data())
def test_every_part_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    found = find_quote(text[start:end], text)
    assert found is not None or not (text[start:end].isalnum() and text.isascii())
    assert (found or "") in text
