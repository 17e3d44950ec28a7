"""The files that go with an exported run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ragstone.app.report import report
from ragstone.config import Settings
from ragstone.run.directory import MANIFEST
from ragstone.tools.export.facts import FinishedRun

REPORT = "report.html"
NOT_SENT = "not sent"


def write_manifest(found: FinishedRun, folder: Path) -> Path:
    """The manifest without secrets, and without a message of an error unless texts may leave."""
    path = folder / MANIFEST
    body = found.redact.view(found.manifest.model_dump(mode="json"))
    if body["oracle"] is not None and body["oracle"]["incomplete"] is not None and not found.texts:
        body["oracle"]["incomplete"] = NOT_SENT
    path.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    return path


def write_report(found: FinishedRun, folder: Path, settings: Settings) -> Path | None:
    """The HTML report of the gate, which has all texts; None unless texts may leave, or without a verdict."""
    if not found.texts or found.verdict is None:
        return None
    path = folder / REPORT
    path.write_text(found.redact(report(found.run.path, "html", settings, found.redact).text), encoding="utf-8")
    return path


def digest(found: FinishedRun) -> str:
    """The same for exports that say the same: 16 hexadecimal digits."""
    said = [found.name, found.verdict, found.reason, dict(found.parameters), dict(found.figures), found.texts]
    body = json.dumps([found.fingerprint, *said], sort_keys=True)
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]
