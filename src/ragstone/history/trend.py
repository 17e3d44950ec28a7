"""What sets a run of the history apart from the run before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.gate.accepted import title_of
from ragstone.history.lines import RunLine

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
        for kind, text in _differences(runs[place - 1], run) if place else ():
            yield Mark(place, kind, text)
        if place:
            versions = runs[place - 1].versions
            for metric, version in run.versions.items():
                was = versions.get(metric, version)
                if was != version:
                    text = f"{metric}: version {version}, was {was}"
                    yield Mark(place, "metric", text, metric)
        if run.release is not None:
            yield Mark(place, "release", f"release {run.release}")
        for entry in run.accepted:
            if entry.id in accepted_before:
                continue
            if entry.metric == GOLDEN_SET:
                text = f"accepted: an edit of {entry.drop:.1%} of the {GOLDEN_SET} ({entry.id})"
                yield Mark(place, "accepted", text)
            else:
                title = title_of(entry.metric, entry.slice)
                text = f"accepted: {title} may drop by {entry.drop:g} ({entry.id})"
                yield Mark(place, "accepted", text, entry.metric, entry.slice)
        accepted_before = {entry.id for entry in run.accepted}


def _differences(before: RunLine, after: RunLine) -> Iterator[tuple[MarkKind, str]]:
    if before.judge_key != after.judge_key:
        if before.judge == after.judge:
            yield "judge", f"judge: {after.judge}, other prompts or parameters"
        else:
            yield "judge", f"judge: now {after.judge}"
    if before.golden != after.golden:
        yield "golden", "golden set changed"
    if before.part != after.part:
        part = "the whole system"
        if after.part:
            part = f"{after.part} alone"
        yield "part", f"evaluated: {part}"
    if before.system != after.system:
        yield "system", f"system: {after.system or 'no version'}"
