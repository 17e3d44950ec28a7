"""What sets a run of the history apart from the run before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.history.lines import AcceptedPart, RunLine

MarkKind = Literal["judge", "golden", "metric", "part", "system", "release", "accepted"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something to know about one run."""

    place: int
    """The place of the run."""
    kind: MarkKind
    text: str
    metric: str | None = None
    """The metric that it is about alone, if it is about one."""
    slice: str | None = None


def marks(runs: Sequence[RunLine]) -> Iterator[Mark]:
    """What sets each of `runs` apart from the run before it, and the releases; the
    oldest run first.

    An accepted drop is marked at the first run in which it was in force.
    """
    accepted_before: set[str] = set()
    for place, run in enumerate(runs):
        if place:
            yield from _differences(place, runs[place - 1], run)
        if run.release is not None:
            yield Mark(place, "release", f"release {run.release}")
        for entry in run.accepted:
            if entry.id not in accepted_before:
                yield _accepted(place, entry)
        accepted_before = {entry.id for entry in run.accepted}


def _accepted(place: int, entry: AcceptedPart) -> Mark:
    if entry.metric == GOLDEN_SET:
        return Mark(
            place,
            "accepted",
            f"accepted: an edit of {entry.drop:.1%} of the {GOLDEN_SET} ({entry.id})",
        )
    on_slice = "" if entry.slice is None else f" on '{entry.slice}'"
    text = f"accepted: {entry.metric}{on_slice} may drop by {entry.drop:g} ({entry.id})"
    return Mark(place, "accepted", text, entry.metric, entry.slice)


def _differences(place: int, before: RunLine, after: RunLine) -> Iterator[Mark]:
    if before.judge_key != after.judge_key:
        is_same_name = before.judge == after.judge
        text = (
            f"judge: {after.judge}, other prompts or parameters"
            if is_same_name
            else f"judge: now {after.judge}"
        )
        yield Mark(place, "judge", text)
    if before.golden != after.golden:
        yield Mark(place, "golden", "golden set changed")
    if before.part != after.part:
        yield Mark(
            place,
            "part",
            f"evaluated: {'the whole system' if after.part is None else f'{after.part} alone'}",
        )
    if before.system != after.system:
        yield Mark(
            place,
            "system",
            "system: no version" if after.system is None else f"system: {after.system}",
        )
    for metric, version in after.versions.items():
        if metric in before.versions and before.versions[metric] != version:
            yield Mark(
                place,
                "metric",
                f"{metric}: version {version}, was {before.versions[metric]}",
                metric,
            )
