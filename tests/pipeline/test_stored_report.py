"""report.json: what is read from it is shown as it was, and what is none is refused."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import REPORT, RunDirectory
from ragstone.gate.verdict import CheckKind, Status
from ragstone.pipeline.stored_report import read_report
from ragstone.report.document import check_part
from ragstone.report.parts import Document
from ragstone.report.render import Format, render
from tests.cli.project import make_project, ragstone
from tests.report.conftest import check, helpdesk_report


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    folder = make_project(tmp_path_factory.mktemp("verdict"), n=3)
    ragstone(["gate"], folder)
    return RunDirectory.open(folder / "ragstone-run")


def stored(run: RunDirectory, document: Document) -> Document:
    (run.path / REPORT).write_text(render(document, "json"), encoding="utf-8")
    facts = {
        "verdict": document.verdict.status.value,
        "created_at": document.run.created_at,
        "answers": document.run.answers,
    }
    document_read = read_report(run.with_manifest(run.manifest.model_copy(update=facts)))
    assert document_read is not None
    return document_read


EVERY_KIND = tuple(
    check_part(check(name, kind, 2.0, (2.5, 2.1, 2.9), fails=True, metric=metric))
    for name, kind, metric in (
        ("system.latency_p95", CheckKind.LATENCY, None),
        ("system.tokens_mean_rise", CheckKind.SYSTEM_RISE, None),
        ("coverage", CheckKind.COVERAGE, None),
        ("faithfulness.floor", CheckKind.FLOOR, "faithfulness"),
        ("hallucination.ceiling", CheckKind.CEILING, "hallucination"),
        ("faithfulness.drift", CheckKind.DRIFT, "faithfulness"),
    )
)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("form", ["text", "md", "json", "junit", "html"])
def test_a_stored_report_reads_as_it_was_written(run: RunDirectory, status: Status, form: Format) -> None:
    report = helpdesk_report(status)
    report = replace(report, checks=(*report.checks, *EVERY_KIND))
    assert render(stored(run, report), form) == render(report, form)


HOSTILE = {
    "no JSON": b"{",
    "nested too deeply": b'{"checks":' + b"[" * 100_000,
    "not UTF-8": b'{"title":"\xff"}',
    "half a character": b'{"title":"\\ud800"}',
    "a list": b"[]",
    "another type": b'{"verdict":"x"}',
    "another version": b'{"schema_version":2}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_report_is_refused_with_its_place(run: RunDirectory, body: bytes) -> None:
    (run.path / REPORT).write_bytes(body)
    with pytest.raises(RunDirectoryError, match=r"report\.json"):
        read_report(run)


def types_in(kind: Any) -> Iterator[type]:
    """The types of a document's parts, at any depth."""
    if get_origin(kind) is not None:
        for argument in get_args(kind):
            yield from types_in(argument)
        return
    if isinstance(kind, type):
        yield kind
        if issubclass(kind, Struct):
            for hint in get_type_hints(kind).values():
                yield from types_in(hint)


def test_all_texts_of_a_report_are_where_secrets_are_looked_for() -> None:
    """Models of pydantic are not looked into: those in a report have numbers alone."""
    parts = set(types_in(Document))
    assert len(parts) > 20
    models = {part for part in parts if issubclass(part, BaseModel)}
    assert parts - models <= {part for part in parts if issubclass(part, (Struct, Enum, str, int, float, NoneType))}
    texts = [
        name for model in models for name, field in model.model_fields.items() if str in types_in(field.annotation)
    ]
    assert texts == []
