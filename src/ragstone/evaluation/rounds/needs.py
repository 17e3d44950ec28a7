"""What the parts of a run need of each other: one table, from which every ban on a
combination follows.

A part (a round, a way to decide) names what it needs; another one, or the system, names
what a run with it lacks. Two parts of which one lacks what the other needs can't be
combined, and `refuse_conflicts` says so, always in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import product

from ragstone.errors import ConfigError


class Need(Enum):
    """What a part of a run can need. The value completes "it needs …"."""

    ASKING = "a system that can be asked again"
    WHOLE_SYSTEM = "the whole system"
    GIVEN_CONTEXTS = "a system that takes contexts"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a run: what the user wrote, and its setting. It `needs` some things; a
    run with it `lacks` others."""

    name: str
    where: str
    needs: frozenset[Need] = frozenset()
    lacks: frozenset[Need] = frozenset()


def part(
    name: str, where: str, needs: Iterable[Need] = (), lacks: Iterable[Need] = ()
) -> Part:
    """A part of a run, by what the user wrote and the setting."""
    return Part(name, where, frozenset(needs), frozenset(lacks))


ANSWERS = part("--answers", "run.answers", [Need.ASKING])
BASE_COMMIT = part("--baseline-commit", "gate.baseline_commit", [Need.ASKING])
ORACLE = part(
    "--oracle", "run.oracle", [Need.ASKING, Need.WHOLE_SYSTEM, Need.GIVEN_CONTEXTS]
)


def recorded(entrypoint: str) -> Part:
    """A system whose answers were recorded."""
    return part(
        f"recorded answers ({entrypoint})", "system.entrypoint", (), [Need.ASKING]
    )


def half(which: str) -> Part:
    """Evaluating half of the system alone."""
    return part(f'part = "{which}"', "system.part", (), [Need.WHOLE_SYSTEM])


def refuse_conflicts(parts: Iterable[Part]) -> None:
    """Raise ConfigError for the first two of `parts` that can't be combined."""
    parts = tuple(parts)
    for part, second_part in product(parts, parts):
        missing = [need for need in Need if need in part.needs & second_part.lacks]
        if missing:
            raise ConfigError(
                f"{part.name} can't be combined with {second_part.name}: it needs {missing[0].value}.",
                where=part.where,
                hint="Leave out one of the two.",
            )
