from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ragstone.gate.verdict import Status
from ragstone.report.render import Format, render
from tests.report.conftest import helpdesk_report

SAID = "1,340 tokens per answer (p95 2,210), $0.00025 (p95 $0.00041)"


def plain(text: str) -> str:
    return " ".join(re.sub(r"</?(b|span)>|\\", "", text).split())


REPORT = helpdesk_report(status=Status.PASS)
SILENT = replace(REPORT, run=replace(REPORT.run, usage=None))


@pytest.mark.parametrize("format", ["text", "md", "html"])
def test_what_an_answer_takes_is_in_every_report_or_that_it_is_not_reported(format: Format) -> None:
    assert SAID in plain(render(REPORT, format))
    assert "tokens not reported" in plain(render(SILENT, format))


def test_what_only_some_answers_report_is_said() -> None:
    assert REPORT.run.usage is not None
    some = REPORT.run.usage.model_copy(update={"reported": 40, "cost_mean_usd": None, "cost_p95_usd": None})
    text = plain(render(replace(REPORT, run=replace(REPORT.run, usage=some)), "text"))
    assert "reported by 40 of 59 answers" in text
