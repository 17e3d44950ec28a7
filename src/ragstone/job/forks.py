"""Reports the result of an untrusted run in a trusted job: its data is read, checked, decided on and rendered again.

Nothing in the run is trusted except its records: no verdict, no rendered text, no pull request number. The pull request
is found from the run's head commit, which comes from GitHub.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from ragstone.config import Settings
from ragstone.errors import RagstoneError
from ragstone.gate.accepted import accepted_in
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.github.archive import ArchiveRefused
from ragstone.github.artifacts import newest_artifact, read_artifact
from ragstone.github.client import ApiReply, GitHubApi, GitHubApiError
from ragstone.github.event import Event
from ragstone.github.trusted_runs import WorkflowRun
from ragstone.history.drift import Drift
from ragstone.job.annotations import Places
from ragstone.job.baseline import NoBaseline, TrustedBaseline, find_baseline, open_members
from ragstone.job.past_runs import history_from, tagged_commits
from ragstone.job.policy_changes import changes_by_a_fork
from ragstone.job.publish import Report
from ragstone.report.parts import Links
from ragstone.report.redact import Redactor
from ragstone.run.directory import CACHE, RunDirectory
from ragstone.run.replay import vouch
from ragstone.usecases.gate import baseline_scores, read_policy, view_of
from ragstone.usecases.history import Book, hold
from ragstone.usecases.run import read_golden_set

PREFACE = (
    "> [!NOTE]\n> These results come from the pull request's own run. Each score was checked against its recorded "
    "judgements, but nothing was run again here: review the answers before you rely on them.\n\n"
)

MAX_UNTRUSTED_BYTES = 64 * 1024 * 1024


class _Repository(ApiReply):
    id: int


class _Branch(ApiReply):
    ref: str
    sha: str
    repo: _Repository | None = None


class _Pull(ApiReply):
    number: int
    head: _Branch
    base: _Branch


@dataclass(frozen=True, slots=True)
class ForkReport:
    """What to post where. `number` None: nowhere, and `notices` say why."""

    report: Report
    number: int | None = None
    baseline_run_id: int | None = None
    notices: tuple[str, ...] = ()


def fork_report(
    api: GitHubApi,
    event: Event,
    settings: Settings,
    *,
    artifact_name: str,
    baseline_branch: str | None,
    with_baseline: bool,
    places: Places,
    temporary: Path,
    redact: Redactor,
    today: date,
) -> ForkReport:
    """Read the run that this workflow_run job follows, and decide on it with the policy of this checkout.

    Data missing from GitHub or the run results in a notice. Raises RagstoneError for errors in this checkout's config.
    """
    policy = read_policy(settings)
    golden = read_golden_set(settings)
    try:
        head, pull = _head_and_pull(api, event)
        run = _read_run(api, head, artifact_name, temporary / "untrusted")
        before, known = None, None
        if with_baseline:
            branch = baseline_branch or pull.base.ref
            known = find_baseline(api, run_id=head.id, workflow=None, branch=branch, artifact_name=artifact_name)
            before = known.materialise(temporary / "baseline") if isinstance(known, TrustedBaseline) else None
        # From this checkout, not the fork's: drops accepted by a fork don't count here.
        held = accepted_in(policy.accepted, before, today)
        vouched = vouch(run, golden)
        held_to = policy.with_accepted(held)
        history, damage = history_from(known.history if known is not None else None)
        book = Book(history, main=False, releases=tagged_commits(api, policy))
        drift = hold(book, run, vouched.scores, policy, held.entries) if known is not None else Drift()
        verdict = decide_gate(
            vouched.scores, baseline_scores(before), held_to, seed=settings.run.seed, drift=drift.checks
        )
    except _NothingToPost as nothing:
        return ForkReport(Report(), notices=(nothing.reason,))
    except GitHubApiError as api_error:
        return ForkReport(Report(), notices=(f"The run could not be read: {api_error}",))
    except ArchiveRefused as refused:
        return ForkReport(Report(), notices=(f"The run's artifact was refused: {refused.reason}.",))
    except RagstoneError as error:
        return ForkReport(Report(), notices=(f"The run's data was refused: {redact(error.message)}",))
    changes = changes_by_a_fork(
        api, head.head_sha, settings, policy, workspace=places.workspace, folder=temporary / "changes"
    )
    warnings = (*changes, *((known.reason,) if isinstance(known, NoBaseline) else ()))
    blob = f"{event.server_url}/{event.repository}/blob/{head.head_sha}"
    links = Links(
        origin=lambda origin: places.link(origin, blob),
        run=head.html_url,
        baseline=known.url if isinstance(known, TrustedBaseline) else None,
    )
    warnings = (*warnings, *held.warnings, *((damage,) if damage else ()), *drift.warnings)
    verdict = replace(verdict, warnings=(*warnings, *verdict.warnings), notes=(*verdict.notes, *drift.notes))
    verdict = _doubted(verdict, vouched.doubts, policy)
    view = redact.view(view_of(run, verdict, before, links, vouched.scores))
    baseline_id = known.run_id if isinstance(known, TrustedBaseline) else None
    return ForkReport(Report(view, preface=PREFACE), pull.number, baseline_id)


def _doubted(verdict: GateVerdict, doubts: tuple[str, ...], policy: Policy) -> GateVerdict:
    """Anything that can't be verified here has not passed."""
    verdict = replace(verdict, warnings=(*doubts, *verdict.warnings))
    if not doubts or verdict.status is not Status.PASS:
        return verdict
    blocks = policy.gate.inconclusive == "fail"
    reason = f"Unverified: parts of this run can't be verified. For the rest, {verdict.reason}"
    return replace(verdict, status=Status.INCONCLUSIVE, reason=reason, inconclusive_blocks=blocks)


class _NothingToPost(Exception):  # noqa: N818 - an outcome to report
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _head_and_pull(api: GitHubApi, event: Event) -> tuple[WorkflowRun, _Pull]:
    """The run, from the API, and the one open pull request with its head commit."""
    upstream = event.upstream
    if upstream is None:
        raise _NothingToPost("This job follows no run.")
    head = api.get(WorkflowRun, f"{api.base}/actions/runs/{upstream.run_id}")
    if head.event != "pull_request" or head.head_sha != upstream.head_sha:
        raise _NothingToPost("The run that this job follows is not for a pull request.")
    if upstream.head_owner is None or head.head_branch is None or head.head_repository is None:
        raise _NothingToPost("The head repository of the pull request no longer exists: nothing to post.")
    listing = {"state": "open", "head": f"{upstream.head_owner}:{head.head_branch}"}
    found = [
        pull
        for pull in api.pages(_Pull, f"{api.base}/pulls", listing, max_pages=3)
        if pull.head.sha == head.head_sha
        and pull.head.repo is not None
        and pull.head.repo.id == head.head_repository.id
        and pull.base.repo is not None
        and pull.base.repo.id == head.repository.id
    ]
    if not found:
        raise _NothingToPost("No open pull request has this commit as its head: nothing to post.")
    if len(found) > 1:
        raise _NothingToPost("Several open pull requests have this commit as their head: nothing to post.")
    return head, found[0]


def _read_run(api: GitHubApi, head: WorkflowRun, artifact_name: str, directory: Path) -> RunDirectory:
    """The run's records, with every score confirmed by its judgements."""
    artifact = newest_artifact(api, head.id, artifact_name)
    if artifact is None:
        raise _NothingToPost(f"Run {head.id} left no artifact called '{artifact_name}': nothing to post.")
    if artifact.size_in_bytes > MAX_UNTRUSTED_BYTES:
        raise ArchiveRefused(f"it is larger than {MAX_UNTRUSTED_BYTES:,} bytes")
    files = read_artifact(api, artifact)
    # A cache can't prove that its judgements are true: an untrusted one is never used.
    files.pop(CACHE, None)
    return open_members(files, directory)
