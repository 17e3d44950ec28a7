"""SECURITY.md and the threat model name the tests that show what they say: they are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ATTACKS = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PAGE = ATTACKS + (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")


def test_each_test_that_is_named_exists() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    named = set(re.findall(r"::(test_\w+)", PAGE))
    assert len(named) > 40
    assert named - defined == set()


def test_each_file_of_tests_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)(?:::|`)", PAGE))
    assert named
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_each_row_names_what_shows_it() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| attempt", "| who"))]
    for row in rows:
        shown = row.rstrip("| ").rpartition("|")[2]
        assert "`" in shown or "the same" in shown, row


def test_each_paragraph_names_what_shows_it_or_says_that_it_is_not_prevented() -> None:
    model = ATTACKS.partition("## Threat model\n")[2].partition("### What is protected\n")[2].partition("### ")[2]
    paragraphs = [one.strip() for one in model.split("\n\n")]
    prose = [one for one in paragraphs if one and not one.startswith(("|", "#", "The author of a pull request, "))]
    assert len(prose) > 8
    for one in prose:
        shown = re.search(r"`[\w/]+\.py(?:::\w+)?`", one) is not None
        assert shown or "**not prevented**" in one.lower(), one
