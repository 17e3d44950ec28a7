"""http:// and https:// entrypoints: one POST request per question."""

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
from ragstone.system.request import check_request_paths, request_fields
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.system.worker.fields import BadReturn
from ragstone.system.worker.wording import shown

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 10_000_000
CONNECT_S = 10.0
"""How long to wait for the port if `startup_timeout_s` is not set. Shorter than the
default of that setting: Ragstone doesn't start the service itself."""
_CONNECT_PAUSE_S = 0.1
_FIRST_RETRY_PAUSE_S = 0.5
_MAX_RETRY_PAUSE_S = 8.0
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_MAX_SHOWN_BODY_BYTES = 1_000
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
# Shorter header values, such as "1" or "en", are not masked in messages: they are no
# secrets, and would be found in ordinary words.
_MIN_SECRET_CHARACTERS = 6
# Statuses of a service that doesn't accept the fields it was sent.
_REFUSED_BODY_STATUSES = frozenset({400, 422})
_RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class HttpService:
    """The `System` behind a URL.

    `headers` are sent as they are, with the variables in them already replaced. If
    requests go through a proxy (`is_proxied`), `start` does not wait for the service's
    port, which may be reachable from the proxy only.
    """

    can_be_asked_again = True

    def __init__(
        self,
        url: str,
        settings: SystemSettings,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        is_proxied: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.entrypoint = without_secrets(url)
        self.concurrency = settings.concurrency
        self._url = url
        self._settings = settings
        self._headers = headers
        self._is_proxied = is_proxied
        self._fields = answer_fields(settings)
        self._sleep = sleep
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client: httpx2.AsyncClient | None = None

    async def start(self) -> None:
        """Wait until the port accepts connections. Raises SystemUnderTestError if it
        doesn't in time."""
        import httpx2

        from ragstone.system.bounded_http import UNCOMPRESSED

        if not self._is_proxied:
            await self._wait_for_port()
        limits = httpx2.Limits(max_connections=self.concurrency)
        self._client = httpx2.AsyncClient(
            limits=limits, timeout=None, follow_redirects=False, headers=UNCOMPRESSED
        )

    async def ask(self, sample: Sample) -> Response:
        attempt = 0
        async with self._slots:
            while True:
                response, is_retryable = await self._attempt(sample)
                if not is_retryable or attempt == self._settings.retries:
                    return response
                pause_s = _FIRST_RETRY_PAUSE_S * 2**attempt
                await self._sleep(min(pause_s, _MAX_RETRY_PAUSE_S))
                attempt += 1

    async def _attempt(self, sample: Sample) -> tuple[Response, bool]:
        """Send one request. Returns the response, and whether it is a failure that may
        be gone if the request is sent again."""
        import httpx2

        from ragstone.system.bounded_http import ReplyTooLarge
        from ragstone.system.http_reply import ReportedError

        kind = SystemFailureKind.BAD_RETURN
        is_retryable = False
        detail = None
        latency_s = None
        started_s = perf_counter()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                value, completed_s = await self._reply(sample)
            latency_s = completed_s - started_s
            response = read(sample.id, value, latency_s, self._fields)
            if response.failure is None:
                return response, False
            message = response.failure.message
        except (TimeoutError, httpx2.TimeoutException):
            kind = SystemFailureKind.TIMEOUT
            is_retryable = True
            message = f"No answer within {self._settings.timeout_s:g} s."
        except ReplyTooLarge as error:
            message = f"Answered with {error.reason}."
        except BadReturn as error:
            message = str(error)
        except ReportedError as error:
            kind = SystemFailureKind.RAISED
            message = f"The stream reported an error: {error}."
        except _Refused as error:
            kind = SystemFailureKind.HTTP
            is_retryable = error.is_retryable
            message = error.message
            detail = self._without_headers(error.body) or None
        except httpx2.HTTPError as error:
            kind = SystemFailureKind.HTTP
            is_retryable = True
            message = f"The request failed: {type(error).__name__}: {shown(str(error))}"
        message = self._without_headers(message)
        return failed(sample.id, kind, message, detail, latency_s), is_retryable

    def _without_headers(self, text: str) -> str:
        """Mask the values of the request's headers, which a service may repeat, in
        `text`."""
        for value in self._headers.values():
            credential = value.rpartition(" ")[2]  # "abc" of "Bearer abc"
            for secret in (value, credential):
                if len(secret) >= _MIN_SECRET_CHARACTERS:
                    text = text.replace(secret, "***")
        return text

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _wait_for_port(self) -> None:
        parts = urlsplit(self._url)
        timeout_s = CONNECT_S
        if "startup_timeout_s" in self._settings.model_fields_set:
            timeout_s = self._settings.startup_timeout_s
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        deadline_s = monotonic() + timeout_s
        while True:
            try:
                async with asyncio.timeout(deadline_s - monotonic()):
                    _, writer = await asyncio.open_connection(host, port)
                writer.close()
                return
            except OSError as error:  # including TimeoutError and the resolver's errors
                if monotonic() + _CONNECT_PAUSE_S >= deadline_s:
                    reason = error.strerror or str(error) or "timed out"
                    raise SystemUnderTestError(
                        f"no connection to {host}:{port} within {timeout_s:g} s ({reason}).",
                        where=self.entrypoint,
                        hint="Start the service first; to wait longer for it, set startup_timeout_s in [system].",
                    ) from None
            await asyncio.sleep(_CONNECT_PAUSE_S)

    async def _reply(self, sample: Sample) -> tuple[object, float]:
        """Ask `sample`. Returns the value in the reply, and the time by perf_counter()
        at which it was complete. Raises _Refused, and what `read_reply` raises."""
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
    """The service replied with a status other than 2xx.

    Redirects count among these. They are not followed, because the question and the
    headers would be sent to another host.
    """

    def __init__(self, reply: httpx2.Response, body: bytes) -> None:
        self.message = f"Answered {reply.status_code} {reply.reason_phrase}"
        if reply.has_redirect_location:
            target = shown(reply.headers["location"].partition("?")[0])
            self.message += f", redirecting to {target}, which is not followed: put the final address in the entrypoint."
        elif reply.status_code in _REFUSED_BODY_STATUSES:
            self.message += (
                ": question_field and body under [system.http] say what is sent."
            )
        shown_body = body[:_MAX_SHOWN_BODY_BYTES]
        self.body = shown_body.decode("utf-8", "replace").strip()
        self.is_retryable = reply.status_code in _RETRIED_STATUSES


class HttpUrl(EntrypointKind):
    schemes = ("http", "https")
    example = "http://host/path"
    description = "a valid URL"
    runs_users_code = False
    is_address = True

    def is_valid(self, target: str) -> bool:
        try:
            parts = urlsplit(target)
            is_port_valid = parts.port is None or parts.port > 0
        except ValueError:
            return False
        has_space = any(character.isspace() for character in target)
        return bool(parts.hostname) and is_port_valid and not has_space

    def build(
        self, target: str, settings: SystemSettings, surroundings: Surroundings
    ) -> System:
        environ = surroundings.environ
        headers = {}
        for name, template in settings.http.headers.items():
            where = f"system.http.headers.{name}"
            value = substituted(template, settings.env, environ, where=where)
            if not _HEADER_NAME.fullmatch(name):
                raise ConfigError(
                    "the name of a header can contain only letters, digits, and signs such as '-' and '_'.",
                    where=where,
                )
            if not _HEADER_VALUE.fullmatch(value):
                raise ConfigError(
                    "the value of a header can contain only printable ASCII characters.",
                    where=where,
                )
            headers[name] = value
        check_request_paths(settings)
        is_proxied = any(
            environ.get(name) or environ.get(name.lower()) for name in _PROXY_VARIABLES
        )
        return HttpService(target, settings, headers=headers, is_proxied=is_proxied)


def without_secrets(url: str) -> str:
    """Remove user, password and fragment from `url`, and mask the values in its
    query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    masked_query = urlencode([(name, "***") for name, _ in pairs], safe="*")
    return urlunsplit((parts.scheme, host, parts.path, masked_query, ""))
