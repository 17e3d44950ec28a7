"""Finds the words that a verdict quotes in the contexts that it names, whatever their
case, markup and typography."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence

_LONG = 25
"""Characters from which the last word of a quote may be cut off."""
_ALONE = "\u0e00-\u1dff\u2e80-\u2fff\u3005-\u3007\u3021-\uffff"
"""Scripts that write no spaces between words."""
_QUOTE = re.compile(rf"(?:[^\W_][\W_]*){{3}}|(?:(?=[^\W_])[\d{_ALONE}][\W_]*){{2}}")
_WORD = re.compile(
    rf"−?(?:(?<!\w)\.)?\d+(?:[.,]\d+)*|-(?=\s*\.?\d)|[$%+<=>~^£¥°±€‰]|[{_ALONE}]"
    rf"|[^\s\d!-/:-@\[-`{{-~¡-¿\u2000-\u206f\u3000-\u303f{_ALONE}]+"
)
_JOINED = re.compile(
    r'[\[(]?(?:…|\.{3})[\])]?|;|["”“»」』]\s*(?:and|,|&)?\s*["“„«「『]'
)
_NAME = re.compile(r"\A\s*[\[(]?c\d+[\])]?\s*:\s*", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]\w{1,30});", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]]*)\](\([^()\s]*\))")
_EMPHASIS = re.compile(r"[*_`]+|~~")
_DASH = re.compile("[‐‑‒–—―−]")
_SIGN = re.compile(r"(?<![\w.,])-(?=\.?\d)")
_GROUP = re.compile(r"(?<=\d)(?<!\d{4}) (?=\d{3}(?!\d))")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?:[ \t]*\n\s*)?(?=[^\W\d_])")


class Shown:
    """A context in which quotes are looked for: its words and whole numbers, with their
    signs."""

    def __init__(self, text: str) -> None:
        self._words = _words(
            " ".join([text, *(address for _, address in _LINK.findall(text))])
        )

    def has(self, quote: str) -> bool:
        for words, shown in zip(_words(_NAME.sub("", quote)), self._words, strict=True):
            may_be_cut = len(words) > _LONG and not words[-2].isdigit()
            if words.strip() and (words[:-1] if may_be_cut else words) in shown:
                return True
        return False


def is_quote(value: object) -> bool:
    """Whether `value` is long enough to quote something: three letters, or two of what
    says more."""
    return isinstance(value, str) and _QUOTE.search(value) is not None


def stands_in(quote: str, contexts: Sequence[Shown]) -> bool:
    """Whether one of `contexts` has `quote`, or one has each of the quotes that are
    joined in it."""
    pieces = [
        piece
        for piece in _JOINED.split(_unescaped(quote))
        if re.search(r"[^\W_]", piece)
    ]
    if _is_in_one(quote, contexts):
        return True
    return bool(pieces) and all(_is_in_one(piece, contexts) for piece in pieces)


def _is_in_one(text: str, contexts: Sequence[Shown]) -> bool:
    return any(shown.has(text) for shown in contexts)


def _unescaped(text: str) -> str:
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def _words(text: str) -> list[str]:
    """The words of `text` between spaces, also with hyphens within words left out, as
    at the end of a line."""
    plain = unicodedata.normalize("NFKC", _unescaped(text))
    text = _DASH.sub("-", plain.casefold())
    text = _GROUP.sub("", _SIGN.sub("−", _EMPHASIS.sub("", _LINK.sub(r"\1", text))))
    return [
        " ".join(["", *_WORD.findall(spelling), ""])
        for spelling in (text, _HYPHEN.sub("", text))
    ]
