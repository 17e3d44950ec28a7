"""A receiver of webhooks: a real HTTP server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.loopback import answering


class Receiver(ThreadingHTTPServer):
    """Answers with `statuses` in turn, then with 200. Of a body, only the length is sent: `promised_bytes`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses: list[tuple[int, dict[str, str]]] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.promised_bytes = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook/T-secret-path"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
        status, headers = self.server.statuses.pop(0) if self.server.statuses else (200, {})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(self.server.promised_bytes))
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with answering(Receiver()) as server:
        yield server
