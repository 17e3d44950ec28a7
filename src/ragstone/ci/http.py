"""Requests to the API of a CI system: bounded, without the credentials of a netrc file, and no token in a message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from ragstone._version import __version__
from ragstone.errors import ConfigError

_TIMEOUT_S = 60.0
_MAX_JSON_BYTES = 20_000_000


class ApiRefused(Exception):  # noqa: N818 - an outcome to report
    """A request to a platform failed. `status` is None if there was no reply."""

    def __init__(self, what: str, status: int | None = None) -> None:
        super().__init__(what)
        self.status = status

    @property
    def lacks_permission(self) -> bool:
        """Whether the token may not do this."""
        return self.status in (401, 403)


@dataclass(frozen=True, slots=True)
class Api:
    """An API below `base`, called with the headers in `auth`."""

    base: str
    auth: Mapping[str, SecretStr]

    @classmethod
    def at(cls, base: str, auth: Mapping[str, SecretStr], *, variable: str) -> Api:
        """The API at the address in `variable`. Raises ConfigError unless it is http or https."""
        if urlsplit(base).scheme not in ("http", "https"):
            raise ConfigError(f"{variable} is not the address of an API: {base!r}")
        return cls(base.rstrip("/"), auth)

    def json(self, method: str, path: str, body: object = None) -> Any:
        """The JSON in the reply to a request; None if there is none. Raises ApiRefused."""
        content, _ = self._send(method, f"{self.base}{path}", body, limit=_MAX_JSON_BYTES, auth=True)
        if not content and method == "DELETE":
            return None
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise ApiRefused(f"{method} {_shown(path)}: the reply is not JSON") from None

    def download(self, path: str, *, limit: int) -> bytes:
        """The body of a file. One redirect is followed, without credentials if it leads to another host.

        Raises ApiRefused.
        """
        body, location = self._send("GET", f"{self.base}{path}", None, limit=limit, auth=True)
        if location is None:
            return body
        here, there = urlsplit(self.base), urlsplit(location)
        if there.scheme != "https" and there.scheme != here.scheme:
            raise ApiRefused("the download's address is not https")
        same = (here.scheme, here.netloc) == (there.scheme, there.netloc)
        body, location = self._send("GET", location, None, limit=limit, auth=same)
        if location is not None:
            raise ApiRefused("the download was redirected twice")
        return body

    def _send(self, method: str, url: str, body: object, *, limit: int, auth: bool) -> tuple[bytes, str | None]:
        import httpx2  # not at the top: what reads a platform's declaration needs no HTTP

        headers = {"User-Agent": f"ragstone/{__version__}", "Accept-Encoding": "identity"}
        if auth:
            headers |= {name: secret.get_secret_value() for name, secret in self.auth.items()}
        shown = f"{method} {_shown(url)}"
        content = b""
        try:
            with (
                # No authentication: it keeps httpx2 from reading a netrc file, which user code may have written.
                httpx2.Client(timeout=_TIMEOUT_S, follow_redirects=False, auth=httpx2.Auth()) as client,
                client.stream(method, url, headers=headers, json=body) as reply,
            ):
                location = reply.headers.get("location")
                if reply.status_code in (301, 302, 303, 307, 308) and location and method == "GET":
                    return b"", str(reply.url.join(location))
                for piece in reply.iter_raw():
                    content += piece
                    if len(content) > limit:
                        raise ApiRefused(f"{shown}: the reply is larger than {limit:,} bytes")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ApiRefused(f"{shown}: {type(error).__name__}") from None
        if not 200 <= reply.status_code < 300:
            raise ApiRefused(f"{shown} answered {reply.status_code}", reply.status_code)
        return content, None


def _shown(url: str) -> str:
    return urlsplit(url).path[:200]
