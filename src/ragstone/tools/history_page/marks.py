"""What sets a run of the history apart from the run before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ragstone.gate.accepted import title_of
from ragstone.history.lines import RunLine

MarkKind = Literal["judge", "golden", "metric", "part", "system", "release", "accepted"]


class Mark(Struct, frozen=True):
    """Something to know about one run."""

    kind: MarkKind
    text: str
    metric: str | None = None
    """The metric that it is about alone, if it is about one."""


def marks(run: RunLine, before: RunLine | None) -> Iterator[Mark]:
    """What sets `run` apart from the run `before` it, and its release.

    An accepted drop is marked at the first run in which it was in force.
    """
    accepted_before: set[str] = set()
    if before is not None:
        yield from _differences(before, run)
        accepted_before = {entry.id for entry in before.accepted}
    if run.release is not None:
        yield Mark("release", f"release {run.release}")
    for entry in run.accepted:
        if entry.id not in accepted_before:
            title = title_of(entry.metric, entry.slice)
            text = f"accepted: {title} by {entry.drop:g} ({entry.id})"
            yield Mark("accepted", text, entry.metric)


def _differences(before: RunLine, after: RunLine) -> Iterator[Mark]:
    if before.judge_key != after.judge_key:
        text = f"judge: now {after.judge}"
        if before.judge == after.judge:
            text = f"judge: {after.judge}, other prompts or parameters"
        yield Mark("judge", text)
    if before.golden != after.golden:
        yield Mark("golden", "golden set changed")
    if before.part != after.part:
        part = f"{after.part} alone" if after.part else "the whole system"
        yield Mark("part", f"evaluated: {part}")
    if before.system != after.system:
        system = after.system or "no version"
        yield Mark("system", f"system: {system}")
    for metric, version in after.versions.items():
        was = before.versions.get(metric, version)
        if was != version:
            text = f"{metric}: version {version}, was {was}"
            yield Mark("metric", text, metric)
