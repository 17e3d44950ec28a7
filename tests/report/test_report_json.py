"""The document as JSON, and its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from ragstone.errors import ConfigError
from ragstone.gate.verdict import Status
from ragstone.report.render import render
from ragstone.report.report_json import document_adapter, schema
from scripts.schemas import report_schema
from tests.report.conftest import helpdesk_report


def test_the_shipped_schema_is_made_from_the_parts_of_the_document() -> None:
    assert report_schema() == schema(), "run make generated"


@pytest.mark.parametrize("status", list(Status))
def test_a_document_fits_the_schema_and_is_read_as_it_was_written(status: Status) -> None:
    report = helpdesk_report(status)
    text = render(report, "json")
    jsonschema.validate(json.loads(text), schema())
    assert document_adapter().validate_json(text) == report
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(text), "schema_version": 2}, schema())


def test_an_unknown_format_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"unknown report format 'jsn'\.\n.*'json'"):
        render(helpdesk_report(), "jsn")  # type: ignore[arg-type]


def test_every_part_says_what_it_is() -> None:
    def parts() -> Iterator[tuple[str, dict[str, Any]]]:
        yield "Document", schema()
        yield from schema()["$defs"].items()

    assert [name for name, part in parts() if not part.get("description") and "enum" not in part] == []
