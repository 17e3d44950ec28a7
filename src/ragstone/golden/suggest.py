"""Suggests the columns of a file without known names: the block to paste into
ragstone.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragstone.golden.aliases import FIELDS, normal
from ragstone.golden.rows import Row

_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", ";")
"""Of Latin, Chinese, Arabic and Greek script."""

_FIELD_OF = {
    name: field
    for field, aliases in FIELDS.items()
    for name in (*reversed(aliases.weak), *reversed(aliases.strong))
}

_NO_QUESTION = frozenset(
    [
        "answer",
        "response",
        "output",
        "result",
        "reply",
        "prediction",
        "source",
        "context",
        "passage",
        "document",
        "reference",
        "evidence",
        "expected",
        "reason",
        "reasoning",
        "explanation",
        "error",
        "status",
        "verdict",
    ]
)
"""Words in the names of columns that hold no question."""

_NO_REFERENCE = frozenset(
    [
        "source",
        "context",
        "passage",
        "document",
        "file",
        "path",
        "url",
        "error",
        "status",
        "verdict",
        "preview",
    ]
)
"""Words in the names of columns that hold no right answer."""


def mapping_block(rows: Iterable[Row], prefix: str = "") -> str:
    """The lines to write, with the columns that their names, or else their texts, show
    to be question and reference.

    `prefix` is the path of the list that the rows are in.
    """
    texts: dict[str, list[str]] = {}
    for row in rows:
        for column, text in _texts(row.values):
            texts.setdefault(column, []).append(text)
    named = {
        _FIELD_OF.get(normal(column.rpartition(".")[2])): column
        for column in reversed(texts)
    }
    unnamed = [
        column for column in texts if normal(column.rpartition(".")[2]) not in _FIELD_OF
    ]
    sentences = [column for column in unnamed if _mean_words(texts[column]) >= 2]
    asking = [column for column in unnamed if _asks(texts[column])]
    questions = [
        column
        for column in (*asking, *sentences)
        if _words_of(column).isdisjoint(_NO_QUESTION)
    ]
    question = named.get("question") or next(iter(questions), "")
    answers = [
        column
        for column in sentences
        if column != question and _words_of(column).isdisjoint(_NO_REFERENCE)
    ]
    reference = named.get("reference") or max(
        answers, key=lambda column: _mean_words(texts[column]), default=""
    )
    inside = f"{prefix}." if prefix else ""
    block = f'[golden.columns]\n  question = "{inside + question if question else "NAME OF THE COLUMN"}"'
    return f'{block}\n  reference = "{inside}{reference}"' if reference else block


def _words_of(column: str) -> set[str]:
    return set(normal(column.rpartition(".")[2]).split("_"))


def _texts(values: Mapping[str, object], inside: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a row with their columns, one level into objects."""
    for key, value in values.items():
        if isinstance(value, Mapping) and not inside:
            yield from _texts(value, f"{key}.")
        elif isinstance(value, str) and value.strip():
            yield f"{inside}{key}", value.strip()


def _mean_words(texts: Sequence[str]) -> float:
    """Words of a text, with one for every three characters where a script has no
    spaces."""
    words = [
        max(len(text.split()), len(text) / 3 if not text.isascii() else 0)
        for text in texts
    ]
    return sum(words) / max(1, len(words))


def _asks(texts: Sequence[str]) -> bool:
    return sum(text.endswith(_QUESTION_MARKS) for text in texts) * 2 > len(texts)
