"""Makes untrusted text safe for a prompt: removes hidden characters, and puts it in
blocks that it can't end.

A block begins with a mark and lasts until the next one. Marks have a number that is
derived from all the text in the prompt, so the text can't contain it: an attacker would
need a fixed point of SHA-256. (It has only digits, because these make few tokens.)
Anything that looks like a mark, or like a control token of a chat template, is also
broken up.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029]")
_LONE_JOINERS = re.compile(
    "(?<![\u0600-\u0dff])[\u200c\u200d]|[\u200c\u200d](?![\u0600-\u0dff])"
)
"""Joiners that are not between letters of Arabic and Indic scripts, which need them."""
_MARK_LIKE = re.compile(r"[<＜﹤]{3,}|[>＞﹥]{3,}")
_CONTROL_TOKEN = re.compile(
    r"<\||\|>|<｜|｜>|<{1,2}/?SYS>{1,2}|<(?:start|end)_of_turn>|<(?:bos|eos|pad|unk|sop|eop)(?:_token)?>"
    r"|</?(?:s|think|thinking|thought|reasoning|tool_call|tool_response|tools)>|<unused\d+>|<0x[\da-f]{2}>|\[gMASK\]"
    r"|\[/?(?:INST|THINK|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|SYSTEM_PROMPT|MODEL_SETTINGS|ARGS|CALL_ID)\]"
    r"|(?<!\w)/(?:no_?)?think\b",
    re.IGNORECASE,
)
"""Control tokens of common chat templates, which some servers interpret even inside a
user's text."""
_HIDDEN_CATEGORIES = frozenset({"Cf", "Cc", "Cs", "Co", "Cn"})
_KEPT_CHARACTERS = "\n\t\u200c\u200d"


class _VisibleCharacters(dict[int, int | None]):
    """A table for `str.translate` that removes hidden characters, filled as characters
    occur."""

    def __missing__(self, code: int) -> int | None:
        is_hidden = unicodedata.category(chr(code)) in _HIDDEN_CATEGORIES
        self[code] = None if is_hidden and chr(code) not in _KEPT_CHARACTERS else code
        return self[code]


_VISIBLE_CHARACTERS = _VisibleCharacters()


class Block(Struct, frozen=True):
    """A block of a prompt."""

    name: str
    """A name that Ragstone chooses, such as ``answer`` or ``context c1``."""
    text: str
    """The untrusted text."""


def remove_hidden(text: str) -> str:
    """`text` without invisible characters (zero-width, bidi and tag characters,
    controls, lone surrogates).

    The joiners that Arabic and Indic scripts need inside words are kept. Line ends
    become ``\\n``.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", text)
    return _LONE_JOINERS.sub("", text).translate(_VISIBLE_CHARACTERS)


def neutralise(text: str) -> str:
    """`text` without hidden characters, with spaces in everything that could pass for a
    mark or a control token."""
    text = remove_hidden(text)
    if not text.isascii() or "<" in text or ">" in text:
        text = _MARK_LIKE.sub(_space_out, text)
    return _CONTROL_TOKEN.sub(_space_out, text)


def _space_out(match: re.Match[str]) -> str:
    return " ".join(match.group())


def render_list(items: Sequence[tuple[str, str]]) -> str:
    """Items, each an id and a text, on one line each. The text is a JSON string, so that
    an item can't go beyond its line."""
    return "\n".join(
        f"{item_id} {json.dumps(neutralise(text), ensure_ascii=False)}"
        for item_id, text in items
    )


def render_numbered(texts: Iterable[str]) -> str:
    """Texts on one line each, as `render_list` writes them, with numbers from 1 as
    ids."""
    return render_list(
        [(str(number), text) for number, text in enumerate(texts, start=1)]
    )


def render_blocks(blocks: Sequence[Block]) -> str:
    """All blocks, each after a mark that is unique to this prompt, and a mark at the
    end."""
    safe_blocks = [(block.name, neutralise(block.text)) for block in blocks]
    # With lengths, so that different blocks never give the same text.
    all_text = "".join(
        f"{len(name)}:{name}{len(text)}:{text}" for name, text in safe_blocks
    )
    digest = hashlib.sha256(all_text.encode()).digest()
    number = int.from_bytes(digest[:8]) % 10**12
    nonce = f"{number:012}"
    rendered = "".join(f"<<<{name} {nonce}>>>\n{text}\n" for name, text in safe_blocks)
    return f"{rendered}<<<end {nonce}>>>"
