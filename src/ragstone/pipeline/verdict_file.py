"""verdict.json: what the reports of a gate said, kept in the run so that they can be
shown again."""

from __future__ import annotations

import json
import os
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from ragstone.errors import ConfigError, RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.directory import VERDICT, RunDirectory
from ragstone.evaluation.files import replace_text
from ragstone.files import read_regular
from ragstone.report.escape import plain
from ragstone.report.parts import Document

Model = TypeVar("Model", bound=BaseModel)

MAX_VERDICT_BYTES = 512 * 1024 * 1024


class StoredVerdict(Struct, frozen=True):
    """The content of verdict.json. `run` is the fingerprint of the run, `document` has
    no secrets."""

    run: str
    document: Document
    schema_version: Literal[1] = 1


def write_verdict(run: RunDirectory, document: Document) -> None:
    """Store the verdict of `run`. `document` is already redacted."""
    body = plain(StoredVerdict(run.fingerprint, document))
    replace_text(
        run.path / VERDICT,
        json.dumps(body, ensure_ascii=True, separators=(",", ":")) + "\n",
    )


def read_verdict(run: RunDirectory) -> Document | None:
    """What the gate's reports on `run` said; None without a verdict, or if it was
    evaluated again since.

    Raises RunDirectoryError.
    """
    file = run.path / VERDICT
    hint = "Remove the file to decide again, or run the gate again."
    if run.manifest.verdict is None or not os.path.lexists(file):
        return None
    kind = RunDirectoryError
    with (
        disk_errors(file, kind=kind, hint=hint),
        parse_errors(file, "not a valid verdict", kind=kind, hint=hint),
    ):
        body = read_regular(file, limit=MAX_VERDICT_BYTES)
        stored = msgspec.json.decode(body, type=StoredVerdict, dec_hook=_model)
    belongs_to_run = (
        stored.run == run.fingerprint
        and stored.document.verdict.status.value == run.manifest.verdict
    )
    return stored.document if belongs_to_run else None


def _model(kind: type[Model], value: object) -> Model:
    """A part of the document that is a model of pydantic."""
    return kind.model_validate(value)


def require_verdict(run: RunDirectory) -> Document:
    """What the gate's reports on `run` said. Raises ConfigError without a verdict, and
    RunDirectoryError."""
    document = read_verdict(run)
    if document is None:
        raise ConfigError(
            "this run has no verdict.",
            where=str(run.path),
            hint="`ragstone gate` writes one. `ragstone compare [BASELINE] RUN` decides on a run without one.",
        )
    return document
