"""Makes annotations: of failing checks and samples at their lines, and of errors at
their location."""

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

_LOCATION = re.compile(r"(?P<file>.+?):(?P<line>[1-9]\d*)(?::\d+)?")
_MAX_TEXT_CHARACTERS = 200
# Leaves room for samples that failed, which come after those that got worse.
_MAX_WORSE_SAMPLES = 20
# Files that GitHub renders, so that their lines can be linked only in the plain view.
_RENDERED_ENDINGS = (".md", ".markdown", ".csv", ".tsv")


class Places(Struct, frozen=True):
    """Converts paths, absolute or relative to `root`, to paths in the checkout."""

    root: Path
    workspace: Path

    def within(self, file: str) -> str | None:
        """The path of `file` relative to the workspace, with forward slashes; None if
        it is outside."""
        return _within(self.root, file, self.workspace)

    def annotation(
        self, level: Level, message: str, title: str, file: str | None, line: int | None
    ) -> Annotation:
        """An annotation at a line of `file`; of the whole job if that is not in the
        checkout."""
        inside = None if file is None else self.within(file)
        return Annotation(level, message, title, inside, line if inside else None)

    def link(self, origin: Origin, blob_url: str) -> str | None:
        """The address of `origin` below `blob_url`, such as
        ``https://github.com/owner/name/blob/SHA``; None if it is not in the
        checkout."""
        path = self.within(origin.file)
        if path is None:
            return None
        if origin.line is None:
            return f"{blob_url}/{quote(path)}"
        query = ""
        if path.lower().endswith(_RENDERED_ENDINGS):
            query = "?plain=1"
        return f"{blob_url}/{quote(path)}{query}#L{origin.line}"


@lru_cache(maxsize=64)  # a report links each sample, and most are from the same file
def _within(root: Path, file: str, workspace: Path) -> str | None:
    try:
        return (root / file).resolve().relative_to(workspace.resolve()).as_posix()
    except (OSError, ValueError):
        return None


def annotations_on(
    document: Document, policy: Policy, places: Places
) -> Iterator[Annotation]:
    """The annotations of a verdict, the most severe first."""
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
    for sample in document.samples.worst[:_MAX_WORSE_SAMPLES]:
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
    """An annotation of the error that ended the run, at its location if that is a file
    in the checkout."""
    where = error.where or ""
    file = where
    line = None
    location = _LOCATION.fullmatch(where)
    if location is not None:
        file = location["file"]
        line = int(location["line"])
    inside = places.within(file) if (places.root / file).is_file() else None
    message = error.message
    if where and inside is None:
        message = f"{where}: {message}"
        line = None
    if error.hint:
        message += f"\n{error.hint}"
    return Annotation(Level.ERROR, message, "Ragstone", inside, line)


def _short(text: str) -> str:
    return clipped(" ".join(text.split()), _MAX_TEXT_CHARACTERS)
