"""Annotations: failing checks and samples at their lines, and errors at their
location."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from ragstone.errors import RagstoneError
from ragstone.formatting import clipped
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import Action, Status
from ragstone.github.api.commands import Annotation, Level
from ragstone.golden.sample import Origin
from ragstone.report.filters import PHRASES
from ragstone.report.parts import Document, Place

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>[1-9]\d*)(?::\d+)?")
_TEXT = 200
_SAMPLES = 20
"""Of the samples that got worse; those that failed come after them."""
_LINE_NUMBERED = (".md", ".markdown", ".csv", ".tsv")
"""Files that GitHub renders: their lines can be linked only in the plain view."""


class Places(Struct, frozen=True):
    """Converts Ragstone's paths (relative to `root`, or absolute) to paths within the
    checkout."""

    root: Path
    workspace: Path

    def within(self, file: str) -> str | None:
        """The path relative to the workspace with forward slashes, None if it is
        outside."""
        return _within(self.root, file, self.workspace)

    def annotation(
        self, level: Level, message: str, title: str, file: str | None, line: int | None
    ) -> Annotation:
        """An annotation at a place in the checkout; of the whole job for another
        place."""
        inside = None if file is None else self.within(file)
        return Annotation(level, message, title, inside, line if inside else None)

    def link(self, origin: Origin, blob: str) -> str | None:
        """The address of `origin` under `blob`
        (``https://github.com/owner/name/blob/SHA``)."""
        path = self.within(origin.file)
        if path is None:
            return None
        if origin.line is None:
            return f"{blob}/{quote(path)}"
        plain = ""
        if path.lower().endswith(_LINE_NUMBERED):
            plain = "?plain=1"
        return f"{blob}/{quote(path)}{plain}#L{origin.line}"


@lru_cache(maxsize=64)  # a report links each sample, and most are from the same file
def _within(root: Path, file: str, workspace: Path) -> str | None:
    try:
        return (root / file).resolve().relative_to(workspace.resolve()).as_posix()
    except (OSError, ValueError):
        return None


def annotations_on(
    document: Document, policy: Policy, places: Places
) -> Iterator[Annotation]:
    """All annotations of a verdict, most severe first; the printer applies limits."""
    for check in sorted(
        document.checks,
        key=lambda check: (check.status is not Status.FAIL, check.action),
    ):
        if check.status is Status.PASS:
            continue
        is_grave = check.status in (Status.FAIL, Status.ERROR)
        blocks = is_grave and check.action is Action.BLOCK
        yield places.annotation(
            Level.ERROR if blocks else Level.WARNING,
            check.reason,
            f"{check.name}: {check.status}",
            policy.file,
            policy.source.line_of(key_of_check(check)),
        )
    for sample in document.samples.worst[:_SAMPLES]:
        scored = [change for change in sample.changes if change.current is not None]
        text = f"{'; '.join(map(PHRASES['moved'], scored)) or 'worse'}\n{_short(sample.question)}"
        yield _on_sample(f"Sample {_short(sample.id)}", text, sample.place, places)
    for group in document.samples.failures:
        for failed in group.samples:
            title = f"Sample {_short(failed.id)} failed ({group.by})"
            yield _on_sample(title, _short(group.reason), failed.place, places)


def _on_sample(
    title: str, message: str, place: Place | None, places: Places
) -> Annotation:
    if place is None:
        return Annotation(Level.WARNING, message, title)
    return places.annotation(Level.WARNING, message, title, place.file, place.line)


def error_annotation(error: RagstoneError, places: Places) -> Annotation:
    """The error that ended the run, at its location if that is a file in the
    checkout."""
    where = error.where or ""
    file, line = where, None
    place = _PLACE.fullmatch(where)
    if place is not None:
        file, line = place["file"], int(place["line"])
    inside = places.within(file) if (places.root / file).is_file() else None
    message = error.message
    if where and inside is None:
        message, line = f"{where}: {message}", None
    if error.hint:
        message += f"\n{error.hint}"
    return Annotation(Level.ERROR, message, "Ragstone", inside, line)


def _short(text: str) -> str:
    return clipped(" ".join(text.split()), _TEXT)
