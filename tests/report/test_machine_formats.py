"""JSON and JUnit, for programs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

import ragstone.report
from ragstone.evaluation import manifest
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate import alignment
from ragstone.gate.facts import Facts, Said
from ragstone.gate.golden_set_change import GoldenSetChange
from ragstone.gate.usage_change import UsageChange
from ragstone.gate.verdict import (
    Action,
    Attribution,
    CauseCount,
    Changed,
    Check,
    CheckKind,
    Diagnosis,
    Interval,
    MetricShares,
    OracleShares,
    RetrievalChanges,
    Status,
)
from ragstone.report import parts
from ragstone.report.document import ELSEWHERE, schema
from ragstone.report.parts import ReportView
from ragstone.report.render import Format, render
from ragstone.report.view import build_view
from ragstone.settings.settings import SystemPrice
from tests.gate.verdicts import verdict_of
from tests.report.conftest import view_of

SHIPPED = json.loads(
    (Path(ragstone.report.__file__).parent / "schema" / "report.schema.json").read_text(encoding="utf-8")
)


DESCRIBED: dict[str, type] = {
    "AttributionPart": Attribution,
    "CausePart": CauseCount,
    "ChangePart": parts.ChangePart,
    "ChangedPart": Changed,
    "CheckPart": Check,
    "ComparisonPart": parts.ComparisonPart,
    "ContextsUsedPart": alignment.ContextsUsed,
    "CostPart": manifest.Cost,
    "DiagnosisPart": Diagnosis,
    "FactsPart": Facts,
    "FailedSamplePart": parts.FailedSamplePart,
    "FailurePart": parts.FailurePart,
    "GoldenSetChangePart": GoldenSetChange,
    "GonePart": tuple,
    "IntervalPart": Interval,
    "JudgePart": parts.JudgeFacts,
    "MetricPart": parts.MetricRow,
    "OraclePart": OracleShares,
    "PlacePart": parts.PlacePart,
    "PricePart": SystemPrice,
    "RankUsePart": alignment.RankUse,
    "ReportDocument": ReportView,
    "RetrievalPart": RetrievalChanges,
    "RunPart": parts.RunPart,
    "SaidPart": Said,
    "SamplePart": parts.SamplePart,
    "SharesPart": MetricShares,
    "StatementPart": parts.StatementPart,
    "UsageChangePart": UsageChange,
    "UsagePart": manifest.SystemUsage,
}


def test_the_schema_is_the_shipped_one_and_all_that_it_names_exists() -> None:
    assert schema() == SHIPPED
    objects = {"ReportDocument": SHIPPED, **SHIPPED["$defs"]}
    assert objects.keys() == DESCRIBED.keys()
    for title, described in DESCRIBED.items():
        shape = objects[title]
        assert shape["title"] == title
        assert shape["additionalProperties"] is False
        assert set(shape["required"]) <= shape["properties"].keys()
        known = {*dir(described), *getattr(described, "model_fields", ())}
        elsewhere = {name for owner, name in ELSEWHERE if owner == title}
        assert shape["properties"].keys() - elsewhere <= known, title
    assert all(name in objects[title]["properties"] for title, name in ELSEWHERE)


@pytest.mark.parametrize("status", list(Status))
def test_every_verdict_fits_the_schema(status: Status) -> None:
    document = json.loads(render(view_of(status), "json"))
    jsonschema.Draft202012Validator.check_schema(SHIPPED)
    jsonschema.validate(document, SHIPPED)
    assert document["schema_version"] == 1
    assert document["status"] == status
    assert document["exit_code"] == view_of(status).exit_code


def test_the_schema_refuses_what_it_does_not_know() -> None:
    document = json.loads(render(view_of(), "json"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "surprise": 1}, SHIPPED)


def one_check(status: Status, action: Action, *, blocks: bool = False) -> ReportView:
    check = Check("x", CheckKind.FLOOR, status, action, "because", metric="m", estimate=0.5, threshold=0.6)
    overall = status if action is Action.BLOCK else Status.PASS
    scores = RunScores("run", {"m": MetricScores({"a": 0.5})}, {"a": SampleFacts()})
    return build_view(verdict_of(overall, "because", [check], inconclusive_blocks=blocks), scores)


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


MARKS: dict[Format, str] = {
    "md": "(warns)",
    "json": '"action": "warn"',
    "junit": "warning",
    "html": "(warns)",
    "text": "(warns)",
}


@pytest.mark.parametrize("form", MARKS)
def test_a_check_that_only_warns_is_marked_so(form: Format) -> None:
    """JUnit has no word for a test case that passes and would not have mattered."""
    mark = MARKS[form]
    for status in Status:
        if (form, status) != ("junit", Status.PASS):
            assert mark in render(one_check(status, Action.WARN), form), status
            assert mark not in render(one_check(status, Action.BLOCK), form), status


@pytest.mark.parametrize("form", ["md", "html", "text"])
def test_so_is_one_of_the_whole_run_that_passes(form: Format) -> None:
    for action in (Action.WARN, Action.BLOCK):
        check = Check("latency.p95", CheckKind.LATENCY, Status.PASS, action, "fast", estimate=0.5, threshold=2.0)
        view = build_view(verdict_of(Status.PASS, "fine", [check]), RunScores("run", {}, {}))
        assert ("(warns)" in render(view, form)) is (action is Action.WARN)


@pytest.mark.parametrize("status", list(Status))
def test_junit_keeps_to_the_common_schema(status: Status) -> None:
    root = ElementTree.fromstring(render(view_of(status), "junit").encode())
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
    root = ElementTree.fromstring(render(view_of(), "junit").encode())
    cases = {str(case.get("name")): case for case in root.iter("testcase")}
    worst = cases["port-default"]
    assert (worst.get("file"), worst.get("line")) == ("golden/helpdesk.jsonl", "1")
    failure = worst.find("failure")
    assert failure is not None
    assert "contradicted: The gateway listens on port 8080." in str(failure.text)
    assert cases["q-059 (no score)"].find("error") is not None
