"""JUnit XML: one test case per check, and one per sample that got worse or failed."""

from __future__ import annotations

from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from ragstone.gate.verdict import Action, Check, Status
from ragstone.report import wording
from ragstone.report.escape import clip, markup
from ragstone.report.parts import PlacePart, ReportView, SamplePart
from ragstone.report.rows import check_title

_LENGTH = 4000
_MAX_FAILED = 1000
"""Samples without a score that have a case of their own; the others have the same reasons."""


def render_junit(view: ReportView) -> str:
    """The report as JUnit XML.

    Suite ``checks``: a failed blocking check is a failure; a warning, or an inconclusive check that does not block, is
    skipped with its reason; an error is an error. Warnings of the verdict are skipped too. Suite ``samples``: a sample
    that got worse is a failure if the gate failed and skipped otherwise; a sample without a score is an error.
    """
    return _text(_document(view))


def _document(view: ReportView) -> JUnitXml:
    document = JUnitXml(name=_line(view.title))
    checks = TestSuite("checks")
    _describe(checks, view)
    decided = [_case(check_title(check), "checks", _check_result(check, view)) for check in view.checks]
    checks.add_testcases(_named_apart(decided))
    for number, warning in enumerate(view.warnings, 1):
        skipped = Skipped(_line(wording.sentence(warning), 1000))
        checks.add_testcase(_case(f"Warning {number}", "warnings", skipped))
    document.add_testsuite(checks)
    cases = [_worst_case(sample, view) for sample in view.worst]
    failed = [
        _case(f"{sample.id} (no score)", "samples", Error(_line(group.reason, 1000), group.by), sample.place)
        for group in view.failures
        for sample in group.samples
    ]
    cases += failed[:_MAX_FAILED]
    if cases:
        samples = TestSuite("samples")
        samples.add_testcases(_named_apart(cases))
        if view.worst_left:
            samples.add_property("samples_left_out", str(view.worst_left))
        if len(failed) > _MAX_FAILED:
            samples.add_property("failed_left_out", str(len(failed) - _MAX_FAILED))
        document.add_testsuite(samples)
    return document


def _text(document: JUnitXml) -> str:
    document.update_statistics()  # type: ignore[no-untyped-call]
    body: bytes = document.tostring()  # type: ignore[no-untyped-call]
    # The library uses lxml if it is installed; reading the XML back gives the same text everywhere.
    root = ElementTree.fromstring(body)  # noqa: S314 - our own
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _named_apart(cases: list[TestCase]) -> list[TestCase]:
    """Number the cases whose name repeats: readers of JUnit keep one case per name."""
    seen: dict[str, int] = {}
    for case in cases:
        name = str(case.name)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            case.name = f"{name} ({seen[name]})"
    return cases


def _line(text: str, length: int = 300) -> str:
    return clip(" ".join(markup(text).split()), length)


def _describe(suite: TestSuite, view: ReportView) -> None:
    suite.add_property("verdict", str(view.status))
    suite.add_property("headline", _line(str(view.headline), 1000))
    suite.add_property("reason", _line(view.reason, 1000))
    if view.resolution is not None:
        suite.add_property("resolution", _line(view.resolution, 1000))
    if said := wording.causes(view.explained):
        suite.add_property("causes", _line(said, 1000))
    if view.changed:
        suite.add_property("changed", _line(view.changed, 1000))
    if view.usage:
        suite.add_property("usage", _line(view.usage, 1000))
    if view.judge is not None:
        suite.add_property("judge", _line(view.judge.label))
        suite.add_property("offline_judge", str(view.judge.offline).lower())
    if view.run.commit:
        suite.add_property("commit", _line(view.run.commit))


def _case(name: str, kind: str, result: FinalResult | None, place: PlacePart | None = None) -> TestCase:
    case = TestCase(name=_line(name), classname=f"ragstone.{kind}")
    case.result = [result] if result is not None else []
    if place is not None and place.file:
        case._elem.set("file", _line(place.file))
    if place is not None and place.line:
        case._elem.set("line", str(place.line))
    return case


def _check_result(check: Check, view: ReportView) -> FinalResult | None:
    reason = _line(check.reason, 1000)
    blocks = check.action is Action.BLOCK
    if check.status in (Status.ERROR, Status.FAIL) and not blocks:
        return Skipped(f"warning: {reason}")
    if check.status is Status.ERROR:
        return Error(reason, "error")
    if check.status is Status.FAIL:
        return Failure(reason, str(check.kind))
    if check.status is Status.INCONCLUSIVE:
        blocked = blocks and not view.passed and view.status is Status.INCONCLUSIVE
        only = "" if blocks else "warning, "
        return Failure(reason, "inconclusive") if blocked else Skipped(f"{only}inconclusive: {reason}")
    return None


def _worst_case(sample: SamplePart, view: ReportView) -> TestCase:
    message = _line("; ".join(wording.moved(change) for change in sample.changes), 1000)
    if view.status is not Status.FAIL:
        return _case(sample.id, "samples", Skipped(message), sample.place)
    failure = Failure(message, "regression")
    failure.text = clip(markup(_story(sample)), _LENGTH)
    return _case(sample.id, "samples", failure, sample.place)


def _story(sample: SamplePart) -> str:
    lines = [f"question: {sample.question}"]
    lines += [f"{bad.verdict}: {bad.text}" for bad in sample.unsupported]
    lines += [f"cause: {sample.cause}"] if sample.cause else []
    lines += [f"missing from the contexts: {text}" for text in sample.missing]
    if sample.detailed:
        lines.append(f"answer: {sample.answer}")
    return "\n".join(lines)
