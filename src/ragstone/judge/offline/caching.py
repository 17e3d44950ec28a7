"""Results derived from texts, computed when they are first asked for and kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Made = TypeVar("Made")


class Lazy(Generic[Made]):
    """An attribute that is computed once. Like `functools.cached_property`, without its lock (before Python 3.12) and
    without a dict for each object, which garbage collection would have to visit.
    """

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Made: ...

    def __get__(self, instance: object | None, owner: type) -> Self | Made:
        if instance is None:
            return self
        made = self._make(instance)
        setattr(instance, self._name, made)  # found before this descriptor from now on
        return made


class TextCache(Generic[Made]):
    """`make(text, code)`, cached for the most recent texts, up to `characters` of them together."""

    def __init__(self, make: Callable[[str, str], Made], characters: int) -> None:
        self._make = make
        self._most = characters
        self._characters = 0
        self._known: OrderedDict[tuple[str, str], Made] = OrderedDict()

    def __call__(self, text: str, code: str) -> Made:
        key = (text, code)
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        made = self._make(text, code)
        self.add(text, code, made)
        return made

    def add(self, text: str, code: str, made: Made) -> None:
        """Add what `make` would return for `text`, unless it is known."""
        if (text, code) in self._known:
            return
        self._known[text, code] = made
        self._characters += len(text) + 1
        while self._characters > self._most and self._known:
            (old, _), _ = self._known.popitem(last=False)
            self._characters -= len(old) + 1
