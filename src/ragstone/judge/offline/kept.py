"""A cache of results derived from texts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """`make(text, code)`, cached for the most recent texts, up to `characters` of them together."""

    def __init__(self, make: Callable[[str, str], Made], characters: int) -> None:
        self._make = make
        self._most = characters
        self._characters = 0
        self._kept: OrderedDict[tuple[str, str], Made] = OrderedDict()

    def __call__(self, text: str, code: str) -> Made:
        key = (text, code)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        made = self._make(text, code)
        self.keep(text, code, made)
        return made

    def keep(self, text: str, code: str, made: Made) -> None:
        """Add what `make` would return for `text`, unless it is known."""
        if (text, code) in self._kept:
            return
        self._kept[text, code] = made
        self._characters += len(text) + 1
        while self._characters > self._most and self._kept:
            (old, _), _ = self._kept.popitem(last=False)
            self._characters -= len(old) + 1
