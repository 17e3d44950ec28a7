"""What a reviewed branch says, as a type of its own: what a pull request says is not accepted in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Trusted(Generic[Value_co]):
    """A value that was read from a reviewed branch, or that the workflow or the platform gave.

    Build one only where such a value is read. A function that must not act on what a pull request says takes
    ``Trusted[X]``; what comes from the checkout of a pull request is a plain ``X``.
    """

    value: Value_co
