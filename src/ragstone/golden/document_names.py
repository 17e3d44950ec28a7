"""Distinguishes names of documents (paths, file names, addresses, ids) from passages of
text."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME_CHARACTERS = 512

_FILE_EXTENSIONS = (
    "md|mdx|markdown|txt|text|rst|adoc|tex|pdf|docx?|odt|rtf|pages|pptx?|odp|xlsx?|ods|csv|tsv|jsonl?|ya?ml|xml|toml|"
    "html?|epub|msg|eml|ipynb|log|srt|vtt|parquet"
)
_FILE = rf"(?i)[^\r\n\t<>|*?\"]{{1,200}}\.(?:{_FILE_EXTENSIONS})(?:[#?:][^\s]*)?"
"""A file name or path, perhaps with a fragment, a query or a line number."""

_MAX_FILE_NAME_WORDS = 12
"""More words are a sentence that ends in the name of a file."""

_ADDRESS = r"(?i)[a-z][a-z0-9+.-]{1,15}://\S+"
_ID = r"[A-Za-z0-9_./~][A-Za-z0-9_./:#@+~=&%()-]*"
_ID_SIGN = (
    r"\d|[A-Za-z0-9][_/:#@]|/[A-Za-z0-9]|[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9]\.[A-Za-z]"
)
"""A digit, or a separator between letters, which no single word of prose has."""

_QUANTITY = r"\d+(?:[-./:,]\d+)+%?|\d+%"
"""A date, a time, a decimal or a percentage, which may be all that a passage says."""

_SENTENCE_END = r"[.!?]\s|[。！？]"


def is_document_name(text: str) -> bool:
    """Whether `text` is plainly the name of a document.

    Names are: a file name with a known extension, which may have spaces; an address; and
    an id or path in ASCII without spaces, but with a digit or a separator. A single word
    ("Paris"), text in a script without spaces, and a quantity ("2024-01-15") are not.
    """
    name = text.strip()
    if (
        not 0 < len(name) <= MAX_NAME_CHARACTERS
        or name.endswith((".", "!", ";", ","))
        or re.fullmatch(_QUANTITY, name)
    ):
        return False
    if re.fullmatch(_FILE, name):
        is_short = len(name.split()) <= _MAX_FILE_NAME_WORDS
        return is_short and not re.search(_SENTENCE_END, name)
    return bool(
        re.fullmatch(_ADDRESS, name)
        or (re.fullmatch(_ID, name) and re.search(_ID_SIGN, name))
    )


def are_document_names(texts: Iterable[str]) -> bool:
    """Whether each of `texts` is plainly the name of a document; False if there are
    none."""
    candidates = list(texts)
    return bool(candidates) and all(map(is_document_name, candidates))
