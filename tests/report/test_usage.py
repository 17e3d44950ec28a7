from __future__ import annotations

import json
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


def test_the_json_report_has_the_figures() -> None:
    usage = json.loads(render(REPORT, "json"))["run"]["usage"]
    assert (usage["tokens_mean"], usage["tokens_p95"], usage["cost_mean_usd"]) == (1340.0, 2210, 0.000246)
    assert usage["price"] == {"input": 0.15, "output": 0.6}
    assert json.loads(render(SILENT, "json"))["run"]["usage"] is None


def test_what_only_some_answers_report_is_said() -> None:
    report = REPORT
    assert report.run.usage is not None
    some = report.run.usage.model_copy(update={"reported": 40, "cost_mean_usd": None, "cost_p95_usd": None})
    text = plain(render(replace(report, run=replace(report.run, usage=some)), "text"))
    assert "reported by 40 of 59 answers" in text
