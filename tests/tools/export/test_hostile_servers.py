"""`ragstone export` to servers that send without end, say something else, or say back what they were sent."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.commands.project import environment, make_project, ragstone
from tests.hostile_http import hostile_server
from tests.loopback import answering

KEY = "k" * 32 + "SECRET01"
LIMIT_S = 8
BOUNDED = (
    "import sys, ragstone.tools.export.command as command\n"
    "command.MAX_EXPORT_S, command.MAX_EXPORT_BYTES = int(sys.argv.pop(1)), 2**30\n"
    "from ragstone.cli import main\nmain()\n"
)
TOOLS = [
    pytest.param("otel", marks=pytest.mark.heavy),
    *(pytest.param(name, marks=pytest.mark.integrations) for name in ("mlflow", "wandb")),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = make_project(tmp_path_factory.mktemp("exported") / "repo", n=5)
    assert ragstone(["run"], found).returncode == 0
    return found


def export(tool: str, project: Path, port: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """The export; its limits are those of every export, made small."""
    url = f"http://127.0.0.1:{port}"
    environ = {
        "otel": {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {KEY}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3",
        },
        "mlflow": {
            "MLFLOW_TRACKING_URI": url,
            "MLFLOW_TRACKING_TOKEN": KEY,
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        },
        "wandb": {
            "WANDB_BASE_URL": url,
            "WANDB_API_KEY": KEY,
            **{f"WANDB_{name}_DIR": str(folder / name) for name in ("CONFIG", "CACHE", "DATA")},
            **{"WANDB_DIR": str(folder), "NETRC": str(folder / "netrc")},
        },
    }[tool]
    return subprocess.run(
        [sys.executable, "-c", BOUNDED, str(LIMIT_S), "export", tool],
        cwd=project,
        env=environment(environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 7, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert KEY not in done.stderr
    # The program that comes with wandb's SDK writes where it was when it had no memory left.
    said = f"\n{done.stderr}".partition("\nerror: ")[2]
    assert 0 < len(said) < 3000


LARGE = ("gzip bomb", "bomb in a bomb", "brackets", "digits")
ENDLESS = ["endless body", "endless interim replies", "no HTTP"]


@pytest.mark.integrations
@pytest.mark.parametrize("kind", [*ENDLESS, "gzip bomb"])
@pytest.mark.parametrize("tool", ["mlflow", "wandb"])
def test_a_tracking_server_that_is_none_ends_with_7_in_time(
    project: Path, tmp_path: Path, tool: str, kind: str
) -> None:
    with hostile_server(kind) as port:
        refused(export(tool, project, port, tmp_path))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "kind",
    [
        *("endless body", "endless chunks", "endless error", "endless headers", "endless trailers", "an endless line"),
        *("endless interim replies", "a long header", "too many headers", "cut off", "no HTTP", "no gzip"),
        *("redirect to half an address", "redirect to no port", *LARGE),
    ],
)
def test_a_collector_that_is_none_ends_with_7_in_time(project: Path, tmp_path: Path, kind: str) -> None:
    with hostile_server(kind) as port:
        done = export("otel", project, port, tmp_path)
    if kind in ("a long header", "too many headers", "no gzip", *LARGE) and done.returncode == 0:
        assert "Sent 35 events" in done.stdout  # it did say 200, and nobody reads the rest
        return
    refused(done)


SLOW_TO_END = """
import sys, time, ragstone.tools.export.command as command
command.MAX_EXPORT_S, command.MAX_EXPORT_BYTES = 1, 2**30
class Held:
    def __del__(self, sleep=time.sleep):
        sleep(3)
sys.held = Held()  # let go only when the interpreter has given up its signal handlers
with command._bounded():
    sys.argv[1:] and time.sleep(60)
"""


@pytest.mark.parametrize(("late", "code", "said"), [([], 0, ""), (["late"], 1, "did not take everything within 1 s.")])
def test_a_process_that_is_slow_to_end_keeps_its_exit_code(late: list[str], code: int, said: str) -> None:
    """A client holds a quarter of a gigabyte that a server sent; freeing it takes longer than to the next alarm."""
    done = subprocess.run(
        [sys.executable, "-c", SLOW_TO_END, *late], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr


@contextmanager
def dripping() -> Iterator[int]:
    """A server that sends one byte every second."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n")
                while True:
                    connection.sendall(b" ")
                    time.sleep(1)

        def listen() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_server_that_drips_is_given_up(project: Path, tmp_path: Path, tool: str) -> None:
    with dripping() as port:
        done = export(tool, project, port, tmp_path)
    refused(done)


def echoing(status: int, change: Callable[[str], str]) -> type[BaseHTTPRequestHandler]:
    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            said = change(" ".join(f"{name}: {value}" for name, value in self.headers.items()))
            body = json.dumps(
                {"error_code": "X", "message": said, "error": said, "errors": [{"message": said}]}
            ).encode()
            self.send_response(status, said.encode("ascii", "replace").decode()[:500].replace("\n", " "))
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return Echo


@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_server_that_says_the_key_back_does_not_have_it_shown(
    project: Path, tmp_path: Path, tool: str, status: int
) -> None:
    with answering(
        ThreadingHTTPServer(("127.0.0.1", 0), echoing(status, lambda said: f"\x1b[31m{said}\n::error::x"))
    ) as server:
        done = export(tool, project, server.server_port, tmp_path)
    if tool == "otel" and status == 200:
        assert done.returncode == 0, done.stderr
        return
    refused(done)
    assert "\x1b" not in done.stderr
    assert not any(line.lstrip().startswith("::") for line in done.stderr.splitlines())


@pytest.mark.parametrize("tool", TOOLS)
def test_a_redirect_takes_no_key_along(project: Path, tmp_path: Path, tool: str) -> None:
    heard: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(str(self.headers))
            self.send_error(400)

        do_GET = do_PUT = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.2", 0), Elsewhere)) as other:

        class Here(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(307)
                self.send_header("location", f"http://127.0.0.2:{other.server_port}{self.path}")
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_PUT = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        with answering(ThreadingHTTPServer(("127.0.0.1", 0), Here)) as server:
            done = export(tool, project, server.server_port, tmp_path)
    refused(done)
    assert KEY not in "".join(heard)


def test_the_tools_that_are_tried_are_all_there_are() -> None:
    from ragstone.tools.export.command import command

    assert sorted(command.commands) == ["mlflow", "otel", "wandb"]
    assert importlib.util.find_spec("opentelemetry") is not None
