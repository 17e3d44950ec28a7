"""The result of a gate that a change does not affect: it passes without a run, with the branch's last verdict."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.app.baseline_search import TrustedBaseline, find_baseline, history_from
from ragstone.archive import ArchiveRefused
from ragstone.job.job import Job
from ragstone.job.plan import BaselineSource
from ragstone.report.escape import markdown_inline, markdown_link
from ragstone.run.archive_members import manifest_of


@dataclass(frozen=True, slots=True)
class LastVerdict:
    """The verdict of the newest run of the branch. `day` is in ISO format."""

    verdict: str
    commit: str | None
    day: str
    url: str | None = None

    def sentence(self, branch: str) -> str:
        """``Last on main: fail (commit 0123456, 2026-11-22).``"""
        commit = f"commit {self.commit[:7]}, " if self.commit else ""
        return f"Last on {branch}: {self.verdict} ({commit}{self.day})."


@dataclass(frozen=True, slots=True)
class NotAffected:
    """`why` is one sentence; `last` is None if the branch has no run that could be read."""

    gate: str
    file: str
    branch: str
    last: LastVerdict | None

    @property
    def why(self) -> str:
        return f"This change touches none of the paths of '{self.gate}' in {self.file}, so it was not evaluated."

    @property
    def carried(self) -> str:
        return self.last.sentence(self.branch) if self.last is not None else f"No earlier run on {self.branch}."

    def markdown(self) -> str:
        link = f" {markdown_link('run', self.last.url)}" if self.last is not None and self.last.url else ""
        return f"## ➖ Ragstone: not affected\n\n{markdown_inline(self.why)}\n\n{markdown_inline(self.carried)}{link}\n"


def not_affected(job: Job) -> NotAffected:
    """The result of this job, whose gate the change does not affect. Never raises GitHubApiError."""
    gates, branch, api = job.gates, job.plan.baseline_branch, job.api
    assert gates is not None  # noqa: S101 - for the type checker
    last = None
    if api is not None and job.plan.baseline is not BaselineSource.NONE:
        found = find_baseline(job.baseline_store(api, branch))
        last = _from_history(job, found.history)
        if last is None and isinstance(found, TrustedBaseline):
            last = _from_baseline(found)
    return NotAffected(gates.own, gates.file, branch or "the default branch", last)


def _from_history(job: Job, body: bytes | None) -> LastVerdict | None:
    runs = history_from(body)[0].runs
    if not runs:
        return None
    newest = runs[-1]
    url = None if newest.github_run is None else job.event.url_of(newest.github_run)
    return LastVerdict(newest.verdict, newest.commit, newest.time.date().isoformat(), url)


def _from_baseline(baseline: TrustedBaseline) -> LastVerdict | None:
    try:
        verdict = manifest_of(baseline.files).verdict
    except ArchiveRefused:
        return None
    return LastVerdict(verdict or "unknown", baseline.sha, baseline.created_at[:10], baseline.url)
