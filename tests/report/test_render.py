"""Every format of every verdict."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragstone.errors import ConfigError
from ragstone.gate.verdict import Status
from ragstone.report.parts import ReportView
from ragstone.report.render import FORMATS, Format, render


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("status", list(Status))
def test_every_format_names_the_verdict(make_view: Callable[..., ReportView], format: Format, status: Status) -> None:
    view = make_view(status)
    text = render(view, format)
    assert str(status) in text or view.headline.lead.rstrip(".:") in text


@pytest.mark.parametrize("format", FORMATS)
def test_rendering_twice_gives_the_same_text(make_view: Callable[..., ReportView], format: Format) -> None:
    assert render(make_view(), format) == render(make_view(), format)


def test_an_unknown_format_is_refused_with_a_suggestion(make_view: Callable[..., ReportView]) -> None:
    with pytest.raises(ConfigError, match=r"unknown report format 'jsn'\.\n.*'json'"):
        render(make_view(), "jsn")  # type: ignore[arg-type]
