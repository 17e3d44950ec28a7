"""A collector that speaks OTLP/HTTP, through OpenTelemetry's SDK: imported only when something is sent.

The SDK sends one batch at a time, from this thread. Its own batch processor would drop what it can't send, and say so
in a log only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from ragstone.tools.export.events import EVENT, Event

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
    """A collector at the endpoint that the environment names. All events have the time `started_ns`."""

    def __init__(self, started_ns: int) -> None:
        self._started_ns = started_ns
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

    def send(self, events: Sequence[Event]) -> str | None:
        """Send one batch, with the SDK's own retries. None if all was accepted, else why not, if the collector said."""
        self._refused = ""
        done = self._exporter.export([self._record(event) for event in events])
        return self._refused if self._refused or done is not LogRecordExportResult.SUCCESS else None

    def close(self) -> None:
        self._exporter.shutdown()

    def _record(self, event: Event) -> ReadableLogRecord:
        span = SpanContext(event.trace, event.span, is_remote=True, trace_flags=TraceFlags(0))
        record = LogRecord(
            timestamp=self._started_ns or None,
            context=set_span_in_context(NonRecordingSpan(span), Context()),
            severity_number=SeverityNumber.WARN if event.failed else SeverityNumber.INFO,
            attributes=dict(event.attributes),
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
