"""Sends scores as events to a collector of OpenTelemetry, over OTLP/HTTP. Needs the extra `otel`.

Endpoint, headers, certificates, compression and time-outs come from the environment (OTEL_*), as its SDK reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ragstone.errors import ConfigError, ExportError
from ragstone.formatting import counted
from ragstone.metrics.score import Score
from ragstone.report.escape import one_line
from ragstone.tools.export.facts import FinishedRun
from ragstone.tools.export.rows import SampleRow, sample_rows
from ragstone.tools.export.tracker import captured_log, shown_address

BATCH_EVENTS = 500
BATCH_CHARS = 2_000_000
"""A batch is sent when it has so many events, or so many characters of text."""

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SAID_CHARS = 300


@dataclass(slots=True)
class Sent:
    """What a collector has accepted, by the kind of score, and where it is."""

    where: str
    scores: Counter[type[Score]] = field(default_factory=Counter)
    samples: int = 0


def export_otel(found: FinishedRun, environ: Mapping[str, str]) -> Sent:
    """Send an event for each score of `found`, in batches, and count what was accepted.

    Raises ConfigError if the packages are missing or another protocol is asked for; ExportError, with what was accepted
    before, if the collector can't be reached or refuses anything.
    """
    _check_protocol(environ)
    try:
        from ragstone.tools.export.otlp import Collector
    except ImportError as error:
        raise ConfigError(
            f"exporting to OpenTelemetry needs {error.name or 'its SDK'}, which is not installed.",
            hint="pip install 'ragstone[otel]'",
        ) from None
    sent = Sent(_address(environ))
    with captured_log("opentelemetry") as log:
        collector = Collector(found)
        batch: list[tuple[SampleRow, str, Score]] = []
        size = 0

        def flush() -> None:
            refusal = collector.send(batch)
            if refusal is None:
                sent.scores.update(type(score) for _, _, score in batch)
                batch.clear()
                return
            said = found.redact(one_line(refusal or (log[-1] if log else "no answer")))[:_SAID_CHARS].rstrip(".")
            named = (
                ""
                if any(environ.get(name) for name in _ENDPOINTS)
                else f"Set {_ENDPOINTS[1]} if the collector is elsewhere. "
            )
            raise ExportError(
                f"the collector did not accept the events: {said}.",
                where=sent.where,
                hint=f"{named}It had accepted {counted(sent.scores.total(), 'event')} before. Events that are sent "
                "again have the same log.record.uid.",
            )

        try:
            for row in sample_rows(found):
                for metric, score in row.scores.items():
                    batch.append((row, metric, score))
                    size += _chars(row, score)
                    if len(batch) >= BATCH_EVENTS or size >= BATCH_CHARS:
                        flush()
                        size = 0
                sent.samples += 1
            if batch:
                flush()
        finally:
            collector.close()
    return sent


def _chars(row: SampleRow, score: Score) -> int:
    return sum(map(len, (row.texts or {}).values())) + len(getattr(score, "reason", ""))


def _check_protocol(environ: Mapping[str, str]) -> None:
    for name in _PROTOCOLS:
        asked = environ.get(name, "").strip()
        if asked and asked != _PROTOCOL:
            raise ConfigError(
                f"found '{asked}', but events are sent as {_PROTOCOL} only.",
                where=name,
                hint=f"Set it to {_PROTOCOL}, and the endpoint to the collector's port for HTTP, usually 4318.",
            )
        if asked:
            return


def _address(environ: Mapping[str, str]) -> str:
    """Where the events go, without what may be secret in an address: user, password, query."""
    given = next((environ[name] for name in _ENDPOINTS if environ.get(name)), "http://localhost:4318")
    parts = urlsplit(shown_address(given))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            "the endpoint is not an address that starts with http:// or https://.", where=" or ".join(_ENDPOINTS)
        )
    return f"{parts.scheme}://{parts.netloc}"
