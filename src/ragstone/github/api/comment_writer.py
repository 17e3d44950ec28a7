"""Identifies the job that wrote a comment, so that a job doesn't replace the comment of
another one on the same commit."""

from __future__ import annotations

import re

from msgspec import Struct

SEVERAL_JOBS = "several"
"""The `job` in a comment of several jobs with the same `comment-id`."""

_MARKER = re.compile(r"<!-- ragstone:job:(\w+):(\w+):(\d+):(\d+) -->\n")


class CommentWriter(Struct, frozen=True):
    """The job that wrote a comment."""

    commit: str
    job: str
    """A digest of the job's identity. Jobs of one matrix may have the same."""
    run_id: int
    attempt: int

    @property
    def marker(self) -> str:
        """The hidden line of a comment that names its writer."""
        return f"<!-- ragstone:job:{self.commit}:{self.job}:{self.run_id}:{self.attempt} -->\n"

    def is_other_job(self, new: CommentWriter) -> bool:
        """Whether this is another job than `new`, for the same commit."""
        # A job writes once in each attempt of a run, so a comment of the same attempt
        # is of another job of its matrix.
        is_same_attempt = (self.run_id, self.attempt) == (new.run_id, new.attempt)
        is_other = self.job != new.job or is_same_attempt
        return self.commit == new.commit and is_other


def writer_of(body: str) -> CommentWriter | None:
    """The job whose marker `body` begins with; None if it begins with none."""
    match = _MARKER.match(body.replace("\r\n", "\n"))
    if match is None:
        return None
    commit, job, run_id, attempt = match.groups()
    return CommentWriter(commit, job, int(run_id), int(attempt))
