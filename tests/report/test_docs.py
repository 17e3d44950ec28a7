"""docs/reports.md says what is so."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from ragstone.report.markdown import LEVELS, Detail, Omitted, context, filters
from ragstone.report.render import render
from ragstone.report.summary import Summary
from ragstone.report.templates import read_template, read_templates
from tests.report.conftest import helpdesk_report

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
TEMPLATES = re.findall(r"```jinja\n(.*?)```", PAGE, re.DOTALL)


def test_all_blocks_are_listed() -> None:
    blocks = re.findall(r"{% block (\w+) %}", read_template("report.md.j2"))
    listed = PAGE.partition("The blocks are")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == blocks


def test_all_that_a_template_may_use_is_listed() -> None:
    report = helpdesk_report()
    known = {*context(report, LEVELS[0]), *filters(report, LEVELS[0]), "join"}
    known |= {field.name for part in (Summary, Detail, Omitted) for field in fields(part)}
    tables = PAGE.partition("What a template finds:")[2].partition("Templates are read before")[0]
    assert known <= set(re.findall(r"`(\w+)`", tables))
    first_cells = "".join(re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first_cells)) <= known


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_examples_can_be_rendered(tmp_path: Path, template: str) -> None:
    (tmp_path / "report.md.j2").write_text(template, encoding="utf-8")
    assert render(helpdesk_report(), "md", templates=read_templates(tmp_path)) != render(helpdesk_report(), "md")
