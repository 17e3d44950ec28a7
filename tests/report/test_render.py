"""Every format of every verdict."""

from __future__ import annotations

import pytest

from ragstone.errors import ConfigError
from ragstone.gate.verdict import Status
from ragstone.report.render import FORMATS, Format, render
from tests.report.conftest import helpdesk_report


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("status", list(Status))
def test_every_format_names_the_verdict(format: Format, status: Status) -> None:
    report = helpdesk_report(status)
    text = render(report, format)
    assert str(status) in text or report.verdict.lead.rstrip(".:") in text


@pytest.mark.parametrize("format", FORMATS)
def test_rendering_twice_gives_the_same_text(format: Format) -> None:
    assert render(helpdesk_report(), format) == render(helpdesk_report(), format)


def test_an_unknown_format_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"unknown report format 'jsn'\.\n.*'json'"):
        render(helpdesk_report(), "jsn")  # type: ignore[arg-type]
