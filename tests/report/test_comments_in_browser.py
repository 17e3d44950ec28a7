"""What a reader of a comment sees: measured as GitHub shows it, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.gate.findings import Level
from ragstone.gate.verdict import Status
from ragstone.report.parts import Document, StatementPart
from ragstone.report.render import render
from ragstone.report.summary import GATE_CHANGE_PREFIX, MAX_CHARACTERS, MAX_LINES
from tests.report.browser import Page
from tests.report.comments import comments, framed
from tests.report.conftest import helpdesk_report, with_findings, with_samples

pytestmark = pytest.mark.browser

_ABOVE = """(() => {
  const above = [];
  for (const part of document.querySelector(".body").children) {
    if (part.tagName === "DETAILS") break;
    above.push(part);
  }
  const tops = new Set();
  for (const part of above) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(walker.currentNode);
      for (const box of range.getClientRects()) if (box.width > 1) tops.add(Math.round((box.top + box.bottom) / 20));
    }
  }
  return {
    lines: tops.size,
    text: above.map(part => part.innerText).join("\\n"),
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  };
})()"""


def above(page: Page, folder: Path, markdown: str, width: int = 900) -> Any:
    """What stands above the first fold: rendered lines, text, and whether the page is too wide."""
    file = folder / "comment.html"
    file.write_text(framed(markdown), encoding="utf-8")
    page.size(width, 900)
    page.open(file)
    return page.run(_ABOVE)


def stuffed(report: Document, size: int) -> Document:
    """`report` with everything at once: warnings, changes of the gate, findings, failing rows and a long answer."""
    long = "The index lacks most of the documents that this question needs; " * size
    changes = [
        f"{GATE_CHANGE_PREFIX}lowers metrics.metric_{number}.min from 0.85 to 0.8." for number in range(4 * size)
    ]
    worst = [
        replace(
            one,
            question=long,
            answer=f"{long} {one.answer}",
            baseline_answer=f"{one.answer} {long[::-1]}",
            missing=(long,),
            unsupported=(StatementPart(long, "unsupported"),) * 3,
        )
        for one in report.samples.worst
    ]
    warnings = (*(f"{number}: {long}" for number in range(3 * size)), *changes, *report.warnings)
    return replace(
        with_findings(with_samples(report, worst=tuple(worst)), Level.WARNING, *warnings),
        metrics=tuple(replace(row, slice=f"team:{number} {long}") for number in range(size) for row in report.metrics),
        checks=report.checks * size,
    )


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("status", [Status.PASS, Status.FAIL])
def test_whatever_happens_twenty_lines_are_above_the_fold(
    page: Page, tmp_path: Path, status: Status, size: int
) -> None:
    report = stuffed(helpdesk_report(status), size)
    found = above(page, tmp_path, render(report, "md"))
    assert found["lines"] <= MAX_LINES, found["text"]
    assert len(found["text"]) <= MAX_CHARACTERS
    assert "lowers metrics.metric_0.min" in found["text"].replace("\u200b", "")
    assert not above(page, tmp_path, render(report, "md"), width=390)["wide"]


def test_eleven_comments_say_first_whether_they_block_and_what_is_worse(page: Page, tmp_path: Path) -> None:
    begins = {
        "pass": "Nothing is shown to be worse.",
        "pass-with-news": "Nothing is shown to be worse.",
        "unsettled": "Not blocked, but look:",
        "first-run": "Passed, with nothing to compare with.",
    }
    seen = dict(comments(tmp_path))
    assert len(seen) == 11
    for name, markdown in seen.items():
        for width in (390, 900):
            found = above(page, tmp_path, markdown, width)
            assert not found["wide"], name
        first, *rest = found["text"].splitlines()
        assert begins.get(name, "Blocked:") in first, (name, first)
        assert found["lines"] <= MAX_LINES, name
        assert len(found["text"]) <= MAX_CHARACTERS, name
        assert len(markdown) <= 12_000, name
        if name.startswith("fail") and name != "fail-must-pass":
            assert any(line.startswith("Look at ") for line in rest), name
