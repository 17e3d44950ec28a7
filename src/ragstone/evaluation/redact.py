"""Removes known secrets from all output: GitHub masks them in logs, but not in comments
and artifacts."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from msgspec import Struct

from ragstone.settings.settings import MIN_SECRET_CHARACTERS

MASK = "***"

_WHOLE = 64
"""Characters of a token that are matched individually."""

_LONG_CHARACTER = r"[\w.~+/=%-]"
_LONG = re.compile(f"{_LONG_CHARACTER}+", re.ASCII)

_BETWEEN = "[\u200b\\\\\n]*"  # what escaping and wrapping may have inserted between two characters

T = TypeVar("T")


class Redactor:
    """Replaces `secrets` in any text, verbatim and as base64, percent-encoded, JSON- or
    HTML-escaped text.

    Each line of a multi-line secret is a secret. Base64 is found at any offset, as in a
    header. Redact before rendering (`tree`) if possible, because a report clips text;
    `__call__` is for the rest. `names` maps paths that mean nothing to a reader to the
    names to show.
    """

    def __init__(
        self, secrets: Iterable[str], names: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._names = names
        self.on_add: Callable[[str], None] | None = None
        self._found: dict[str, None] = {}
        self._lock = threading.Lock()
        self._pattern: re.Pattern[str] | None = None
        self._add(secrets)

    def add(self, secret: str) -> None:
        """Remove `secret`, obtained during the run (a token), from all later output;
        notify `on_add`."""
        with self._lock:
            self._add((secret,))
        if self.on_add is not None:
            self.on_add(secret)

    def _add(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            for part in (secret, *secret.splitlines()):
                bare = part.strip()
                if len(bare) >= MIN_SECRET_CHARACTERS:
                    self._found.update(dict.fromkeys(_forms(bare)))
        longest_first = sorted(self._found, key=len, reverse=True)
        patterns = list(map(_pattern, longest_first))
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __repr__(self) -> str:
        return "Redactor(…)"

    def __call__(self, text: str) -> str:
        """`text` without any secret."""
        text = self._pattern.sub(MASK, text) if self._pattern else text
        for path, name in self._names.items():
            text = text.replace(path, name)
        return text

    def tree(self, value: T) -> T:
        """A copy of `value` (a document, or any tree of structs, dataclasses, tuples,
        lists and mappings) without any secret."""
        redacted: T = self._walk(value)
        return redacted

    def _walk(self, value: Any) -> Any:
        match value:
            case Enum():
                return value
            case str():
                return self(value)
            case tuple() | list():
                return type(value)(map(self._walk, value))
            case dict():
                items = value.items()
                return {self._walk(key): self._walk(item) for key, item in items}
            case Struct():
                names = value.__struct_fields__
            case _ if is_dataclass(type(value)):
                names = tuple(field.name for field in fields(value) if field.init)
            case _:
                return value
        redacted = {name: self._walk(getattr(value, name)) for name in names}
        return type(value)(**redacted)


def _pattern(form: str) -> str:
    """Match `form`, verbatim or with escaping between its characters; for a long token,
    its start and what follows.

    A pattern for each of a thousand characters would take seconds to compile, and miss
    a token that was clipped.
    """
    start, remainder = form[:_WHOLE], form[_WHOLE:]
    if not _LONG.fullmatch(remainder):
        start, remainder = form, ""
    whole = _BETWEEN.join(map(re.escape, start))
    return f"{whole}(?:{_BETWEEN}{_LONG_CHARACTER}){{0,{len(remainder)}}}"


def _forms(secret: str) -> list[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    forms = [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        html.escape(secret),
    ]
    encoded = [quote(raw, safe=""), quote(raw), quote_plus(raw)]
    forms += encoded
    forms += [
        re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), form)
        for form in encoded
    ]
    for offset in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            # The first and last characters depend on the neighbours; the rest depends
            # only on the secret.
            shifted = b"\0" * offset + raw
            whole = encode(shifted).decode("ascii").rstrip("=")
            start = (0, 2, 3)[offset]
            is_cut = (offset + len(raw)) % 3 > 0
            end = len(whole) - 1 if is_cut else len(whole)
            if end - start >= MIN_SECRET_CHARACTERS:
                forms.append(whole[start:end])
    return forms
