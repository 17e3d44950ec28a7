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
    sentences = [column for column, text in texts.items() if _is_prose(text)]
    asking = [
        column for column, text in texts.items() if text.endswith(_QUESTION_MARKS)
    ]
    inside = f"{prefix}." if prefix else ""
    question = _named(texts, "question") or _first_without(
        NO_QUESTION, [*asking, *sentences]
    )
    longest_first = sorted(sentences, key=lambda column: -len(texts[column]))
    reference = _named(texts, "reference") or _first_without(
        NO_REFERENCE, [column for column in longest_first if column != question]
    )
    block = "[golden.columns]\n  question = "
    block += f'"{inside}{question}"' if question else '"NAME OF THE COLUMN"'
    return f'{block}\n  reference = "{inside}{reference}"' if reference else block


def _texts(values: Mapping[str, object], inside: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a row with their columns, one level into objects."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not inside:
            yield from _texts(value, f"{key}.")
        elif isinstance(value, str) and value.strip():
            yield f"{inside}{key}", value.strip()


def _named(columns: Iterable[str], field: str) -> str:
    """The first column with a name of `field`."""
    names = (*FIELDS[field].strong, *FIELDS[field].weak)
    return next((column for column in columns if _name(column) in names), "")


def _first_without(words: frozenset[str], columns: Iterable[str]) -> str:
    """The first column whose name has none of `words`."""
    for column in columns:
        if words.isdisjoint(_name(column).split("_")):
            return column
    return ""


def _name(column: str) -> str:
    return normal(column.rpartition(".")[2])


def _is_prose(text: str) -> bool:
    return " " in text or not text.isascii()
