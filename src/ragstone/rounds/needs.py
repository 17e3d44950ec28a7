"""What the parts of a run need of each other: one table, from which every ban on a combination follows.

A part (a round, a way to decide) names what it needs; another one, or the system, names what a run with it lacks. Two
parts of which one lacks what the other needs can't be combined, and `refuse_conflicts` says so, always in the same
words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from ragstone.errors import ConfigError
from ragstone.system.given import refuse_without_contexts
from ragstone.system.response import System


class Need(Enum):
    """What a part of a run can need. The value completes "it needs …"."""

    ASKING = "a system that can be asked again"
    EVALUATING = "an evaluation"
    WHOLE_SET = "the whole golden set in one run"
    WHOLE_SYSTEM = "the whole system"
    EVERY_ANSWER = "the answers to all questions"
    EARLIER_BASELINE = "a baseline that was evaluated before"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a run: what the user wrote, and its setting. It `needs` some things; a run with it `lacks` others."""

    name: str
    where: str
    needs: frozenset[Need] = frozenset()
    lacks: frozenset[Need] = frozenset()


def _part(name: str, where: str, needs: Iterable[Need] = (), lacks: Iterable[Need] = ()) -> Part:
    return Part(name, where, frozenset(needs), frozenset(lacks))


ANSWERS = _part("--answers", "run.answers", [Need.ASKING])
BASE_COMMIT = _part(
    "--baseline-commit",
    "gate.baseline_commit",
    [Need.ASKING, Need.EVALUATING, Need.WHOLE_SET],
    [Need.EARLIER_BASELINE],
)
CONFIRM = _part("confirm = true", "gate.confirm", [Need.EVERY_ANSWER])
MERGE = _part("--merge", "--merge", (), [Need.EVALUATING])
RESUME = _part("--resume", "run.resume", [Need.EVALUATING])
SHARD = _part("--shard", "run.shard", [Need.EVALUATING], [Need.WHOLE_SET])
STOP_EARLY = _part(
    "--stop-early",
    "run.stop_early",
    [Need.EVALUATING, Need.WHOLE_SET, Need.EARLIER_BASELINE],
    [Need.EVERY_ANSWER],
)
ORACLE = _part("--oracle", "run.oracle", [Need.ASKING, Need.EVALUATING, Need.WHOLE_SET, Need.WHOLE_SYSTEM])
PERTURB = _part("--perturb", "run.perturb", [Need.ASKING, Need.EVALUATING, Need.WHOLE_SET])


def recorded(entrypoint: str) -> Part:
    """A system whose answers were recorded."""
    return _part(f"recorded answers ({entrypoint})", "system.entrypoint", (), [Need.ASKING])


def half(part: str) -> Part:
    """Evaluating half of the system alone."""
    return _part(f'part = "{part}"', "system.part", (), [Need.WHOLE_SYSTEM])


def refuse_conflicts(parts: Iterable[Part]) -> None:
    """Raise ConfigError for the first two of `parts` that can't be combined."""
    for error in _conflicts(tuple(parts)):
        raise error


def _conflicts(parts: tuple[Part, ...]) -> Iterator[ConfigError]:
    for part in parts:
        for other in parts:
            missing = [need for need in Need if need in part.needs & other.lacks]
            if missing:
                yield ConfigError(
                    f"{part.name} can't be combined with {other.name}: it needs {missing[0].value}.",
                    where=part.where,
                    hint="Leave out one of the two.",
                )


def refuse_started(system: System, declared: bool | None, parts: Iterable[Part]) -> None:
    """Raise SystemUnderTestError if the started `system` can't do what a part gives it to do.

    `declared` is what the settings say of contexts that it is given.
    """
    for part in parts:
        if part is ORACLE:
            refuse_without_contexts(system, declared, part.name)
