"""Sanitises untrusted text: removes hidden characters and puts it in blocks that it
can't close.

The marks of a block carry a number derived from all the text inside the prompt, so the
text can't contain it: an attacker would need a fixed point of SHA-256. Anything that
looks like a mark, or like the control tokens of chat templates, is also broken up. A
block lasts until the next mark, and digits make marks of few tokens.
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
_MARKS = re.compile(r"[<＜﹤]{3,}|[>＞﹥]{3,}")
# Control tokens of common chat templates: some servers interpret them even inside user
# text.
_TEMPLATE = re.compile(
    r"<\||\|>|<｜|｜>|<{1,2}/?SYS>{1,2}|<(?:start|end)_of_turn>|<(?:bos|eos|pad|unk|sop|eop)(?:_token)?>"
    r"|</?(?:s|think|thinking|thought|reasoning|tool_call|tool_response|tools)>|<unused\d+>|<0x[\da-f]{2}>|\[gMASK\]"
    r"|\[/?(?:INST|THINK|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|SYSTEM_PROMPT|MODEL_SETTINGS|ARGS|CALL_ID)\]"
    r"|(?<!\w)/(?:no_?)?think\b",
    re.IGNORECASE,
)
_HIDDEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn"})
_KEEP = "\n\t\u200c\u200d"


class _Visible(dict[int, int | None]):
    """For `str.translate`: None for hidden characters, filled as they occur."""

    def __missing__(self, code: int) -> int | None:
        is_hidden = unicodedata.category(chr(code)) in _HIDDEN
        self[code] = None if is_hidden and chr(code) not in _KEEP else code
        return self[code]


_VISIBLE = _Visible()


class Block(Struct, frozen=True):
    """A named piece of data for the judge: `name` is ours (``answer``, ``context c1``),
    `text` is untrusted."""

    name: str
    text: str


def cleaned(text: str) -> str:
    """`text` without invisible characters (zero-width, bidi and tag characters,
    controls, lone surrogates).

    The joiners that Arabic and Indic scripts need inside words are kept. Line ends
    become ``\\n``.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", text)
    return _LONE_JOINERS.sub("", text).translate(_VISIBLE)


def neutral(text: str) -> str:
    """`text` cleaned, with everything broken up that could pass for a block's mark or a
    chat template's token."""
    text = cleaned(text)
    if not text.isascii() or "<" in text or ">" in text:
        text = _MARKS.sub(lambda match: " ".join(match.group()), text)
    return _TEMPLATE.sub(lambda match: " ".join(match.group()), text)


def listed(items: Sequence[tuple[str, str]]) -> str:
    """Items on one line each, as id and JSON string: an item can't extend beyond its
    own line, whatever it contains."""
    return "\n".join(
        f"{item_id} {json.dumps(neutral(text), ensure_ascii=False)}"
        for item_id, text in items
    )


def numbered(texts: Iterable[str]) -> str:
    """Texts on one line each, after their numbers from 1, as `listed` writes them."""
    return listed([(str(at), text) for at, text in enumerate(texts, start=1)])


def fenced(blocks: Sequence[Block]) -> str:
    """All blocks, each after a mark unique to this prompt, and a mark at their end."""
    texts = [neutral(block.text) for block in blocks]
    whole = "".join(
        f"{len(b.name)}:{b.name}{len(text)}:{text}"
        for b, text in zip(blocks, texts, strict=True)
    )
    digest = hashlib.sha256(whole.encode()).digest()
    number = int.from_bytes(digest[:8])
    nonce = f"{number % 10**12:012}"
    shown = "".join(
        f"<<<{block.name} {nonce}>>>\n{text}\n"
        for block, text in zip(blocks, texts, strict=True)
    )
    return f"{shown}<<<end {nonce}>>>"
