"""Tells names of documents (paths, file names, addresses, ids) from passages of
text."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME = 512
"""Maximum length of a name, in characters."""

_ENDINGS = (
    "md|mdx|markdown|txt|text|rst|adoc|tex|pdf|docx?|odt|rtf|pages|pptx?|odp|xlsx?|ods|csv|tsv|jsonl?|ya?ml|xml|toml|"
    "html?|epub|msg|eml|ipynb|log|srt|vtt|parquet"
)
_FILE = rf"(?i)[^\r\n\t<>|*?\"]{{1,200}}\.(?:{_ENDINGS})(?:[#?:][^\s]*)?"
_MAX_WORDS = 12
_ADDRESS = r"(?i)[a-z][a-z0-9+.-]{1,15}://\S+"
_ID = r"[A-Za-z0-9_./~][A-Za-z0-9_./:#@+~=&%()-]*"
_TELLING = (
    r"\d|[A-Za-z0-9][_/:#@]|/[A-Za-z0-9]|[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9]\.[A-Za-z]"
)
"""What an id has and a single word of prose has not."""

_QUANTITY = r"\d+(?:[-./:,]\d+)+%?|\d+%"
"""A date, a time, a decimal or a percentage, which may be all that a passage says."""

_SENTENCE_END = r"[.!?]\s|[。！？]"


def is_name(text: str) -> bool:
    """Whether `text` is plainly the name of a document: a file name with the ending of
    one (it may have spaces), an address, or an id or path in ASCII, without spaces and
    with a digit or a separator.

    A single word, such as "Paris", is none, nor is text in a script without spaces, nor
    a quantity ("2024-01-15").
    """
    name = text.strip()
    if (
        not 0 < len(name) <= MAX_NAME
        or name.endswith((".", "!", ";", ","))
        or re.fullmatch(_QUANTITY, name)
    ):
        return False
    if re.fullmatch(_FILE, name):
        return len(name.split()) <= _MAX_WORDS and not re.search(_SENTENCE_END, name)
    return bool(
        re.fullmatch(_ADDRESS, name)
        or (re.fullmatch(_ID, name) and re.search(_TELLING, name))
    )


def are_names(texts: Iterable[str]) -> bool:
    """Whether there are texts, and each is plainly the name of a document."""
    every_text = list(texts)
    return bool(every_text) and all(map(is_name, every_text))
