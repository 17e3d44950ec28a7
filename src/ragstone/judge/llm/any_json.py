"""Parts of a provider's reply, which may be anything."""

from __future__ import annotations

from typing import Any


def dict_or_empty(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_or_empty(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
