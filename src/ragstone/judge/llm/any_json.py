"""Reads values of a provider's reply, which may be of any type."""

from __future__ import annotations

from typing import Any


def dict_or_empty(value: object) -> dict[str, Any]:
    """`value` if it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_or_empty(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text_or_empty(value: object) -> str:
    """`value` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""
