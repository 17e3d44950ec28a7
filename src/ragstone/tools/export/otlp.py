"""Scores as events `gen_ai.evaluation.result`, sent over OTLP/HTTP by OpenTelemetry's SDK: imported only then.

Source of the names: OpenTelemetry's semantic conventions for generative AI, events, as of November 2026 (status:
development). Names of our own start with `ragstone.`: the conventions have none for who judged, or for a sample.

The SDK sends one batch at a time, from this thread. Its own batch processor would drop what it can't send, and say so
in a log only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import requests
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from ragstone._version import __version__
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.tools.export.facts import FinishedRun
from ragstone.tools.export.rows import SampleRow

EVENT = "gen_ai.evaluation.result"


def _attributes(
    found: FinishedRun, shared: Mapping[str, Any], row: SampleRow, metric: str, score: Score
) -> dict[str, Any]:
    """The attributes of one score's event; those in `shared` are of every event of the run."""
    attributes: dict[str, Any] = {"gen_ai.evaluation.name": metric}
    match score:
        case Scored(value, note):
            attributes["gen_ai.evaluation.score.value"] = value
            explanation = note
        case NotApplicable(reason):
            attributes["gen_ai.evaluation.score.label"] = "not_applicable"
            explanation = reason
        case Failed(by, reason):
            attributes["gen_ai.evaluation.score.label"] = "failed"
            attributes["error.type"] = row.failure if by == "system" and row.failure is not None else by
            explanation = reason
    if explanation:
        attributes["gen_ai.evaluation.explanation"] = explanation
    if row.response_id is not None:
        attributes["gen_ai.response.id"] = row.response_id
    attributes |= shared
    attributes["ragstone.metric.version"] = found.run.manifest.metrics[metric]
    attributes["ragstone.sample.id"] = row.id
    if row.tags:
        attributes["ragstone.sample.tags"] = row.tags
    if row.draft:
        attributes["ragstone.sample.draft"] = True
    if row.texts is not None:
        attributes["ragstone.sample.question"] = row.texts["question"]
        attributes["ragstone.response.answer"] = row.texts["answer"]
    # Stable, however often the score is exported.
    body = f"{found.run.fingerprint}\0{row.id}\0{metric}"
    attributes["log.record.uid"] = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return attributes


def _facts_of_run(found: FinishedRun) -> Iterator[tuple[str, Any]]:
    """The attributes of every event of a run: which run it is, and who judged."""
    given = found.parameters
    yield "ragstone.run.fingerprint", found.run.fingerprint
    if found.verdict is not None:
        yield "ragstone.run.verdict", found.verdict
    judge = (f"judge.{name}" for name in ("provider", "model", "version", "endpoint", "embeddings"))
    for name in (*judge, "golden.hash", "policy.hash", "system.version", "system.commit"):
        if name in given:
            yield "vcs.ref.head.revision" if name == "system.commit" else f"ragstone.{name}", given[name]


_REPLY_BYTES = 65_536


class _Session(requests.Session):
    """Tells `lost` why a request got no reply."""

    def __init__(self, lost: Callable[[requests.RequestException], None]) -> None:
        super().__init__()
        self._lost = lost

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        try:
            return super().send(request, **kwargs)
        except requests.RequestException as error:
            self._lost(error)
            raise


class Collector:
    """A collector at the endpoint that the environment names. All events have the time at which the run started."""

    def __init__(self, found: FinishedRun) -> None:
        self._found = found
        self._shared = dict(_facts_of_run(found))
        self._started_ns = 0 if found.started is None else int(found.started.timestamp() * 1e6) * 1000
        self._refused = ""
        session = _Session(self._lost)
        session.max_redirects = 0  # the answer elsewhere would count as this one's
        session.hooks["response"].append(self._look)
        self._exporter = OTLPLogExporter(session=session)
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "ragstone", SERVICE_VERSION: __version__}))
        self._resource = resource
        self._scope = InstrumentationScope("ragstone", __version__)

    def send(self, scores: Sequence[tuple[SampleRow, str, Score]]) -> str | None:
        """Send one batch, with the SDK's own retries. None if all was accepted, else why not, if the collector said."""
        self._refused = ""
        done = self._exporter.export([self._record(*one) for one in scores])
        return self._refused if self._refused or done is not LogRecordExportResult.SUCCESS else None

    def close(self) -> None:
        self._exporter.shutdown()

    def _record(self, row: SampleRow, metric: str, score: Score) -> ReadableLogRecord:
        span = SpanContext(row.trace, row.span, is_remote=True, trace_flags=TraceFlags(0))
        record = LogRecord(
            timestamp=self._started_ns or None,
            context=set_span_in_context(NonRecordingSpan(span), Context()),
            severity_number=SeverityNumber.WARN if isinstance(score, Failed) else SeverityNumber.INFO,
            attributes=_attributes(self._found, self._shared, row, metric, score),
            event_name=EVENT,
        )
        return ReadableLogRecord(record, self._resource, self._scope)

    def _lost(self, error: requests.RequestException) -> None:
        """The SDK only says that it has given up."""
        if isinstance(error, requests.TooManyRedirects):
            return  # `_look` has seen it
        if isinstance(error, requests.Timeout):
            self._refused = "no answer in time"
            return
        cause: BaseException | None = error
        while cause is not None and not (isinstance(cause, OSError) and cause.strerror):
            cause = cause.__cause__ or cause.__context__
        self._refused = f"no connection ({cause.strerror if isinstance(cause, OSError) else type(error).__name__})"

    def _look(self, reply: requests.Response, *_: Any, **__: Any) -> None:
        """The SDK takes any answer below 400 for success, and does not look for events that were rejected."""
        self._refused = ""
        if not 200 <= reply.status_code < 300:
            self._refused = f"it answered {reply.status_code} {reply.reason or ''}".strip()
            return
        body = reply.content
        if "protobuf" not in reply.headers.get("content-type", "") or len(body) > _REPLY_BYTES:
            return
        try:
            partial = ExportLogsServiceResponse.FromString(body).partial_success
        except Exception:  # protobuf's DecodeError, of a body that is none
            return
        if partial.rejected_log_records:
            said = f": {partial.error_message}" if partial.error_message else ""
            self._refused = f"it rejected {partial.rejected_log_records:,} of them{said}"
