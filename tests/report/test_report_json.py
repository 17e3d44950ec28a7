"""The document as JSON, and its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from ragstone.gate.verdict import Status
from ragstone.report.render import render
from ragstone.report.report_json import document_adapter, schema
from scripts.schemas import report_schema
from tests.report.conftest import helpdesk_report


def test_the_shipped_schema_is_made_from_the_parts_of_the_document() -> None:
    assert report_schema() == schema(), "run make generated"


@pytest.mark.heavy
@pytest.mark.parametrize("status", list(Status))
def test_every_verdict_fits_the_schema(status: Status) -> None:
    document = json.loads(render(helpdesk_report(status), "json"))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(document, schema())
    assert document["schema_version"] == 1
    assert document["verdict"]["status"] == status
    assert document["verdict"]["exit_code"] == helpdesk_report(status).verdict.exit_code


@pytest.mark.parametrize("status", list(Status))
def test_a_document_is_read_as_it_was_written(status: Status) -> None:
    report = helpdesk_report(status)
    assert document_adapter().validate_json(render(report, "json")) == report


def test_the_schema_refuses_another_version() -> None:
    document = json.loads(render(helpdesk_report(), "json"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "schema_version": 2}, schema())


def test_every_part_says_what_it_is() -> None:
    def parts() -> Iterator[tuple[str, dict[str, Any]]]:
        yield "Document", schema()
        yield from schema()["$defs"].items()

    assert [name for name, part in parts() if not part.get("description") and "enum" not in part] == []
