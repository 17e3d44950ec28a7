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
    prose = [
        column
        for column in _without(NO_REFERENCE, texts)
        if _is_prose(texts[column]) and column != question
    ]
    longest = max(prose, key=lambda column: len(texts[column]), default="")
    reference = _named(texts, "reference") or longest
    inside = ""
    if prefix:
        inside = f"{prefix}."
    asked = "NAME OF THE COLUMN"
    if question:
        asked = f"{inside}{question}"
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
    columns = _without(NO_QUESTION, texts)
    asking = [column for column in columns if texts[column].endswith(_QUESTION_MARKS)]
    prose = [column for column in columns if _is_prose(texts[column])]
    return next(iter([*asking, *prose]), "")


def _without(words: frozenset[str], texts: Iterable[str]) -> list[str]:
    """The columns whose names have none of `words`."""
    return [column for column in texts if words.isdisjoint(_name(column).split("_"))]


def _is_prose(text: str) -> bool:
    return " " in text or not text.isascii()
