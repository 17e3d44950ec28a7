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
from collections.abc import Sequence
from dataclasses import dataclass

_KEEP = frozenset("\n\t")
_JOINERS = "‌‍"
_JOINING = re.compile("(?<=[؀-෿])[‌‍](?=[؀-෿])")
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


@dataclass(frozen=True, slots=True)
class Block:
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
    text = (
        text.replace("\r\n", "\n")
        .replace("\r", "\n")
        .replace("\u2028", "\n")
        .replace("\u2029", "\n")
    )
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    needed = {match.start() for match in _JOINING.finditer(text)}
    return "".join(
        character
        for at, character in enumerate(text)
        if character in _KEEP
        or at in needed
        or unicodedata.category(character) not in _HIDDEN
    )


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


def fenced(blocks: Sequence[Block]) -> str:
    """All blocks, each after a mark unique to this prompt, and a mark at their end."""
    texts = [neutral(block.text) for block in blocks]
    whole = "".join(
        f"{len(b.name)}:{b.name}{len(text)}:{text}"
        for b, text in zip(blocks, texts, strict=True)
    )
    nonce = (
        f"{int.from_bytes(hashlib.sha256(whole.encode()).digest()[:8]) % 10**12:012}"
    )
    shown = "".join(
        f"<<<{block.name} {nonce}>>>\n{text}\n"
        for block, text in zip(blocks, texts, strict=True)
    )
    return f"{shown}<<<end {nonce}>>>"
