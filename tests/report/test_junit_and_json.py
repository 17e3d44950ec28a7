"""JUnit, for test viewers, and JSON with its schema, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.manifest import Cost
from ragstone.gate.verdict import Action, Status
from ragstone.report.parts import Document
from ragstone.report.render import render
from scripts.schemas import PACKAGE, report_schema
from tests.report.conftest import helpdesk_report
from tests.report.runs import one_check

SCHEMA = json.loads((PACKAGE / "report" / "schema" / "report.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("status", "action", "blocks", "outcome"),
    [
        (Status.PASS, Action.BLOCK, False, None),
        (Status.FAIL, Action.BLOCK, False, "failure"),
        (Status.FAIL, Action.WARN, False, "skipped"),
        (Status.INCONCLUSIVE, Action.BLOCK, False, "skipped"),
        (Status.INCONCLUSIVE, Action.BLOCK, True, "failure"),
        (Status.INCONCLUSIVE, Action.WARN, True, "skipped"),
        (Status.ERROR, Action.BLOCK, False, "error"),
        (Status.ERROR, Action.WARN, False, "skipped"),
    ],
)
def test_a_check_is_a_test_case(status: Status, action: Action, blocks: bool, outcome: str | None) -> None:
    root = ElementTree.fromstring(render(one_check(status, action, blocks=blocks), "junit").encode())
    (case,) = root.iter("testcase")
    assert [child.tag for child in case] == ([outcome] if outcome else [])
    if outcome:
        assert "because" in str(case[0].get("message"))


@pytest.mark.parametrize("status", list(Status))
def test_junit_keeps_to_the_common_schema(status: Status) -> None:
    root = ElementTree.fromstring(render(helpdesk_report(status), "junit").encode())
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        cases = suite.findall("testcase")
        assert [child.tag for child in suite][: len(suite) - len(cases)] in ([], ["properties"])
        assert suite.get("name")
        for name, tag in (("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            counted = len(cases) if tag is None else sum(case.find(tag) is not None for case in cases)
            assert int(suite.get(name, "-1")) == counted
        for case in cases:
            assert case.get("name")
            assert case.get("classname")
            assert {child.tag for child in case} <= {"failure", "error", "skipped"}
            assert len(case) <= 1
    for name in ("tests", "failures", "errors"):
        assert int(root.get(name, "-1")) == sum(int(suite.get(name, "0")) for suite in root)


def test_junit_names_the_samples_that_got_worse_and_those_that_failed() -> None:
    root = ElementTree.fromstring(render(helpdesk_report(), "junit").encode())
    cases = {str(case.get("name")): case for case in root.iter("testcase")}
    worst = cases["port-default"]
    assert (worst.get("file"), worst.get("line")) == ("golden/helpdesk.jsonl", "1")
    failure = worst.find("failure")
    assert failure is not None
    assert "contradicted: The gateway listens on port 8080." in str(failure.text)
    assert cases["q-059 (no score)"].find("error") is not None


def test_the_shipped_schema_is_made_from_the_parts_of_the_document() -> None:
    assert report_schema() == SCHEMA, "run make generated"


@pytest.mark.parametrize("status", list(Status))
def test_a_document_fits_the_schema_and_is_read_as_it_was_written(status: Status) -> None:
    report = helpdesk_report(status)
    text = render(report, "json")
    jsonschema.validate(json.loads(text), SCHEMA)
    assert msgspec.json.decode(text, type=Document, dec_hook=lambda kind, value: Cost(**value)) == report
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(text), "schema_version": 2}, SCHEMA)


def test_an_unknown_format_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"unknown report format 'jsn'\.\n.*'json'"):
        render(helpdesk_report(), "jsn")  # type: ignore[arg-type]


def test_every_part_says_what_it_is() -> None:
    def parts() -> Iterator[tuple[str, dict[str, Any]]]:
        yield "Document", SCHEMA
        yield from SCHEMA["$defs"].items()

    assert [name for name, part in parts() if not part.get("description") and "enum" not in part] == []
