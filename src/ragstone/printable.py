"""Makes foreign text safe to print: nothing in it is invisible, reorders what is shown,
or acts on GitHub's runner."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

ZERO_WIDTH_SPACE = "\u200b"
REPLACEMENT = "\ufffd"
_JOINERS = "\u200c\u200d"  # Persian, Indic scripts and emoji need them
_BLANKS = "\u115f\u1160\u3164\uffa0"  # letters that show nothing
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNUSUAL = re.compile("[^\n\t -~]")
_COMMAND = re.compile(r"(?m)^([^\S\n]*)::|(##)(?=\[)")


def clean(text: str) -> str:
    """`text` with line breaks as ``\\n`` and everything invisible or unsafe made
    visible.

    Control characters become their symbols (ESC is ␛); C1 controls, bidirectional
    overrides, other invisible format characters, surrogates and non-characters become
    U+FFFD. Tabs and joiners stay.
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
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if char in _JOINERS:
        return char
    is_control = unicodedata.category(char) in {"Cc", "Cf", "Cs"}
    hidden = is_control or char in _BLANKS
    tag = 0xE0000 <= code <= 0xE0FFF
    noncharacter = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return REPLACEMENT if hidden or tag or noncharacter else char


def shown_name(name: str) -> str:
    """The name of a file or a folder on one line: line ends and other characters that
    don't show are escaped."""
    if name.isprintable():
        return name
    return "".join(map(_shown_char, name))


def shell_word(text: str) -> str:
    """`text` as a word that a shell reads: quoted, and on one line, as `shown_name` has
    it."""
    shown = shown_name(text)
    if shown == text:
        return shlex.quote(text)
    # A quotation mark as \\x27: a shell that does not know this form of quotes must not
    # end the word there.
    escaped = text.replace("\\", "\\\\").replace("'", "\\x27")
    return f"$'{shown_name(escaped)}'"


def shell_command(words: Iterable[str]) -> str:
    """`words` as one line that a shell reads."""
    return " ".join(map(shell_word, words))


def _shown_char(char: str) -> str:
    code = ord(char)
    if char.isprintable() or char in _JOINERS:
        return char
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if 0x80 <= code <= 0xFF:
        return f"\\u{code:04x}"
    return char.encode("unicode_escape").decode("ascii")


def without_commands(text: str) -> str:
    """`text` without lines that GitHub's runner would execute as commands when a job
    prints them."""
    return _COMMAND.sub(
        lambda at: f"##{ZERO_WIDTH_SPACE}" if at[2] else f"{at[1]}:{ZERO_WIDTH_SPACE}:",
        text,
    )
