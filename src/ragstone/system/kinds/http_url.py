"""http: and https: entrypoints: a service at a URL."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ragstone.config import SystemSettings
from ragstone.errors import ConfigError
from ragstone.system.environment import substituted
from ragstone.system.http_service import HttpService
from ragstone.system.kind import EntrypointKind, Surroundings
from ragstone.system.response import System

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


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
