"""docs/reports.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragstone.report.render import render
from ragstone.report.templates import read_template, read_templates
from tests.report.conftest import helpdesk_report

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
TEMPLATES = re.findall(r"```jinja\n(.*?)```", PAGE, re.DOTALL)


def test_all_blocks_are_listed() -> None:
    blocks = re.findall(r"{% block (\w+) %}", read_template("report.md.j2"))
    listed = PAGE.partition("The blocks are")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == blocks


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_examples_can_be_rendered(tmp_path: Path, template: str) -> None:
    (tmp_path / "report.md.j2").write_text(template, encoding="utf-8")
    assert render(helpdesk_report(), "md", templates=read_templates(tmp_path)) != render(helpdesk_report(), "md")
