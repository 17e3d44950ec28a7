"""Commands for a shell, on a screen."""

from __future__ import annotations

import re
import textwrap

_WORD = re.compile(r"""(?:[^\s'"\\]|'[^']*'|"(?:[^"\\]|\\.)*"|\\.)+|\S""", re.DOTALL)


def wrap_line(line: str, width: int) -> list[str]:
    """A comment or command in lines of at most `width` columns that can be pasted into
    a shell.

    Only a single long word is wider.
    """
    if line.startswith("# "):
        return textwrap.wrap(
            line,
            width,
            subsequent_indent="# ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    lines: list[str] = []
    for word in _WORD.findall(line):
        if lines and len(lines[-1]) + len(word) + len("  \\") < width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}" if lines else word)
    return [*(f"{text} \\" for text in lines[:-1]), lines[-1]]
