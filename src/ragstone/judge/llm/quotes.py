"""Finds quotes in contexts, whatever their case, markup and typography."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence

_MIN_CUT_QUOTE_CHARACTERS = 25
"""From this length on, the end of a quote may be in the middle of a word."""
_UNSPACED = "\u0e00-\u1dff\u2e80-\u2fff\u3005-\u3007\u3021-\uffff"
"""The characters of scripts without spaces between words, such as Chinese and Thai."""
_QUOTE = re.compile(rf"(?:[^\W_][\W_]*){{3}}|(?:(?=[^\W_])[\d{_UNSPACED}][\W_]*){{2}}")
"""Three letters or digits, or two digits or characters of a script without spaces."""
_WORD = re.compile(
    rf"−?(?:(?<!\w)\.)?\d+(?:[.,]\d+)*|-(?=\s*\.?\d)|[$%+<=>~^£¥°±€‰]|[{_UNSPACED}]"
    rf"|[^\s\d!-/:-@\[-`{{-~¡-¿\u2000-\u206f\u3000-\u303f{_UNSPACED}]+"
)
"""A number with its sign, a symbol that changes a number, a character of a script
without spaces, or a word."""
_JOINT = re.compile(r'[\[(]?(?:…|\.{3})[\])]?|;|["”“»」』]\s*(?:and|,|&)?\s*["“„«「『]')
"""Text between two quotes: an ellipsis, a semicolon, or quotation marks."""
_CONTEXT_ID = re.compile(r"\A\s*[\[(]?c\d+[\])]?\s*:\s*", re.IGNORECASE)
"""The id of the context before a quote, such as ``[c1]:``."""
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]\w{1,30});", re.IGNORECASE)
"""A character written as an HTML entity."""
_LINK = re.compile(r"\[([^\[\]]*)\](\([^()\s]*\))")
_EMPHASIS = re.compile(r"[*_`]+|~~")
_DASH = re.compile("[‐‑‒–—―−]")
_MINUS = re.compile(r"(?<![\w.,])-(?=\.?\d)")
_SPACE_IN_NUMBER = re.compile(r"(?<=\d)(?<!\d{4}) (?=\d{3}(?!\d))")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?:[ \t]*\n\s*)?(?=[^\W\d_])")
"""A hyphen between letters, with the end of the line that it may stand at."""


class QuotableText:
    """A text in which quotes are looked for, word by word."""

    def __init__(self, text: str) -> None:
        # The words of a link are found without its address, too.
        addresses = [address for _, address in _LINK.findall(text)]
        self._spellings = _spellings(" ".join([text, *addresses]))

    def contains(self, quote: str) -> bool:
        """Whether the words of `quote` are in the text, in order."""
        quote_spellings = _spellings(_CONTEXT_ID.sub("", quote))
        for words, text in zip(quote_spellings, self._spellings, strict=True):
            last_character = words[-2:-1]
            is_long = len(words) > _MIN_CUT_QUOTE_CHARACTERS
            if is_long and not last_character.isdigit():
                # Without the space at the end, the last word may go on in the text.
                words = words[:-1]
            if words.strip() and words in text:
                return True
        return False


def is_quote(value: object) -> bool:
    """Whether `value` is long enough to quote something: three letters, or two
    characters that say more than a letter."""
    return isinstance(value, str) and _QUOTE.search(value) is not None


def is_quoted_from(quote: str, texts: Sequence[QuotableText]) -> bool:
    """Whether one of `texts` contains `quote`, or each of the quotes that it joins is
    in one of them."""
    if _is_in_any(quote, texts):
        return True
    parts = [
        part for part in _JOINT.split(_unescape(quote)) if re.search(r"[^\W_]", part)
    ]
    return bool(parts) and all(_is_in_any(part, texts) for part in parts)


def _is_in_any(quote: str, texts: Sequence[QuotableText]) -> bool:
    return any(text.contains(quote) for text in texts)


def _unescape(text: str) -> str:
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def _spellings(text: str) -> tuple[str, str]:
    """The words of `text`, each between spaces: with hyphens, and without, because one
    may only divide a word at the end of a line."""
    text = unicodedata.normalize("NFKC", _unescape(text)).casefold()
    text = _DASH.sub("-", text)
    text = _LINK.sub(r"\1", text)
    text = _EMPHASIS.sub("", text)
    text = _MINUS.sub("−", text)
    text = _SPACE_IN_NUMBER.sub("", text)
    return _spaced_words(text), _spaced_words(_HYPHEN.sub("", text))


def _spaced_words(text: str) -> str:
    words = " ".join(_WORD.findall(text))
    return f" {words} "
