"""Suggests the columns of a file without known names: the block to paste into
ragstone.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ragstone.golden.aliases import FIELDS, NO_QUESTION, NO_REFERENCE, last_name
from ragstone.golden.rows import Table

_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""Of Latin, Chinese, Arabic and Greek script."""


def mapping_block(table: Table) -> str:
    """The lines to write, with the columns that their names, or else their texts, show
    to be question and reference."""
    texts: dict[str, str] = {}
    for row in table.rows:
        for column, text in _texts(row.values):
            texts.setdefault(column, text)
    asking = [name for name, text in texts.items() if text.endswith(_QUESTION_MARKS)]
    sentences = [name for name, text in texts.items() if _is_prose(text)]
    question = _named(texts, "question") or _first_without(
        NO_QUESTION, [*asking, *sentences]
    )
    longest_first = sorted(sentences, key=lambda name: -len(texts[name]))
    answers = [name for name in longest_first if name != question]
    reference = _named(texts, "reference") or _first_without(NO_REFERENCE, answers)
    shown = table.column(question) if question else "NAME OF THE COLUMN"
    block = f'[golden.columns]\n  question = "{shown}"'
    if reference:
        block += f'\n  reference = "{table.column(reference)}"'
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
        if last_name(column) in names:
            return column
    return ""


def _first_without(words: frozenset[str], columns: Iterable[str]) -> str:
    """The first column whose name has none of `words`."""
    for column in columns:
        words_of_name = last_name(column).split("_")
        if words.isdisjoint(words_of_name):
            return column
    return ""


def _is_prose(text: str) -> bool:
    return " " in text or not text.isascii()
