"""Makes foreign text harmless, with one function per target.

Foreign text is everything written by a user, a system under test, a judge or a file:
questions, answers, ids, tags, metric names, reasons. GitHub turns text into mentions,
references and links after it has rendered Markdown, so entities and backslashes don't
prevent that; a zero-width space inside the trigger does.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct, to_builtins
from pydantic import BaseModel

from ragstone.formatting import counted
from ragstone.printable import ZERO_WIDTH_SPACE, clean, without_commands

MAX_ANSWER = 20_000
"""Characters of an answer in a report; all of it is in samples.jsonl."""

_UNLINKABLE = re.compile(r"[^!-~\w]")
_SPACES = re.compile(r"[ \t\n]+")

_MARKDOWN_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "\\": "&#92;",
        "|": "&#124;",
        "$": "<span>$</span>",
        **{char: "\\" + char for char in "`*_[]~!^"},
        "#": "\\#" + ZERO_WIDTH_SPACE,
        "@": "@" + ZERO_WIDTH_SPACE,
    }
)
_COLON = re.compile(r":(?=[\w/+-]|$)")  # schemes, and emoji codes, which may be images
_WWW = re.compile(r"(?i)(www)(?=\.|$)")
_TICKET = re.compile(r"(?<=[A-Za-z]-)(?=\d|$)|(?i:(?<=ghsa-))")
_HEX = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{7,}(?![0-9A-Za-z])")
_SIX = re.compile(".{1,6}")
_LIST_SIGN = re.compile(r"^([-+=])")
_LIST_NUMBER = re.compile(r"^(\d{1,9})(?=[.)](?:\s|$))")
_COLONS = re.compile(":(?=:)")


def one_line(text: str) -> str:
    """`clean(text)` on one line, white space collapsed (spaces that don't break
    stay)."""
    return _SPACES.sub(" ", clean(text)).strip(" ")


def clip(text: str, length: int) -> str:
    """At most `length` characters of `text`, with an ellipsis if it is cut."""
    if len(text) <= length:
        return text
    return text[: max(length - 1, 0)].rstrip() + "…"


def bounded(text: str) -> str:
    """The first MAX_ANSWER characters of `text`, and how many are left out."""
    omitted = len(text) - MAX_ANSWER
    if omitted <= 0:
        return text
    return f"{text[:MAX_ANSWER]}… (and {counted(omitted, 'more character')})"


def terminal(text: str) -> str:
    """For a terminal or a log: no escape sequence, overwriting, reordering, or command,
    wherever a line is wrapped.

    Line breaks and tabs stay.
    """
    return _COLONS.sub(f":{ZERO_WIDTH_SPACE}", without_commands(clean(text)))


def line(text: str, length: int = 600) -> str:
    """`terminal(text)` on one line, white space collapsed, in at most `length`
    characters."""
    return clip(terminal(one_line(text)), length)


def markup(text: str) -> str:
    """For HTML before autoescaping, and for XML, whose writer escapes the rest: nothing
    invisible or reordering, only characters that XML 1.0 allows, and no command to a
    runner if it is printed.
    """
    return without_commands(clean(text))


def _in_sixes(run: re.Match[str]) -> str:
    """Hex digits broken up, so that they are no commit."""
    return ZERO_WIDTH_SPACE.join(_SIX.findall(run[0]))


def markdown_inline(text: str) -> str:
    """For a paragraph, a list item or a table cell of GitHub Markdown: shown as `text`,
    without any effect.

    It produces no emphasis, link, image, HTML, entity, formula, emoji, mention,
    reference, commit or autolink, and no table cell, heading or list starts or ends in
    it.
    """
    line = without_commands(one_line(text))
    line = _WWW.sub(r"\1" + ZERO_WIDTH_SPACE, line)
    line = _TICKET.sub(ZERO_WIDTH_SPACE, line)
    line = _HEX.sub(_in_sixes, line)
    line = _COLON.sub(":" + ZERO_WIDTH_SPACE, line)
    line = line.translate(_MARKDOWN_ESCAPES)
    line = _LIST_SIGN.sub(r"\\\1", line)
    return _LIST_NUMBER.sub(r"\1\\", line)


def markdown_code(text: str) -> str:
    """`text` as inline code, also inside a table; GitHub ignores mentions and
    references in code."""
    line = _without_comments(without_commands(one_line(text)))
    if set(line) & set("`|\\"):
        return f"<code>{markdown_inline(line)}</code>"
    return f"`{line}`" if line else "–"


def _without_comments(text: str) -> str:
    return text.replace("<!--", f"<!{ZERO_WIDTH_SPACE}--")


def markdown_fence(text: str) -> str:
    """`text` as a fenced block on separate lines, with a fence longer than any run of
    backticks in it."""
    body = _without_comments(without_commands(clean(text))).strip("\n")
    longest = max(map(len, re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def url(address: str | None) -> str | None:
    """`address` if it is a plain http(s) URL, percent-encoding everything that could
    end a link; else None."""
    if not address or _UNLINKABLE.search(address):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    is_plain = parts.scheme in {"http", "https"} and parts.username is None
    if not is_plain or not parts.hostname:
        return None
    return quote(address, safe=":/?#=&%+,;@~-._")


def markdown_link(text: str, address: str | None) -> str:
    """A link with inline code as its text, or only the code if `address` is not a plain
    URL."""
    target = url(address)
    code = markdown_code(text)
    return f"[{code}]({target})" if target else code


def plain(document: Struct) -> Any:
    """`document` as dicts, lists and strings for JSON: lone surrogates, which strict
    readers refuse, become U+FFFD."""
    body = to_builtins(document, enc_hook=BaseModel.model_dump)
    text = json.dumps(body, ensure_ascii=False)
    return json.loads(
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
