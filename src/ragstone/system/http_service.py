"""http(s):// entrypoints: one POST per question."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from ragstone.config.settings import SystemSettings
from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.system import worker
from ragstone.system.environment import substituted
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields
from ragstone.system.payload import failed, placed, read
from ragstone.system.response import GENERATION, Response, System, SystemFailureKind, turns_of

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 10_000_000
CONNECT_S = 10.0
"""How long to wait for the port by default: a service is started by someone else."""
MAX_REDIRECTS = 3
MAX_RETRY_AFTER_S = 30.0
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SHOWN_BODY = 1_000
_EVENTS = "text/event-stream"
_ACCEPT = f"application/json, {_EVENTS};q=0.9"
_DONE = "[DONE]"
"""The end of a stream from OpenAI's servers and many others."""

_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(eq=False)
class _Refused(Exception):  # noqa: N818
    """An attempt without an answer: the failure, and the seconds until it may be retried (None: never)."""

    kind: SystemFailureKind
    message: str
    detail: str | None = None
    retry_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Reply:
    """The JSON value of a reply, or the joined pieces of an event stream; when it was complete and, for a stream, when
    the first text arrived.
    """

    value: object
    whole_at: float
    first_text_at: float | None = None


class HttpService:
    """The `System` behind a URL. `headers` are final; behind a proxy, the port is not waited for."""

    can_be_asked_again = True

    def __init__(
        self,
        url: str,
        settings: SystemSettings,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        proxied: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.entrypoint = without_secrets(url)
        self.concurrency = settings.concurrency
        self._url = url
        self._settings = settings
        self._headers = headers
        self._proxied = proxied
        self._fields = answer_fields(settings)
        self._sleep = sleep
        self._room = asyncio.Semaphore(settings.concurrency)
        self._client: httpx2.AsyncClient | None = None

    async def start(self) -> None:
        """Wait until the port accepts connections. Raises SystemUnderTestError if it doesn't in time."""
        import httpx2

        if not self._proxied:
            await self._wait_for_port()
        from ragstone.system.bounded_http import ACCEPTED

        limits = httpx2.Limits(max_connections=self.concurrency)
        self._client = httpx2.AsyncClient(limits=limits, timeout=None, follow_redirects=False, headers=ACCEPTED)

    async def ask(self, sample: Sample) -> Response:
        async with self._room:
            for attempt in range(self._settings.retries + 1):
                started = perf_counter()
                try:
                    async with asyncio.timeout(self._settings.timeout_s):
                        reply = await self._post(sample)
                    first_text_s = None if reply.first_text_at is None else reply.first_text_at - started
                    return read(sample.id, reply.value, reply.whole_at - started, first_text_s, self._fields)
                except TimeoutError:
                    message = f"No answer within {self._settings.timeout_s:g} s."
                    refused = _Refused(SystemFailureKind.TIMEOUT, message, retry_in_s=0.0)
                except _Refused as error:
                    refused = error
                if refused.retry_in_s is None or attempt == self._settings.retries:
                    break
                await self._sleep(max(refused.retry_in_s, min(0.5 * 2**attempt, 8.0)))
        return failed(sample.id, refused.kind, refused.message, refused.detail)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _wait_for_port(self) -> None:
        parts, settings = urlsplit(self._url), self._settings
        within_s = settings.startup_timeout_s if "startup_timeout_s" in settings.model_fields_set else CONNECT_S
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        until = monotonic() + within_s
        while True:
            try:
                async with asyncio.timeout(within_s):
                    _, writer = await asyncio.open_connection(host, port)
            except OSError as error:  # including TimeoutError and the resolver's errors
                if monotonic() >= until:
                    reason = error.strerror or str(error) or "timed out"
                    raise SystemUnderTestError(
                        f"no connection to {host}:{port} within {within_s:g} s ({reason}).",
                        where=self.entrypoint,
                        hint="Start the service first; startup_timeout_s in [system] says how long to wait for it.",
                    ) from None
                await asyncio.sleep(0.1)
                continue
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return

    async def _post(self, sample: Sample) -> _Reply:
        import httpx2

        names = self._settings.http
        fields = placed({**names.body, "id": sample.id}, names.question_field, sample.question)
        if sample.history:
            fields = placed(fields, names.history_field, turns_of(sample))
        if self._settings.part == GENERATION:
            fields = placed(fields, names.given_contexts_field, list(sample.reference_contexts))
        content = json.dumps(fields).encode("ascii")
        headers = {"Content-Type": "application/json", "Accept": _ACCEPT, **self._headers}
        url = self._url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                found = await self._exchange(url, headers, content)
                if isinstance(found, _Reply):
                    return found
                url = found
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.HTTPError as error:
            message = f"The request failed: {type(error).__name__}: {worker.shown(str(error))}"
            raise _Refused(SystemFailureKind.HTTP, message, retry_in_s=0.0) from None
        raise _Refused(SystemFailureKind.HTTP, f"More than {MAX_REDIRECTS} redirects.")

    async def _exchange(self, url: str, headers: Mapping[str, str], content: bytes) -> _Reply | str:
        """The reply, or the target of a redirect."""
        from ragstone.system.bounded_http import ReplyTooLarge, bound_reply

        if self._client is None:
            raise SystemUnderTestError("the system has not been started.", where=self.entrypoint)
        async with self._client.stream("POST", url, headers=dict(headers), content=content) as reply:
            if reply.is_redirect:
                return _redirected(url, reply.status_code, reply.headers.get("location", ""))
            bound_reply(reply, MAX_BODY_BYTES)
            try:
                if reply.is_success and reply.headers.get("content-type", "").startswith(_EVENTS):
                    return await _streamed(reply.aiter_lines(), self._fields)
                body = await reply.aread()
            except ReplyTooLarge as error:
                raise _Refused(SystemFailureKind.BAD_RETURN, f"Answered with {error.reason}.") from None
            if not reply.is_success:
                after = _retry_after_s(reply.headers.get("retry-after"))
                again = after if reply.status_code in _RETRIED_STATUS else None
                text = body[:_SHOWN_BODY].decode("utf-8", "replace").strip() or None
                message = f"Answered {reply.status_code} {reply.reason_phrase}"
                raise _Refused(SystemFailureKind.HTTP, message, text, again)
        whole_at = perf_counter()
        try:
            return _Reply(json.loads(body), whole_at)
        except (ValueError, RecursionError):
            shown = worker.shown(body[:_SHOWN_BODY].decode("utf-8", "replace"))
            raise _Refused(SystemFailureKind.BAD_RETURN, f"Answered with {shown}, which is not JSON.") from None


class HttpUrl(EntrypointKind):
    schemes = ("http", "https")
    form = "http://host/path"
    noun = "a valid URL"
    runs_users_code = False
    is_address = True

    def is_valid(self, rest: str) -> bool:
        try:
            parts = urlsplit(rest)
            valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            return False
        return valid and not any(character.isspace() for character in rest)

    def build(self, rest: str, settings: SystemSettings, around: Surroundings) -> System:
        headers = {}
        for name, value in settings.http.headers.items():
            where = f"system.http.headers.{name}"
            headers[name] = substituted(value, settings.env, around.environ, where=where)
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or re.search(r"[^\t\x20-\x7e]", headers[name]):
                raise ConfigError("a header can contain only printable ASCII characters.", where=where)
        proxied = any(around.environ.get(name) or around.environ.get(name.lower()) for name in _PROXIES)
        return HttpService(rest, settings, headers=headers, proxied=proxied)


async def _streamed(lines: AsyncIterator[str], fields: worker.Fields) -> _Reply:
    """The answer in a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

    An event's data is a piece of the answer: JSON, or plain text. Events with neither text nor contexts are skipped.
    Raises _Refused.
    """
    heard: list[float] = []
    pieces = worker.Pieces({}, lambda: heard.append(perf_counter()), fields)
    try:
        async for name, data in _events(lines):
            if data == _DONE:
                break
            if name == "error":
                raise _Refused(SystemFailureKind.RAISED, f"The stream reported an error: {worker.shown(data)}.")
            piece = _piece(data, fields)
            if piece is not None:
                pieces.add(piece)
    except worker.BadReturn as error:
        raise _Refused(SystemFailureKind.BAD_RETURN, str(error)) from None
    whole_at = perf_counter()
    if fields.contexts_only and pieces.any:
        return _Reply(pieces.whole(), whole_at)
    if not heard:
        raise _Refused(SystemFailureKind.BAD_RETURN, f"The stream of events ended without text. {worker.EXPECTED}")
    return _Reply(pieces.whole(), whole_at, heard[0])


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    """Name and data of each event, including a last one without its empty line, which some servers omit."""
    name, data = "", list[str]()
    async for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data" and line:
            data.append(value)
        elif field == "event":
            name = value
        elif not line and data:
            yield name, "\n".join(data)
            name, data = "", []
        elif not line:
            name = ""
    if data:
        yield name, "\n".join(data)


def _piece(data: str, fields: worker.Fields) -> object | None:
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        value = data
    if isinstance(value, (int, float)):
        return data  # text that happens to be a number, or true
    return value if worker.is_piece(value, fields) else None


def _redirected(url: str, status: int, location: str) -> str:
    """The target of a redirect that may be followed: same host, same method, no downgrade from https."""
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
