"""Makes untrusted text safe to print, so that nothing in it is invisible, reorders what
is shown, or is a command to GitHub's runner."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

ZERO_WIDTH_SPACE = "\u200b"
REPLACEMENT = "\ufffd"
_JOINERS = "\u200c\u200d"  # Persian, Indic scripts and emoji need them
_INVISIBLE_LETTERS = "\u115f\u1160\u3164\uffa0"
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNUSUAL = re.compile("[^\n\t -~]")
_COMMAND = re.compile(r"(?m)^(?P<indent>[^\S\n]*)::|(?P<old_style>##)(?=\[)")
"""The beginning of a command to GitHub's runner: ``::name`` or, in the old style,
``##[name]``."""


def clean(text: str) -> str:
    """`text` with all line breaks as ``\\n``, and everything else that is invisible or
    unsafe made visible.

    Control characters become their symbols, such as ␛ for ESC. C1 controls,
    bidirectional overrides, other invisible format characters, surrogates and
    noncharacters become U+FFFD. Tabs and joiners are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNUSUAL.sub(_clean_match, _LINE_ENDS.sub("\n", text))


def _clean_match(match: re.Match[str]) -> str:
    return _clean_char(match[0])


@lru_cache(maxsize=4096)
def _clean_char(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)  # the block of symbols for control characters
    if code == 0x7F:
        return "\u2421"  # the symbol for DEL
    if char in _JOINERS:
        return char
    is_control = unicodedata.category(char) in {"Cc", "Cf", "Cs"}
    is_invisible = is_control or char in _INVISIBLE_LETTERS
    is_tag = 0xE0000 <= code <= 0xE0FFF
    is_noncharacter = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return REPLACEMENT if is_invisible or is_tag or is_noncharacter else char


def shown_name(name: str) -> str:
    """The name of a file or a folder on one line. Line ends and other characters that
    can't be seen are escaped."""
    if name.isprintable():
        return name
    return "".join(map(_shown_char, name))


def shell_word(text: str) -> str:
    """`text` quoted as one word of a shell command, on one line like `shown_name`."""
    shown = shown_name(text)
    if shown == text:
        return shlex.quote(text)
    # A quotation mark is escaped as \\x27, because a shell that does not know $'…' would
    # otherwise end the word there.
    escaped = text.replace("\\", "\\\\").replace("'", "\\x27")
    return f"$'{shown_name(escaped)}'"


def shell_command(words: Iterable[str]) -> str:
    """`words` as one shell command."""
    return " ".join(map(shell_word, words))


def _shown_char(char: str) -> str:
    code = ord(char)
    if char.isprintable() or char in _JOINERS:
        return char
    if 0xDC80 <= code <= 0xDCFF:  # how Python decodes a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if 0x80 <= code <= 0xFF:
        return f"\\u{code:04x}"
    return char.encode("unicode_escape").decode("ascii")


def without_commands(text: str) -> str:
    """`text` without lines that GitHub's runner would execute as commands when a job
    prints them."""

    def break_command(match: re.Match[str]) -> str:
        if match["old_style"]:
            return f"##{ZERO_WIDTH_SPACE}"
        return f"{match['indent']}:{ZERO_WIDTH_SPACE}:"

    return _COMMAND.sub(break_command, text)
