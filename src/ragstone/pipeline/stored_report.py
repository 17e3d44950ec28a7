"""Reads the report.json of a run, to show again what the gate's reports said."""

from __future__ import annotations

import os

import msgspec
from pydantic import BaseModel

from ragstone.errors import ConfigError, RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.directory import REPORT, RunDirectory
from ragstone.files import read_regular
from ragstone.report.parts import Document

MAX_REPORT_BYTES = 512 * 1024 * 1024


def read_report(run: RunDirectory) -> Document | None:
    """The document of the gate's reports on `run`; None if it has no verdict, or was
    evaluated again since.

    Raises RunDirectoryError.
    """
    file, manifest = run.path / REPORT, run.manifest
    hint = "Remove the file to decide again, or run the gate again."
    if manifest.verdict is None or not os.path.lexists(file):
        return None
    kind = RunDirectoryError
    with (
        disk_errors(file, kind=kind, hint=hint),
        parse_errors(file, "not a valid report", kind=kind, hint=hint),
    ):
        body = read_regular(file, limit=MAX_REPORT_BYTES)
        report = msgspec.json.decode(body, type=Document, dec_hook=_parse_model)
    is_of_run = (
        report.run.created_at == manifest.created_at
        and report.run.answers == manifest.answers
        and report.verdict.status.value == manifest.verdict
    )
    return report if is_of_run else None


def _parse_model(kind: type[BaseModel], value: object) -> BaseModel:
    """Parse a part of the document that is a model of pydantic, which msgspec doesn't
    know."""
    return kind.model_validate(value)


def require_report(run: RunDirectory) -> Document:
    """The document of the gate's reports on `run`. Raises ConfigError if it has no
    verdict, and RunDirectoryError."""
    document = read_report(run)
    if document is None:
        raise ConfigError(
            "this run has no verdict.",
            where=str(run.path),
            hint="Run `ragstone gate`, or decide on this run with `ragstone compare [BASELINE] RUN`.",
        )
    return document
