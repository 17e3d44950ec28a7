"""Suggests the columns of a file without known names, for the message that refuses it."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.golden.aliases import FIELDS, normal
from ragstone.golden.profile import Kinds, Profile, follow

_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", ";")
"""Of Latin, Chinese, Arabic and Greek script."""

_SUGGESTED = ("question", "reference")


def suggested_columns(profile: Profile) -> list[str]:
    """The lines to write under [golden.columns]: a column with a known name inside any object, or else by its texts."""
    columns = {name: column for name in _SUGGESTED if (column := _by_name(profile, name)) is not None}
    texts = {".".join(path): _texts(profile, path) for path, kinds in profile.columns.items() if kinds & Kinds.TEXT}
    free = [name for name in texts if name not in columns.values() and not _has_other_name(name)]
    asking = [name for name in free if _asks(texts[name])]
    sentences = [name for name in free if _mean_words(texts[name]) >= 2]
    if "question" not in columns and (asking or sentences):
        columns["question"] = (asking or sentences)[0]
    answers = [name for name in sentences if name != columns.get("question")]
    if "reference" not in columns and answers:
        columns["reference"] = max(answers, key=lambda name: _mean_words(texts[name]))
    lines = {"question": "NAME OF THE COLUMN", **columns}
    return [f'{name} = "{column}"' for name, column in lines.items()]


def _by_name(profile: Profile, name: str) -> str | None:
    """The column with the best known name of the field `name` and a text, at any place."""
    for alias in FIELDS[name].strong + FIELDS[name].weak:
        for path, kinds in profile.columns.items():
            if normal(path[-1]) == alias and kinds & Kinds.TEXT:
                return ".".join(path)
    return None


def _has_other_name(name: str) -> bool:
    """Whether the column has a known name of another field than those that are suggested."""
    last = normal(name.rpartition(".")[2])
    others = [aliases for field, aliases in FIELDS.items() if field not in _SUGGESTED]
    return any(last in (*aliases.strong, *aliases.weak) for aliases in others)


def _texts(profile: Profile, path: tuple[str, ...]) -> list[str]:
    values = [follow(row.values, ".".join(path)) for row in profile.first_rows]
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]


def _mean_words(texts: Sequence[str]) -> float:
    """Words of a text, with one for every three characters where a script has no spaces."""
    words = [max(len(text.split()), len(text) / 3 if not text.isascii() else 0) for text in texts]
    return sum(words) / max(1, len(words))


def _asks(texts: Sequence[str]) -> bool:
    return sum(text.endswith(_QUESTION_MARKS) for text in texts) * 2 > len(texts)
