"""Headless Chromium, driven over its debugging pipe: real clicks on the real page, and what the page asked for."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = "no Chromium on the PATH; on Debian: apt-get install chromium"


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. `requests` are the URLs it asked for, `complaints` what its console and its log hold."""

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._read = read
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path | str) -> None:
        self.call("Page.navigate", url=page.as_uri() if isinstance(page, Path) else page)
        while self.run("document.readyState") != "complete":
            pass

    def run(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def colours(self, scheme: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "the browser has gone"
            self._buffer += chunk
        body, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(body)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, found = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(found["entry"]["text"])
        elif method in {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening"}:
            self.complaints.append(json.dumps(found))


@contextmanager
def chromium() -> Iterator[Page]:
    """A fresh browser with one tab, closed at the end."""
    executable = find_chromium()
    assert executable is not None, MISSING
    to_read, we_write = _pipe()
    we_read, to_write = _pipe()

    def connect() -> None:
        os.dup2(to_read, 3)
        os.dup2(to_write, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars")
        process = subprocess.Popen(
            [executable, *flags, f"--user-data-dir={profile}"],
            pass_fds=(3, 4),
            preexec_fn=connect,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        try:
            yield Page(we_write, we_read)
        finally:
            process.terminate()
            process.wait(timeout=20)
            os.close(we_write)
            os.close(we_read)


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are out of the way of 3 and 4, where the browser looks for its own."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
