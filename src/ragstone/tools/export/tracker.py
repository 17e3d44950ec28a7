"""What exports to trackers of experiments share: the files that go along, what became of them, refusals."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from ragstone.app.report import report
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError, ExportError, RagstoneError
from ragstone.project.gate import report_terms
from ragstone.report.escape import one_line
from ragstone.run.directory import MANIFEST
from ragstone.tools.export.facts import FinishedRun
from ragstone.tools.export.rows import LEFT_OUT, columns, table, write_json


@contextmanager
def captured_log(*names: str) -> Iterator[list[str]]:
    """The last line that the loggers of these names write, in a list; nothing of theirs is printed."""
    lines: list[str] = []

    class LastLine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines[:] = [record.getMessage()]

    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers[:], logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers[:], logger.propagate = [LastLine()], False
    try:
        yield lines
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:], logger.propagate = handlers, propagate


State = Literal["new", "updated", "same", "waiting"]

REPORT = "report.html"
NOT_SENT = "not sent"
_SAID_CHARS = 500


@dataclass(frozen=True, slots=True)
class Exported:
    """Where the run is now. `state`: it is new there, it was brought up to date, it was there as it is, or it
    waits in a folder to be sent."""

    where: str
    id: str
    state: State


def write_files(
    found: FinishedRun, folder: Path, settings: Settings, samples: str, missing: str, *, typed: bool = False
) -> list[Path]:
    """The files that go with a run: its tables `samples` and `missing`, its manifest, and its report if it may leave.

    `typed` tables state the types of their columns.
    """
    for name, titles, rows in (
        (samples, columns(found), table(found)),
        (missing, LEFT_OUT, map(astuple, found.left_out)),
    ):
        write_json(folder / name, titles, rows, _types(titles) if typed else {})
    page = write_report(found, folder, settings)
    return [folder / samples, folder / missing, write_manifest(found, folder), *([page] if page else [])]


def _types(titles: Sequence[str]) -> Mapping[str, object]:
    """What makes a JSON table one of Weights & Biases: any cell is text, a number, a truth value, or missing."""
    kinds = [{"wb_type": kind} for kind in ("none", "string", "number", "boolean")]
    column = {"wb_type": "union", "params": {"allowed_types": kinds}}
    types = {"wb_type": "typedDict", "params": {"type_map": dict.fromkeys(titles, column)}}
    return {"_type": "table", "column_types": types}


def write_manifest(found: FinishedRun, folder: Path) -> Path:
    """The manifest without secrets, and without a message of an error unless texts may leave."""
    path = folder / MANIFEST
    body = found.redact.view(found.run.manifest.model_dump(mode="json"))
    if body["oracle"] is not None and body["oracle"]["incomplete"] is not None and not found.texts:
        body["oracle"]["incomplete"] = NOT_SENT
    path.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    return path


def write_report(found: FinishedRun, folder: Path, settings: Settings) -> Path | None:
    """The HTML report of the gate, which has all texts; None unless texts may leave, or without a verdict."""
    if not found.texts or found.verdict is None:
        return None
    path = folder / REPORT
    path.write_text(
        found.redact(report(found.run, "html", report_terms(settings), found.redact).text), encoding="utf-8"
    )
    return path


def digest(found: FinishedRun) -> str:
    """A hash of what an export says: 16 hexadecimal digits."""
    said = [found.name, found.verdict, found.reason, dict(found.parameters), dict(found.figures), found.texts]
    body = json.dumps([found.run.fingerprint, *said], sort_keys=True)
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def shown_address(address: str) -> str:
    """`address` without what may be secret in it: user, password, query, fragment."""
    try:
        parts = urlsplit(address)
        if not parts.hostname:
            return f"{parts.scheme}:{parts.path}" if parts.scheme else parts.path
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        port = f":{parts.port}" if parts.port is not None else ""
        return f"{parts.scheme}://{host}{port}{parts.path}"
    except ValueError:
        return "an address that can't be read"


@contextmanager
def refusing(
    found: FinishedRun, tracker: str, where: str, usage: tuple[type[Exception], ...] = (), key: str = ""
) -> Iterator[None]:
    """Turn whatever an SDK raises into ExportError: stores of artifacts have exceptions of their own.

    Errors of `usage` become ConfigError, with the hint `key` if the API key is missing.
    """
    try:
        yield
    except RagstoneError:
        raise
    except Exception as error:
        said = found.redact(one_line(str(error) or type(error).__name__))[:_SAID_CHARS]
        if isinstance(error, usage):
            raise ConfigError(said, where=tracker, hint=key if "API key" in said else None) from None
        raise ExportError(
            f"{tracker} did not accept the run: {said}",
            where=where,
            hint="The export is incomplete. Export again when this is fixed: the same run is completed.",
        ) from None
