"""http(s):// entrypoints: one POST a question."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.system import worker
from ragstone.system.payload import at_path, failed, placed, read
from ragstone.system.response import Response, SystemFailureKind

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 10_000_000
MAX_REDIRECTS = 3
MAX_RETRY_AFTER_S = 30.0
_SHOWN_BODY = 1_000
_ABSENT = object()
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where and how to ask. `headers` are final: references to the environment have been replaced."""

    url: str = field(repr=False)
    question_field: str = "question"
    answer_field: str | None = None
    contexts_field: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 60.0
    connect_for_s: float = 10.0
    retries: int = 0
    concurrency: int = 4
    proxied: bool = False


class _Refused(Exception):  # noqa: N818
    """An attempt that gave no answer: the failure, and in how many seconds it may be tried again (None: never)."""

    def __init__(
        self,
        kind: SystemFailureKind,
        message: str,
        detail: str | None = None,
        retry_in_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.detail = detail
        self.retry_in_s = retry_in_s


class HttpService:
    """The `System` behind a URL."""

    def __init__(self, target: HttpTarget, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._target = target
        self._sleep = sleep
        self._room = asyncio.Semaphore(target.concurrency)
        self._client: httpx2.AsyncClient | None = None

    @property
    def entrypoint(self) -> str:
        return without_secrets(self._target.url)

    @property
    def concurrency(self) -> int:
        return self._target.concurrency

    async def start(self) -> None:
        """Wait until the port accepts connections. Raises SystemUnderTestError if it doesn't in time."""
        import httpx2

        if not self._target.proxied:
            await self._wait_for_port()
        from ragstone.system.bounded_http import ACCEPTED

        limits = httpx2.Limits(max_connections=self._target.concurrency)
        self._client = httpx2.AsyncClient(limits=limits, timeout=None, follow_redirects=False, headers=ACCEPTED)

    async def ask(self, sample: Sample) -> Response:
        async with self._room:
            for attempt in range(self._target.retries + 1):
                started = perf_counter()
                try:
                    async with asyncio.timeout(self._target.timeout_s):
                        body = await self._post(sample)
                    return self._read(sample, body, perf_counter() - started)
                except TimeoutError:
                    message = f"No answer within {self._target.timeout_s:g} s."
                    refused = _Refused(SystemFailureKind.TIMEOUT, message, retry_in_s=0.0)
                except _Refused as error:
                    refused = error
                if refused.retry_in_s is None or attempt == self._target.retries:
                    break
                await self._sleep(max(refused.retry_in_s, min(0.5 * 2**attempt, 8.0)))
        return failed(sample.id, refused.kind, refused.message, refused.detail)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _wait_for_port(self) -> None:
        parts = urlsplit(self._target.url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        until = monotonic() + self._target.connect_for_s
        while True:
            try:
                async with asyncio.timeout(self._target.connect_for_s):
                    _, writer = await asyncio.open_connection(host, port)
            except OSError as error:  # TimeoutError and the resolver's errors among them
                if monotonic() >= until:
                    reason = error.strerror or str(error) or "timed out"
                    raise SystemUnderTestError(
                        f"no connection to {host}:{port} within {self._target.connect_for_s:g} s ({reason}).",
                        where=self.entrypoint,
                        hint="Start the service first; startup_timeout_s in [system] says how long to wait for it.",
                    ) from None
                await asyncio.sleep(0.1)
                continue
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return

    async def _post(self, sample: Sample) -> bytes:
        """The body of a successful reply. Raises _Refused."""
        import httpx2

        target = self._target
        fields = placed({**target.body, "id": sample.id}, target.question_field, sample.question)
        content = json.dumps(fields).encode("ascii")
        headers = {"Content-Type": "application/json", "Accept": "application/json", **target.headers}
        url = target.url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                next_url, body = await self._exchange(url, headers, content)
                if next_url is None:
                    return body
                url = next_url
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.HTTPError as error:
            message = f"The request failed: {type(error).__name__}: {worker.shown(str(error))}"
            raise _Refused(SystemFailureKind.HTTP, message, retry_in_s=0.0) from None
        raise _Refused(SystemFailureKind.HTTP, f"More than {MAX_REDIRECTS} redirects.")

    async def _exchange(self, url: str, headers: Mapping[str, str], content: bytes) -> tuple[str | None, bytes]:
        """Where to go instead (None: nowhere), and the body."""
        from ragstone.system.bounded_http import ReplyTooLarge, bound_reply

        if self._client is None:
            raise SystemUnderTestError("the system was asked before it was started.", where=self.entrypoint)
        async with self._client.stream("POST", url, headers=dict(headers), content=content) as reply:
            if reply.is_redirect:
                return _redirected(url, reply.status_code, reply.headers.get("location", "")), b""
            bound_reply(reply, MAX_BODY_BYTES)
            try:
                body = await reply.aread()
            except ReplyTooLarge as error:
                raise _Refused(SystemFailureKind.BAD_RETURN, f"Answered with {error.reason}.") from None
            if not reply.is_success:
                after = _retry_after_s(reply.headers.get("retry-after"))
                again = after if reply.status_code in _RETRIED_STATUS else None
                text = body[:_SHOWN_BODY].decode("utf-8", "replace").strip() or None
                message = f"Answered {reply.status_code} {reply.reason_phrase}"
                raise _Refused(SystemFailureKind.HTTP, message, text, again)
            return None, body

    def _read(self, sample: Sample, body: bytes, latency_s: float) -> Response:
        target = self._target
        try:
            value: object = json.loads(body)
        except (ValueError, RecursionError):
            found = worker.shown(body[:_SHOWN_BODY].decode("utf-8", "replace"))
            return failed(sample.id, SystemFailureKind.BAD_RETURN, f"Answered with {found}, which is not JSON.")
        if target.answer_field is None and target.contexts_field is None:
            return read(sample.id, value, latency_s)
        picked: dict[str, object] = dict(value) if isinstance(value, dict) else {}
        for name, path, known in (
            ("answer", target.answer_field, worker.ANSWER_NAMES),
            ("contexts", target.contexts_field, worker.CONTEXTS_NAMES),
        ):
            if path is None:
                continue
            found_at = at_path(value, path, _ABSENT)
            if found_at is _ABSENT:
                message = f"Nothing at {name}_field '{path}' in {worker.shown(value)}."
                return failed(sample.id, SystemFailureKind.BAD_RETURN, message, latency_s=latency_s)
            for other in known:
                picked.pop(other, None)
            picked[name] = found_at
        return read(sample.id, picked, latency_s)


def _redirected(url: str, status: int, location: str) -> str:
    """The target of a redirect that may be followed: same host, same method, no step down from https."""
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
        same_host = after.hostname == before.hostname and (
            (after.scheme, after.port) == (before.scheme, before.port)
            or (before.scheme, after.scheme, before.port, after.port) == ("http", "https", None, None)
        )
    except ValueError as error:
        message = f"Answered {status}, redirecting to no address: {worker.shown(location)} ({error})."
        raise _Refused(SystemFailureKind.HTTP, message) from None
    shown = without_secrets(target)
    if not location or status not in (307, 308) or not same_host:
        why = "to another host" if location and not same_host else "in a way that would drop the question"
        raise _Refused(
            SystemFailureKind.HTTP,
            f"Answered {status}, redirecting {why} ({shown}); not followed. Put the final address in the entrypoint.",
        )
    return target


def _retry_after_s(value: str | None) -> float:
    try:
        return min(max(float(value or 0), 0.0), MAX_RETRY_AFTER_S)
    except ValueError:
        return 0.0


def without_secrets(url: str) -> str:
    """`url` without user, password and fragment, and with the values of its query replaced."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = urlencode([(name, "***") for name, _ in parse_qsl(parts.query, keep_blank_values=True)], safe="*")
    return urlunsplit((parts.scheme, host, parts.path, query, ""))
