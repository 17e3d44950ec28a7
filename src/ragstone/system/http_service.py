"""http(s):// entrypoints: one POST per question."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.environment import substituted
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields
from ragstone.system.payload import failed, read
from ragstone.system.request import (
    IN_HEADER,
    QUESTION,
    refusal,
    refuse_misplaced,
    request_address,
    request_fields,
    session_header,
)
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.worker.fields import BadReturn
from ragstone.system.worker.wording import shown

if TYPE_CHECKING:
    import httpx2

    from ragstone.system.http_reply import Reply

MAX_BODY_BYTES = 10_000_000
CONNECT_S = 10.0
"""How long to wait for the port by default: a service is started by someone else."""
MAX_REDIRECTS = 3
MAX_RETRY_AFTER_S = 30.0
_MAX_PAUSE_S = 8.0
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SHOWN_BODY = 1_000
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MIN_SECRET = 6
_REFUSING_STATUS = frozenset({400, 422})
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(eq=False)
class _Refused(Exception):  # noqa: N818
    """An attempt without an answer: the failure, and the seconds until it may be
    retried (None: never)."""

    kind: SystemFailureKind
    message: str
    detail: str | None = None
    retry_in_s: float | None = None


class HttpService:
    """The `System` behind a URL. `headers` are final; behind a proxy, the port is not
    waited for."""

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
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client: httpx2.AsyncClient | None = None

    async def start(self) -> None:
        """Wait until the port accepts connections. Raises SystemUnderTestError if it
        doesn't in time."""
        import httpx2

        if not self._proxied:
            await self._wait_for_port()
        from ragstone.system.bounded_http import ACCEPTED

        limits = httpx2.Limits(max_connections=self.concurrency)
        self._client = httpx2.AsyncClient(
            limits=limits, timeout=None, follow_redirects=False, headers=ACCEPTED
        )

    async def ask(self, sample: Sample) -> Response:
        retries = self._settings.retries
        async with self._slots:
            for attempt in range(retries + 1):
                started = perf_counter()
                try:
                    async with asyncio.timeout(self._settings.timeout_s):
                        reply = await self._post(sample)
                    return self._response(sample, reply, started)
                except TimeoutError:
                    message = f"No answer within {self._settings.timeout_s:g} s."
                    refused = _Refused(
                        SystemFailureKind.TIMEOUT, message, retry_in_s=0.0
                    )
                except _Refused as error:
                    refused = error
                if refused.retry_in_s is None or attempt == retries:
                    break
                await self._sleep(
                    max(refused.retry_in_s, min(0.5 * 2**attempt, _MAX_PAUSE_S))
                )
        detail = (
            None if refused.detail is None else self._without_headers(refused.detail)
        )
        return failed(
            sample.id, refused.kind, self._without_headers(refused.message), detail
        )

    def _response(self, sample: Sample, reply: Reply, started: float) -> Response:
        latency_s = reply.whole_at - started
        first_text_s = (
            None if reply.first_text_at is None else reply.first_text_at - started
        )
        response = read(sample.id, reply.value, latency_s, first_text_s, self._fields)
        failure = response.failure
        if failure is None:
            return response
        return failed(
            sample.id,
            failure.kind,
            self._without_headers(failure.message),
            latency_s=latency_s,
        )

    def _without_headers(self, text: str) -> str:
        """`text`, in which a service may repeat what it was sent, without the values of
        headers."""
        for value in self._headers.values():
            for secret in (value, value.rpartition(" ")[2]):
                if len(secret) >= _MIN_SECRET:
                    text = text.replace(secret, "***")
        return text

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _wait_for_port(self) -> None:
        parts, settings = urlsplit(self._url), self._settings
        within_s = (
            settings.startup_timeout_s
            if "startup_timeout_s" in settings.model_fields_set
            else CONNECT_S
        )
        host, port = (
            parts.hostname or "",
            parts.port or (443 if parts.scheme == "https" else 80),
        )
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

    async def _post(self, sample: Sample) -> Reply:
        """The reply to `sample`, after redirects. Raises TimeoutError and _Refused."""
        import httpx2

        from ragstone.system.http_reply import ACCEPT

        headers = {
            "Accept": ACCEPT,
            **self._headers,
            **session_header(self._settings, sample),
        }
        content = None
        if self._settings.http.method != "GET":
            fields = request_fields(
                self._settings, sample, asks=QUESTION not in self._url
            )
            content = json.dumps(fields).encode("ascii")
            headers = {"Content-Type": "application/json", **headers}
        url = request_address(self._url, sample.question)
        try:
            for _ in range(MAX_REDIRECTS + 1):
                reply = await self._exchange(url, headers, content)
                if not isinstance(reply, str):
                    return reply
                url = reply
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.HTTPError as error:
            message = f"The request failed: {type(error).__name__}: {shown(str(error))}"
            raise _Refused(SystemFailureKind.HTTP, message, retry_in_s=0.0) from None
        raise _Refused(SystemFailureKind.HTTP, f"More than {MAX_REDIRECTS} redirects.")

    async def _exchange(
        self, url: str, headers: dict[str, str], content: bytes | None
    ) -> Reply | str:
        """The reply, or the target of a redirect. Raises _Refused and httpx2's
        errors."""
        from ragstone.system.bounded_http import ReplyTooLarge, bound_reply
        from ragstone.system.http_reply import ReportedError, read_reply

        if self._client is None:
            raise SystemUnderTestError(
                "the system has not been started.", where=self.entrypoint
            )
        async with self._client.stream(
            self._settings.http.method, url, headers=headers, content=content
        ) as reply:
            if reply.is_redirect:
                return _redirected(
                    url, reply.status_code, reply.headers.get("location", "")
                )
            bound_reply(reply, MAX_BODY_BYTES)
            try:
                if reply.is_success:
                    return await read_reply(reply, self._fields)
                raise self._refused(reply, await reply.aread())
            except ReplyTooLarge as error:
                raise _Refused(
                    SystemFailureKind.BAD_RETURN, f"Answered with {error.reason}."
                ) from None
            except BadReturn as error:
                raise _Refused(SystemFailureKind.BAD_RETURN, str(error)) from None
            except ReportedError as error:
                raise _Refused(
                    SystemFailureKind.RAISED, f"The stream reported an error: {error}."
                ) from None

    def _refused(self, reply: httpx2.Response, body: bytes) -> _Refused:
        """What a reply with the status of an error says."""
        message = f"Answered {reply.status_code} {reply.reason_phrase}"
        if reply.status_code in _REFUSING_STATUS:
            message += f": {refusal(body, self._settings)}"
        detail = body[:_SHOWN_BODY].decode("utf-8", "replace").strip() or None
        retry_in_s = None
        if reply.status_code in _RETRIED_STATUS:
            retry_in_s = _retry_after_s(reply.headers.get("retry-after"))
        return _Refused(SystemFailureKind.HTTP, message, detail, retry_in_s)


class HttpUrl(EntrypointKind):
    schemes = ("http", "https")
    form = "http://host/path"
    noun = "a valid URL"
    runs_users_code = False
    is_address = True

    def is_valid(self, target: str) -> bool:
        try:
            parts = urlsplit(target)
            valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            return False
        return valid and not any(character.isspace() for character in target)

    def build(
        self, target: str, settings: SystemSettings, around: Surroundings
    ) -> System:
        placeholder = re.search(r"\{[^}]*\}?", target.replace(QUESTION, ""))
        if placeholder is not None or QUESTION in urlsplit(target).netloc:
            raise ConfigError(
                f"'{placeholder[0] if placeholder else QUESTION}' in the address can't be replaced.",
                where="system.entrypoint",
                hint=f"{QUESTION} stands for the question in the path or the query; constants are written out.",
            )
        if settings.http.method == "GET" and QUESTION not in target:
            raise ConfigError(
                "a GET request has no body, and the question is not in the address.",
                where="system.http.method",
                hint=f"Put {QUESTION} into the entrypoint, such as {without_secrets(target)}?q={QUESTION}.",
            )
        headers = {}
        for name, value in settings.http.headers.items():
            where = f"system.http.headers.{name}"
            headers[name] = substituted(
                value, settings.env, around.environ, where=where
            )
            if not _HEADER_NAME.fullmatch(name) or re.search(
                r"[^\t\x20-\x7e]", headers[name]
            ):
                raise ConfigError(
                    "a header can contain only printable ASCII characters.", where=where
                )
        session_field = settings.http.session_field
        if session_field.startswith(IN_HEADER) and not _HEADER_NAME.fullmatch(
            session_field.removeprefix(IN_HEADER)
        ):
            raise ConfigError(
                f"'{session_field}' names no header.",
                where="system.http.session_field",
                hint=f'Such as "{IN_HEADER}X-Session-Id", or the name of a field of the body.',
            )
        refuse_misplaced(settings)
        proxied = any(
            around.environ.get(name) or around.environ.get(name.lower())
            for name in _PROXIES
        )
        return HttpService(target, settings, headers=headers, proxied=proxied)


def _redirected(url: str, status: int, location: str) -> str:
    """The target of a redirect that may be followed: same host, same method, no
    downgrade from https."""
    try:
        target = urljoin(url, location)
        before, after = urlsplit(url), urlsplit(target)
        same_host = after.hostname == before.hostname and (
            (after.scheme, after.port) == (before.scheme, before.port)
            or (before.scheme, after.scheme, before.port, after.port)
            == ("http", "https", None, None)
        )
    except ValueError as error:
        message = f"Answered {status}, redirecting to no address: {shown(location)} ({error})."
        raise _Refused(SystemFailureKind.HTTP, message) from None
    address = without_secrets(target)
    if not location or status not in (307, 308) or not same_host:
        why = (
            "to another host"
            if location and not same_host
            else "in a way that would drop the question"
        )
        raise _Refused(
            SystemFailureKind.HTTP,
            f"Answered {status}, redirecting {why} ({address}); not followed. Put the final address in the entrypoint.",
        )
    return target


def _retry_after_s(value: str | None) -> float:
    try:
        return min(
            max(0.0, float(value or 0)), MAX_RETRY_AFTER_S
        )  # 0 first: it is the larger beside NaN
    except ValueError:
        return 0.0


def without_secrets(url: str) -> str:
    """`url` without user, password and fragment, and with the values of its query
    replaced."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(
        [(name, QUESTION if value == QUESTION else "***") for name, value in pairs],
        safe="*{}",
    )
    return urlunsplit((parts.scheme, host, parts.path, query, ""))
