"""The pages of the documentation, for tests that run what they show."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def page(name: str, heading: str = "") -> str:
    """The text of docs/NAME.md, or of its section under this heading."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] if heading else text


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, which begin and end at the start of a line."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
