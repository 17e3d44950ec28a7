"""Suggests which columns of a file without known names to map: the block to paste into
ragstone.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ragstone.golden.aliases import FIELDS, NO_QUESTION, NO_REFERENCE, last_name
from ragstone.golden.rows import Table

_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""The question marks of Latin, Chinese, Arabic and Greek script."""

_PLACEHOLDER = "NAME OF THE COLUMN"
"""Stands for a column of questions that can't be guessed."""


def suggest_mapping(table: Table) -> str:
    """Return the lines of TOML that map question and reference to the columns that seem
    to hold them, by their names or else by their first texts."""
    first_texts: dict[str, str] = {}
    for row in table.rows:
        for column, text in _texts_of(row.values):
            first_texts.setdefault(column, text)
    with_question_mark = [
        column for column, text in first_texts.items() if text.endswith(_QUESTION_MARKS)
    ]
    with_prose = [column for column, text in first_texts.items() if _is_prose(text)]
    question = _column_of_field("question", first_texts)
    question = question or _first_without(
        NO_QUESTION, [*with_question_mark, *with_prose]
    )
    longest_first = sorted(with_prose, key=lambda column: -len(first_texts[column]))
    possible_references = [column for column in longest_first if column != question]
    reference = _column_of_field("reference", first_texts)
    reference = reference or _first_without(NO_REFERENCE, possible_references)
    question_path = table.column(question) if question else _PLACEHOLDER
    block = f'[golden.columns]\n  question = "{question_path}"'
    if reference:
        block += f'\n  reference = "{table.column(reference)}"'
    return block


def _texts_of(
    values: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield each column with a text, and its text, one level into objects."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not prefix:
            yield from _texts_of(value, f"{key}.")
        elif isinstance(value, str) and value.strip():
            column = f"{prefix}{key}"
            yield column, value.strip()


def _column_of_field(field: str, columns: Iterable[str]) -> str:
    """Return the first column that has a known name of `field`, "" if there is none."""
    names = FIELDS[field].names
    for column in columns:
        if last_name(column) in names:
            return column
    return ""


def _first_without(words: frozenset[str], columns: Iterable[str]) -> str:
    """Return the first column with none of `words` in its name, "" if there is none."""
    for column in columns:
        words_of_name = last_name(column).split("_")
        if words.isdisjoint(words_of_name):
            return column
    return ""


def _is_prose(text: str) -> bool:
    # Some scripts have no spaces.
    return " " in text or not text.isascii()
