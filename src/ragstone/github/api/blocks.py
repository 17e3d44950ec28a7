"""The blocks of a comment: a report for each job that comments on the same commit under
the same marker."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_PREFIX = "<!-- ragstone:block:"
_MARKER = re.compile(
    rf"^{_PREFIX}(?P<commit>[0-9a-f]{{7,64}}):(?P<writer>[0-9a-f]{{16}}):(?P<run>\d+):(?P<attempt>\d+):(?P<label>[^:]*)"
    " -->$",
    re.MULTILINE,
)
_SHARED = "> [!NOTE]\n> Several jobs comment here. Give each its own `comment-id`, and each has a comment of its own.\n\n"
_MAX_OTHERS = 40_000
"""Number of characters of all other blocks, above which each is cut to its first
line."""


@dataclass(frozen=True, slots=True)
class Block:
    """What one job says. `writer` is its identity as text: two jobs of one matrix may
    have the same."""

    commit: str
    writer: str
    run_id: int
    attempt: int
    label: str
    """What a reader calls the job: letters, digits, dots, slashes, dashes, underscores
    and spaces."""
    text: str

    @property
    def marker(self) -> str:
        """The hidden line after the block."""
        digest = hashlib.sha256(self.writer.encode()).hexdigest()[:16]
        return f"{_PREFIX}{self.commit}:{digest}:{self.run_id}:{self.attempt}:{self.label} -->"


@dataclass(frozen=True, slots=True)
class _Written:
    """A block of an earlier job, as it is in the comment."""

    match: re.Match[str]
    text: str

    @property
    def label(self) -> str:
        return self.match["label"]


def others_beside(block: Block, body: str) -> Sequence[str]:
    """The blocks in `body` that stay beside `block`, with their markers: of other jobs
    on the same commit.

    A run that is repeated replaces what its job said before, and a new commit replaces
    all. What one writer said in the same attempt of the same run is of another job of a
    matrix.
    """
    own = _MARKER.match(block.marker)
    if own is None:
        return ()
    staying = [written for written in _blocks(body) if _stays(written.match, own)]
    is_long = sum(len(written.text) for written in staying) > _MAX_OTHERS
    return [
        _marked(
            _first_line(written.text) if is_long else written.text, written.match[0]
        )
        for written in staying
    ]


def is_settled(block: Block, body: str) -> bool:
    """Whether `body` has `block`, whole or cut to its first line, or what replaces it:
    a block of another commit, or of another run of its job."""
    own = _MARKER.match(block.marker)
    text = _without_markers(block.text).strip("\n").rstrip()
    for written in _blocks(body):
        if own is None or not _stays(written.match, own):
            return True
        if written.match[0] == block.marker and written.text.rstrip() in (
            text,
            _first_line(text).rstrip(),
        ):
            return True
    return False


def joined(block: Block, other_blocks: Sequence[str]) -> str:
    """The body of the comment with `block` and `other_blocks`, which have a heading
    each if there are several."""
    text = _without_markers(block.text)
    if not other_blocks:
        return _marked(text, block.marker)
    beside = [
        _headed(written.label, _marked(written.text, written.match[0]))
        for written in _blocks("\n".join(other_blocks))
    ]
    return _SHARED + "\n\n".join(
        [*beside, _headed(block.label, _marked(text, block.marker))]
    )


def _stays(match: re.Match[str], own: re.Match[str]) -> bool:
    if match["commit"] != own["commit"]:
        return False
    return match["writer"] != own["writer"] or (match["run"], match["attempt"]) == (
        own["run"],
        own["attempt"],
    )


def _blocks(body: str) -> Iterator[_Written]:
    body = body.replace("\r\n", "\n").removeprefix(_SHARED)
    start = 0
    for match in _MARKER.finditer(body):
        text = body[start : match.start()].strip("\n")
        yield _Written(match, text.removeprefix(_headed(match["label"], "")))
        start = match.end()


def _without_markers(text: str) -> str:
    """`text`, which can't contain a block."""
    return text.replace(_PREFIX, "<!-- ragstone block:")


def _marked(text: str, mark: str) -> str:
    return f"{text.rstrip()}\n\n{mark}"


def _headed(label: str, text: str) -> str:
    return f"### {label}\n\n{text}"


def _first_line(text: str) -> str:
    return text.lstrip().partition("\n")[0]
