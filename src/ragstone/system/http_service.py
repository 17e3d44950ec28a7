"""http(s):// entrypoints: one POST per question."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.environment import substituted
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields
from ragstone.system.payload import failed, read
from ragstone.system.request import refuse_misplaced, request_fields
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.worker.fields import BadReturn
from ragstone.system.worker.wording import shown

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 10_000_000
CONNECT_S = 10.0
"""How long to wait for the port by default: a service is started by someone else."""
_MAX_PAUSE_S = 8.0
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SHOWN_BODY = 1_000
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_MIN_SECRET = 6
_REFUSING_STATUS = frozenset({400, 422})
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


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
        attempt = 0
        async with self._slots:
            while True:
                response, may_pass = await self._attempt(sample)
                if not may_pass or attempt == self._settings.retries:
                    return response
                await self._sleep(min(0.5 * 2**attempt, _MAX_PAUSE_S))
                attempt += 1

    async def _attempt(self, sample: Sample) -> tuple[Response, bool]:
        """The response to one request, and whether its failure may pass."""
        import httpx2

        from ragstone.system.bounded_http import ReplyTooLarge
        from ragstone.system.http_reply import ReportedError

        kind, may_pass = SystemFailureKind.BAD_RETURN, False
        detail = latency_s = None
        started = perf_counter()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                value, whole_at = await self._reply(sample)
            latency_s = whole_at - started
            response = read(sample.id, value, latency_s, self._fields)
            if response.failure is None:
                return response, False
            message = response.failure.message
        except (TimeoutError, httpx2.TimeoutException):
            kind, may_pass = SystemFailureKind.TIMEOUT, True
            message = f"No answer within {self._settings.timeout_s:g} s."
        except ReplyTooLarge as error:
            message = f"Answered with {error.reason}."
        except BadReturn as error:
            message = str(error)
        except ReportedError as error:
            kind = SystemFailureKind.RAISED
            message = f"The stream reported an error: {error}."
        except _Refused as error:
            kind, may_pass = SystemFailureKind.HTTP, error.may_pass
            message, detail = error.message, self._without_headers(error.body) or None
        except httpx2.HTTPError as error:
            kind, may_pass = SystemFailureKind.HTTP, True
            message = f"The request failed: {type(error).__name__}: {shown(str(error))}"
        message = self._without_headers(message)
        return failed(sample.id, kind, message, detail, latency_s), may_pass

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
        parts = urlsplit(self._url)
        within_s = CONNECT_S
        if "startup_timeout_s" in self._settings.model_fields_set:
            within_s = self._settings.startup_timeout_s
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        until = monotonic() + within_s
        while True:
            try:
                async with asyncio.timeout(within_s):
                    _, writer = await asyncio.open_connection(host, port)
                writer.close()
                return
            except OSError as error:  # including TimeoutError and the resolver's errors
                if monotonic() >= until:
                    reason = error.strerror or str(error) or "timed out"
                    raise SystemUnderTestError(
                        f"no connection to {host}:{port} within {within_s:g} s ({reason}).",
                        where=self.entrypoint,
                        hint="Start the service first; startup_timeout_s in [system] says how long to wait for it.",
                    ) from None
            await asyncio.sleep(0.1)

    async def _reply(self, sample: Sample) -> tuple[object, float]:
        """The reply to `sample`, and when it was complete. Raises _Refused, and what
        `read_reply` raises."""
        from ragstone.system.bounded_http import bound_reply
        from ragstone.system.http_reply import ACCEPT, read_reply

        assert self._client is not None  # noqa: S101 - it was started
        headers = {"Content-Type": "application/json", "Accept": ACCEPT}
        fields = request_fields(self._settings, sample)
        async with self._client.stream(
            "POST",
            self._url,
            headers={**headers, **self._headers},
            content=json.dumps(fields).encode("ascii"),
        ) as reply:
            bound_reply(reply, MAX_BODY_BYTES)
            if not reply.is_success:
                raise _Refused(reply, await reply.aread())
            return await read_reply(reply, self._fields)


class _Refused(Exception):  # noqa: N818
    """A reply that is no success. A redirect is not followed: another host would get
    the question and the headers."""

    def __init__(self, reply: httpx2.Response, body: bytes) -> None:
        self.message = f"Answered {reply.status_code} {reply.reason_phrase}"
        if reply.is_redirect:
            target = shown(reply.headers["location"].partition("?")[0])
            self.message += f", redirecting to {target}, which is not followed: put the final address in the entrypoint."
        elif reply.status_code in _REFUSING_STATUS:
            self.message += (
                ": question_field and body under [system.http] say what is sent."
            )
        self.body = body[:_SHOWN_BODY].decode("utf-8", "replace").strip()
        self.may_pass = reply.status_code in _RETRIED_STATUS


class HttpUrl(EntrypointKind):
    schemes = ("http", "https")
    form = "http://host/path"
    noun = "a valid URL"
    runs_users_code = False
    is_address = True

    def is_valid(self, target: str) -> bool:
        try:
            parts = urlsplit(target)
            has_port = parts.port is None or parts.port > 0
        except ValueError:
            return False
        has_space = any(character.isspace() for character in target)
        return bool(parts.hostname) and has_port and not has_space

    def build(
        self, target: str, settings: SystemSettings, around: Surroundings
    ) -> System:
        headers = {}
        for name, template in settings.http.headers.items():
            where = f"system.http.headers.{name}"
            value = substituted(template, settings.env, around.environ, where=where)
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ConfigError(
                    "a header can contain only printable ASCII characters.", where=where
                )
            headers[name] = value
        refuse_misplaced(settings)
        proxied = any(
            around.environ.get(name) or around.environ.get(name.lower())
            for name in _PROXIES
        )
        return HttpService(target, settings, headers=headers, proxied=proxied)


def without_secrets(url: str) -> str:
    """`url` without user, password and fragment, and with the values of its query
    replaced."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([(name, "***") for name, _ in pairs], safe="*")
    return urlunsplit((parts.scheme, host, parts.path, query, ""))
