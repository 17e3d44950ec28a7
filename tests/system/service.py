"""A service on loopback that answers as a test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ragstone.system.response import Response, SystemFailure

Reply = tuple[int, dict[str, str], bytes | list[bytes]]
"""Status, headers, and the body; a list of pieces is sent with pauses."""


class Server:
    """A service whose answers are given by a function of path, headers and body."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.reply: Callable[[str, Any], Reply] = lambda path, body: (200, {}, json.dumps({"answer": "fine"}).encode())
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: Any) -> None:
                outer.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, content = outer.reply(self.path, body)
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if isinstance(content, list):
                    self.close_connection = True
                    self.end_headers()
                else:
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    content = [content]
                try:
                    for at, piece in enumerate(content):
                        time.sleep(0.03 if at else 0)
                        self.wfile.write(piece)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def said(value: object) -> Reply:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


def failure(response: Response) -> SystemFailure:
    assert response.failure is not None
    return response.failure


def kinds(responses: Iterable[Response]) -> list[str]:
    """Each response as "answered" or the kind of its failure."""
    return [response.failure.kind.value if response.failure else "answered" for response in responses]


def by_kind(questions: Iterable[str], responses: Sequence[Response]) -> dict[str, list[str]]:
    """The questions by what became of them, as `kinds` says it."""
    found: dict[str, list[str]] = {}
    for question, kind in zip(questions, kinds(responses), strict=True):
        found.setdefault(kind, []).append(question)
    return found
