"""Whole reports as they were read and found good. `RAGSTONE_UPDATE_EXPECTED=1 pytest` writes them anew, to be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragstone.gate.verdict import Status
from ragstone.report.parts import ReportView
from ragstone.report.render import Format, render

EXPECTED = Path(__file__).parent / "expected"

CASES: dict[str, dict[str, Any]] = {
    "pass": {"status": Status.PASS},
    "fail": {"status": Status.FAIL},
    "inconclusive": {"status": Status.INCONCLUSIVE},
    "error": {"status": Status.ERROR},
    "first-run": {"status": Status.PASS, "first_run": True, "offline": True},
}
ENDINGS: dict[Format, str] = {"text": "txt", "md": "md", "json": "json", "junit": "xml"}


@pytest.mark.parametrize(
    ("case", "format"),
    [*((case, format) for case in CASES for format in ("text", "md")), ("fail", "json"), ("fail", "junit")],
)
def test_a_report_reads_as_expected(
    make_view: Callable[..., ReportView], case: str, format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.report.view.offline_grades", lambda _: {"faithfulness": "B (fair)"})
    text = render(make_view(**CASES[case]), format)
    file = EXPECTED / f"{case}.{ENDINGS[format]}"
    if os.environ.get("RAGSTONE_UPDATE_EXPECTED"):
        file.write_text(text, encoding="utf-8", newline="\n")
    assert text == file.read_text(encoding="utf-8")
