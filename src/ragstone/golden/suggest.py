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
    question = _named(texts, "question") or _asking(texts)
    reference = _named(texts, "reference") or _longest(texts, besides=question)
    inside = f"{prefix}." if prefix else ""
    asked = f"{inside}{question}" if question else "NAME OF THE COLUMN"
    block = f'[golden.columns]\n  question = "{asked}"'
    return f'{block}\n  reference = "{inside}{reference}"' if reference else block


def _texts(values: Mapping[str, object], inside: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a row with their columns, one level into objects."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not inside:
            yield from _texts(value, f"{key}.")
        elif isinstance(value, str) and value.strip():
            yield f"{inside}{key}", value.strip()


def _named(texts: Iterable[str], field: str) -> str:
    """The first column with a name of `field`."""
    names = (*FIELDS[field].strong, *FIELDS[field].weak)
    return next((column for column in texts if _name(column) in names), "")


def _name(column: str) -> str:
    return normal(column.rpartition(".")[2])


def _asking(texts: Mapping[str, str]) -> str:
    """The first column with questions, or else with sentences."""
    columns = [
        column for column in texts if NO_QUESTION.isdisjoint(_name(column).split("_"))
    ]
    for column in columns:
        if texts[column].endswith(_QUESTION_MARKS):
            return column
    return next((column for column in columns if _is_prose(texts[column])), "")


def _longest(texts: Mapping[str, str], besides: str) -> str:
    columns = [
        column
        for column, text in texts.items()
        if _is_prose(text)
        and column != besides
        and NO_REFERENCE.isdisjoint(_name(column).split("_"))
    ]
    return max(columns, key=lambda column: len(texts[column]), default="")


def _is_prose(text: str) -> bool:
    return " " in text or not text.isascii()
