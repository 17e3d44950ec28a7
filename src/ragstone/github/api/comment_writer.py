"""The job that wrote a comment: a comment of another job on the same commit is not
taken for an older one of its own."""

from __future__ import annotations

import re

from msgspec import Struct

SEVERAL = "several"
"""In place of a job: several have the same `comment-id`."""

_MARKER = re.compile(r"<!-- ragstone:job:(\w+):(\w+):(\d+):(\d+) -->\n")


class CommentWriter(Struct, frozen=True):
    """The job that wrote a comment, as a hidden line of it says."""

    commit: str
    job: str
    """A digest of the job's identity: two jobs of one matrix may have the same."""
    run_id: int
    attempt: int

    @property
    def marker(self) -> str:
        return f"<!-- ragstone:job:{self.commit}:{self.job}:{self.run_id}:{self.attempt} -->\n"

    def is_other_job(self, new: CommentWriter) -> bool:
        """Whether it is another job than `new`, on the same commit.

        A run that is repeated replaces what its job said before, and a new commit
        replaces all. What one job said in the same attempt of the same run is of
        another job of a matrix.
        """
        is_same_attempt = (self.run_id, self.attempt) == (new.run_id, new.attempt)
        is_other = self.job != new.job or is_same_attempt
        return self.commit == new.commit and is_other


def writer_of(body: str) -> CommentWriter | None:
    """The job whose marker `body` begins with."""
    match = _MARKER.match(body.replace("\r\n", "\n"))
    if match is None:
        return None
    commit, job, run_id, attempt = match.groups()
    return CommentWriter(commit, job, int(run_id), int(attempt))
