"""Suggests the columns of a file without known names: the block to paste into
ragstone.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ragstone.golden.aliases import FIELDS, NO_QUESTION, NO_REFERENCE, normal
from ragstone.golden.rows import Row

_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""Of Latin, Chinese, Arabic and Greek script."""


def mapping_block(rows: Iterable[Row], prefix: str = "") -> str:
    """The lines to write, with the columns that their names, or else their texts, show
    to be question and reference.

    `prefix` is the path of the list that the rows are in.
    """
    texts: dict[str, str] = {}
    for row in rows:
        for column, text in _texts(row.values):
            texts.setdefault(column, text)
    asking: list[str] = []
    sentences: list[str] = []
    for column, text in texts.items():
        if text.endswith(_QUESTION_MARKS):
            asking.append(column)
        if _is_prose(text):
            sentences.append(column)
    question = _named(texts, "question")
    if not question:
        question = _first_without(NO_QUESTION, [*asking, *sentences])
    if question in sentences:
        sentences.remove(question)
    sentences.sort(key=lambda column: -len(texts[column]))
    reference = _named(texts, "reference") or _first_without(NO_REFERENCE, sentences)
    inside = f"{prefix}." if prefix else ""
    shown = "NAME OF THE COLUMN"
    if question:
        shown = f"{inside}{question}"
    block = f'[golden.columns]\n  question = "{shown}"'
    if reference:
        block += f'\n  reference = "{inside}{reference}"'
    return block


def _texts(values: Mapping[str, object], inside: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a row with their columns, one level into objects."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not inside:
            yield from _texts(value, f"{key}.")
        elif isinstance(value, str) and value.strip():
            column = f"{inside}{key}"
            yield column, value.strip()


def _named(columns: Iterable[str], field: str) -> str:
    """The first column with a name of `field`."""
    names = FIELDS[field].names
    for column in columns:
        if _name(column) in names:
            return column
    return ""


def _first_without(words: frozenset[str], columns: Iterable[str]) -> str:
    """The first column whose name has none of `words`."""
    for column in columns:
        words_of_name = _name(column).split("_")
        if words.isdisjoint(words_of_name):
            return column
    return ""


def _name(column: str) -> str:
    inner_name = column.rpartition(".")[2]
    return normal(inner_name)


def _is_prose(text: str) -> bool:
    return " " in text or not text.isascii()
