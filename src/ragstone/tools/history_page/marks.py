"""Marks on runs of the history: what differs from the run before, such as the judge,
releases, and accepted drops."""

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
    """The only metric that it is about; None if it is about all."""


def marks(run: RunLine, before: RunLine | None) -> Iterator[Mark]:
    """Yield the marks of `run`, of which `before` is the run before, if there is one.

    An accepted drop is marked at the first run for which it was in force.
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
            yield Mark("accepted", text, metric=entry.metric)


def _differences(before: RunLine, after: RunLine) -> Iterator[Mark]:
    """Yield what was evaluated, or how, in another way than in the run before."""
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
        version_before = before.versions.get(metric, version)
        if version != version_before:
            text = f"{metric}: version {version}, was {version_before}"
            yield Mark("metric", text, metric=metric)
