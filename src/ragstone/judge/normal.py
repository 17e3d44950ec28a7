"""Text normalisation, so that texts that look the same compare equal."""

from __future__ import annotations

import json
import re
import unicodedata

from ragstone.files import shipped

_DATA = json.loads(shipped("normal.json", __package__).read_text(encoding="utf-8"))
_INVISIBLE = re.compile(_DATA["invisible"])
"""Invisible characters, and the vowel points of Arabic and Hebrew, which are optional
in writing."""

_PLAIN_CHARACTERS: dict[int, str] = str.maketrans(_DATA["punctuation"])
"""Plain quotes and dashes for others, and ASCII digits for those of other scripts."""
for zero in _DATA["zeros"]:
    _PLAIN_CHARACTERS |= {ord(zero) + digit: str(digit) for digit in range(10)}
_LOOKALIKES: dict[int, str] = str.maketrans(_DATA["lookalikes"])
"""Latin letters for Greek and Cyrillic ones that look the same."""
_ASCII_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
FOOTNOTE = re.compile(
    r"(?<=[.!?。！？])[¹²³⁰⁴-⁹]+|(?<=[^\W\d_]{5})[¹²³⁰⁴-⁹]+(?=[\s.,;:!?])"
)
"""The number of a footnote, after a full stop or a longer word: not the exponent in m²
or 10³."""
_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z]")
_GREEK_OR_CYRILLIC = re.compile(r"[Ͱ-ӿԀ-ԯ]")


def _replace_lookalikes(match: re.Match[str]) -> str:
    word = match.group()
    is_mixed = _LATIN.search(word) and _GREEK_OR_CYRILLIC.search(word)
    return word.translate(_LOOKALIKES) if is_mixed else word


def normalise(text: str) -> str:
    """`text` in compatibility form (NFKC), without invisible characters and numbers of
    footnotes, and with plain quotes, dashes and digits.

    Greek and Cyrillic lookalikes inside a Latin word become Latin. Lone surrogates
    become question marks.
    """
    if text.isascii():
        return _ASCII_CONTROLS.sub(" ", text)
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = FOOTNOTE.sub("", text)
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    text = text.translate(_PLAIN_CHARACTERS)
    if _GREEK_OR_CYRILLIC.search(text):
        text = _WORD.sub(_replace_lookalikes, text)
    return _ASCII_CONTROLS.sub(" ", text)
