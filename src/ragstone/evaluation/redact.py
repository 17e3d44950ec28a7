"""Removes known secrets from all output, since GitHub masks them only in logs, not in
comments and artifacts."""

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

_EXACT_CHARACTERS = 64
"""How many characters of a long token are matched exactly."""

_CODE_CHARACTER = r"[\w.~+/=%-]"
_LONG_CODE = re.compile(f"{_CODE_CHARACTER}+", re.ASCII)

_INSERTED = "[\u200b\\\\\n]*"
"""Matches what escaping and wrapping may insert between two characters."""

T = TypeVar("T")


class Redactor:
    """Replaces `secrets` in any text, whether verbatim, in base64, percent-encoded, or
    escaped for JSON or HTML.

    Each line of a secret with several lines is a secret, too. Base64 is recognised at
    any offset, as in a header of "user:password". Redact a document before it is
    rendered (`tree`) if possible, because rendering may clip a secret. `names` maps
    paths that mean nothing to readers to the names to show instead.
    """

    def __init__(
        self, secrets: Iterable[str], names: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._names = names
        self.on_add: Callable[[str], None] | None = None
        self._forms: dict[str, None] = {}
        self._lock = threading.Lock()
        self._pattern: re.Pattern[str] | None = None
        self._add(secrets)

    def add(self, secret: str) -> None:
        """Remove `secret`, such as a token obtained during the run, from all later
        output, and call `on_add` with it."""
        with self._lock:
            self._add((secret,))
        if self.on_add is not None:
            self.on_add(secret)

    def _add(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            for part in (secret, *secret.splitlines()):
                stripped = part.strip()
                if len(stripped) >= MIN_SECRET_CHARACTERS:
                    self._forms.update(dict.fromkeys(_forms_of(stripped)))
        longest_first = sorted(self._forms, key=len, reverse=True)
        patterns = list(map(_pattern_of, longest_first))
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
        """A copy of `value` without any secret: of a document, or any tree of structs,
        dataclasses, tuples, lists and dictionaries."""
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


def _pattern_of(form: str) -> str:
    """A pattern for `form`, verbatim or with inserted escapes. Of a long token, only the
    start is matched exactly.

    To match a thousand characters exactly would take seconds to compile, and miss a
    token that was clipped.
    """
    start, remainder = form[:_EXACT_CHARACTERS], form[_EXACT_CHARACTERS:]
    if not _LONG_CODE.fullmatch(remainder):
        start, remainder = form, ""
    exact = _INSERTED.join(map(re.escape, start))
    return f"{exact}(?:{_INSERTED}{_CODE_CHARACTER}){{0,{len(remainder)}}}"


def _forms_of(secret: str) -> list[str]:
    """The forms in which `secret` may appear in output."""
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
            # Each character encodes six bits. The first and last ones also depend on
            # the neighbours of the secret, and are left out.
            shifted = b"\0" * offset + raw
            text = encode(shifted).decode("ascii").rstrip("=")
            start = (0, 2, 3)[offset]
            is_last_shared = (offset + len(raw)) % 3 > 0
            end = len(text) - 1 if is_last_shared else len(text)
            if end - start >= MIN_SECRET_CHARACTERS:
                forms.append(text[start:end])
    return forms
