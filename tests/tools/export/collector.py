"""A collector on loopback: real HTTP, and the protobuf messages that OpenTelemetry publishes."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.loopback import answering


class Collector(ThreadingHTTPServer):
    """Answers with `replies` in turn, then with 200: a status, and how many events it says it rejected."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[tuple[int, int]] = []
        self.requests: list[ExportLogsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def records(self) -> list[Any]:
        return [
            record
            for request in self.requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def resource(self) -> dict[str, Any]:
        return plain(self.requests[0].resource_logs[0].resource.attributes)


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.paths.append(self.path)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        status, rejected = self.server.replies.pop(0) if self.server.replies else (200, 0)
        if status == 200:
            self.server.requests.append(ExportLogsServiceRequest.FromString(body))
        partial = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message="too old" if rejected else "")
        reply = ExportLogsServiceResponse(partial_success=partial if rejected else None).SerializeToString()
        self.send_response(status)
        if status in (301, 302):
            self.send_header("location", "/elsewhere")
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def collecting() -> Iterator[Collector]:
    with answering(Collector()) as server:
        yield server


def plain(attributes: Any) -> dict[str, Any]:
    """The attributes of a message as Python values."""
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> Any:
    kind = str(value.WhichOneof("value"))
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found
