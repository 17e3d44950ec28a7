"""The blocks of a comment: a report for each job that comments on the same commit under
the same marker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

_PREFIX = "<!-- ragstone:block:"
_MARKER = re.compile(
    rf"^{_PREFIX}([0-9a-f]{{7,64}}):([0-9a-f]{{16}}):(\d+):(\d+):([^:]*) -->$",
    re.MULTILINE,
)
_SHARED = "> [!NOTE]\n> Several jobs comment here. Give each its own `comment-id`, and each has a comment of its own.\n\n"
_MAX_OTHERS = 40_000
"""Number of characters of all other blocks, above which each is cut to its first
line."""


class Block(Struct, frozen=True):
    """What one job says, followed by a hidden marker."""

    commit: str
    writer: str
    """A digest (16 hexadecimal digits) of the job's identity: two jobs of one matrix
    may have the same."""
    run_id: int
    attempt: int
    label: str
    """What a reader calls the job: letters, digits, dots, slashes, dashes, underscores
    and spaces."""
    text: str

    @property
    def marker(self) -> str:
        return f"{_PREFIX}{self.commit}:{self.writer}:{self.run_id}:{self.attempt}:{self.label} -->"

    @property
    def marked(self) -> str:
        """The text, which can't contain a block, and the marker."""
        text = self.text.replace(_PREFIX, "<!-- ragstone block:").strip()
        return f"{text}\n\n{self.marker}"

    @property
    def first_line(self) -> Block:
        return replace(self, text=self.text.lstrip().partition("\n")[0])

    def stays_beside(self, new: Block) -> bool:
        """Whether it is of another job than `new`, on the same commit.

        A run that is repeated replaces what its job said before, and a new commit
        replaces all. What one writer said in the same attempt of the same run is of
        another job of a matrix.
        """
        is_same_attempt = (self.run_id, self.attempt) == (new.run_id, new.attempt)
        is_other_job = self.writer != new.writer or is_same_attempt
        return self.commit == new.commit and is_other_job


def others_beside(block: Block, body: str) -> Sequence[Block]:
    """The blocks in `body` that stay beside `block`."""
    staying = [other for other in _blocks(body) if other.stays_beside(block)]
    if sum(len(other.text) for other in staying) <= _MAX_OTHERS:
        return staying
    return [other.first_line for other in staying]


def is_settled(block: Block, body: str) -> bool:
    """Whether `body` has `block`, whole or cut to its first line, or what replaces it:
    a block of another commit, or of another run of its job."""
    forms = (block.marked, block.first_line.marked)
    return any(
        other.marked in forms or not other.stays_beside(block)
        for other in _blocks(body)
    )


def joined(block: Block, others: Sequence[Block]) -> str:
    """The body of the comment with `block` and `others`, which have a heading each if
    there are several."""
    if not others:
        return block.marked
    headed = [_heading(each.label) + each.marked for each in (*others, block)]
    return _SHARED + "\n\n".join(headed)


def _blocks(body: str) -> Iterator[Block]:
    body = body.replace("\r\n", "\n").removeprefix(_SHARED)
    start = 0
    for match in _MARKER.finditer(body):
        commit, writer, run, attempt, label = match.groups()
        text = body[start : match.start()].strip("\n").removeprefix(_heading(label))
        yield Block(commit, writer, int(run), int(attempt), label, text)
        start = match.end()


def _heading(label: str) -> str:
    return f"### {label}\n\n"
