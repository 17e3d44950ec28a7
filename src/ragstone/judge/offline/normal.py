"""Text normalisation, so that texts that look the same compare equal."""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = dict.fromkeys(
    [
        *(
            0x00AD,
            0x034F,
            0x061C,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            0x3164,
            0xFEFF,
            0xFFA0,
        ),
        *range(0x180B, 0x1810),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFE00, 0xFE10),
        # Vowel points of Arabic and Hebrew are optional in writing; text without them
        # means the same.
        *range(0x0591, 0x05BE),
        *range(0x0610, 0x061B),
        *range(0x064B, 0x0660),
        *(0x0640, 0x0670),
    ]
)
_DIGITS = {
    start + digit: str(digit)
    for start in (0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50)
    for digit in range(10)
}
_PUNCTUATION = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "ʼ": "'", "′": "'",
        "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "″": '"',
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-",
        "\u2028": "\n", "\u2029": "\n", "\x85": "\n",
    }
)  # fmt: skip
_TABLE: dict[int, str | None] = {**_INVISIBLE, **_PUNCTUATION, **_DIGITS}
_REPLACED = re.compile(
    "[" + "".join(re.escape(chr(code)) for code in sorted(_TABLE)) + "]"
)
_ASCII_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝАВЕКМНОРСТХІЅЈΑΒΕΖΗΙΚΜΝΟΡΤΥΧοιαν",
    "aeopcyxijshdqwABEKMHOPCTXISJABEZHIKMNOPTYXoiav",
)
FOOTNOTE = re.compile(
    r"(?<=[.!?。！？])[¹²³⁰⁴-⁹]+|(?<=[^\W\d_]{5})[¹²³⁰⁴-⁹]+(?=[\s.,;:!?])"
)
"""Marks of footnotes, after a stop or a longer word: not those of m² and 10³."""
_YEARS = re.compile(r"(?<![\w./-])((?:1\d|20)(\d\d))-(\d\d)\b(?!-)")
_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z]")
_GREEK_OR_CYRILLIC = re.compile(r"[Ͱ-ӿԀ-ԯ]")


def _years(match: re.Match[str]) -> str:
    """``2018-19`` as ``2018-2019``; ``2018-09`` is a month."""
    first, low, high = match.groups()
    return f"{first}-{first[:2]}{high}" if high > low else match.group()


def _with_years(text: str) -> str:
    return _YEARS.sub(_years, text) if "-" in text else text


def _one_script(match: re.Match[str]) -> str:
    word = match.group()
    mixed = _LATIN.search(word) and _GREEK_OR_CYRILLIC.search(word)
    return word.translate(_LOOKALIKES) if mixed else word


def normalise(text: str) -> str:
    """`text` in compatibility form (NFKC), without invisible characters and marks of
    footnotes, with plain quotes and dashes, and the years of "2018-19" in full.

    Greek and Cyrillic lookalikes inside a Latin word become Latin. Lone surrogates
    become U+FFFD.
    """
    if text.isascii():
        return _with_years(_ASCII_CONTROLS.sub(" ", text))
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = FOOTNOTE.sub("", text)
    text = _REPLACED.sub(
        lambda match: _TABLE[ord(match.group())] or "",
        unicodedata.normalize("NFKC", text),
    )
    if _GREEK_OR_CYRILLIC.search(text):
        text = _WORD.sub(_one_script, text)
    return _with_years(_ASCII_CONTROLS.sub(" ", text))
