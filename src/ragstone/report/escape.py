"""Makes foreign text harmless, with one function for each place that it is written to.

Foreign text is everything that a user, a system under test, a judge or a file has
written: questions, answers, ids, tags, metric names, reasons. GitHub turns text into
mentions, references and links after it has rendered Markdown, so entities and backslashes
don't prevent that; a zero-width space inside the trigger does.
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

MAX_ANSWER_CHARACTERS = 20_000
"""Length of an answer in a report; samples.jsonl has all of it."""

_NOT_IN_ADDRESS = re.compile(r"[^!-~\w]")
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
# What GitHub makes of these: a colon begins an emoji (``:+1:``) or ends a scheme
# (``https:``), ``www.`` begins a link, a ticket (``ABC-12``, ``GHSA-…``) and seven or more
# hex digits (a commit) are linked. Any of them may go on in the text that follows.
_COLON = re.compile(r":(?=[\w/+-]|$)")
_WWW = re.compile(r"(?i)(www)(?=\.|$)")
_INSIDE_TICKET = re.compile(r"(?<=[A-Za-z]-)(?=\d|$)|(?i:(?<=ghsa-))")
_COMMIT = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{7,}(?![0-9A-Za-z])")
_UP_TO_SIX_CHARACTERS = re.compile(".{1,6}")
# At the start of a line, these begin a list or underline a heading.
_BULLET = re.compile(r"^([-+=])")
_LIST_NUMBER = re.compile(r"^(\d{1,9})(?=[.)](?:\s|$))")
_FIRST_OF_TWO_COLONS = re.compile(":(?=:)")


def clean_line(text: str) -> str:
    """Return `clean(text)` on one line, with white space collapsed except for
    non-breaking spaces."""
    return _SPACES.sub(" ", clean(text)).strip(" ")


def clip(text: str, length: int) -> str:
    """Return at most `length` characters of `text`, with an ellipsis if it is cut."""
    if len(text) <= length:
        return text
    return text[: max(length - 1, 0)].rstrip() + "…"


def clip_answer(text: str) -> str:
    """Return the first MAX_ANSWER_CHARACTERS of `text`, and how many are left out."""
    omitted_count = len(text) - MAX_ANSWER_CHARACTERS
    if omitted_count <= 0:
        return text
    beginning = text[:MAX_ANSWER_CHARACTERS]
    return f"{beginning}… (and {counted(omitted_count, 'more character')})"


def escape_terminal(text: str) -> str:
    """Escape `text` for a terminal or a log: it can't overwrite or reorder what is shown,
    and is no escape sequence or command to a runner, wherever its lines are wrapped.

    Line breaks and tabs stay.
    """
    # A wrapped line could begin with the two colons of a command.
    return _FIRST_OF_TWO_COLONS.sub(
        f":{ZERO_WIDTH_SPACE}", without_commands(clean(text))
    )


def escape_terminal_line(text: str, length: int = 600) -> str:
    """Escape `text` for a terminal on one line, in at most `length` characters."""
    return clip(escape_terminal(clean_line(text)), length)


def escape_markup(text: str) -> str:
    """Prepare `text` for HTML or XML, whose writer escapes the special characters: it has
    nothing invisible or reordering, only characters that XML 1.0 allows, and no command
    to a runner if the page is printed.
    """
    return without_commands(clean(text))


def _break_up_commit(match: re.Match[str]) -> str:
    """Separate hex digits into groups that are too short for a commit."""
    return ZERO_WIDTH_SPACE.join(_UP_TO_SIX_CHARACTERS.findall(match[0]))


def markdown_inline(text: str) -> str:
    """Return GitHub Markdown that is shown as `text` in a paragraph, a list item or a
    table cell.

    It produces no emphasis, link, image, HTML, entity, formula, emoji, mention,
    reference, commit or autolink, and no table cell, heading or list starts or ends in
    it.
    """
    line = without_commands(clean_line(text))
    line = _WWW.sub(r"\1" + ZERO_WIDTH_SPACE, line)
    line = _INSIDE_TICKET.sub(ZERO_WIDTH_SPACE, line)
    line = _COMMIT.sub(_break_up_commit, line)
    line = _COLON.sub(":" + ZERO_WIDTH_SPACE, line)
    line = line.translate(_MARKDOWN_ESCAPES)
    line = _BULLET.sub(r"\\\1", line)
    return _LIST_NUMBER.sub(r"\1\\", line)


def markdown_code(text: str) -> str:
    """Return `text` as inline code, which may be in a table. GitHub ignores mentions and
    references in code."""
    line = _without_comments(without_commands(clean_line(text)))
    # Between backticks, these can't be escaped.
    if set(line) & set("`|\\"):
        return f"<code>{markdown_inline(line)}</code>"
    return f"`{line}`" if line else "–"


def _without_comments(text: str) -> str:
    return text.replace("<!--", f"<!{ZERO_WIDTH_SPACE}--")


def markdown_fence(text: str) -> str:
    """Return `text` as a fenced block on separate lines, with a fence longer than any run
    of backticks in it."""
    body = _without_comments(without_commands(clean(text))).strip("\n")
    longest = max(map(len, re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def safe_url(address: str | None) -> str | None:
    """Return `address` with everything percent-encoded that could end a link; None if it
    is not an http(s) URL, or has a user name."""
    if not address or _NOT_IN_ADDRESS.search(address):
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
    """Return a link with inline code as its text, or only the code if `address` is no
    safe URL."""
    target = safe_url(address)
    code = markdown_code(text)
    return f"[{code}]({target})" if target else code


def to_json_types(document: Struct) -> Any:
    """Return `document` as dicts, lists and strings. Lone surrogates, which strict
    readers of JSON refuse, become U+FFFD."""
    body = to_builtins(document, enc_hook=BaseModel.model_dump)
    text = json.dumps(body, ensure_ascii=False)
    return json.loads(
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
