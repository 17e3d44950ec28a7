"""Lists and objects that know on which line each of their members starts."""

from __future__ import annotations

from typing import Any


class LocatedList(list[Any]):
    """A list; `lines[i]` is the line of item i."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []


class LocatedDict(dict[str, Any]):
    """An object; `lines[key]` is the line of that key's value."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


def line_of(container: object, key: int | str) -> int | None:
    """The line of a member, None where the container doesn't know."""
    if isinstance(container, LocatedList) and isinstance(key, int):
        return container.lines[key]
    if isinstance(container, LocatedDict) and isinstance(key, str):
        return container.lines.get(key)
    return None
