"""The trusted baseline: the newest run of this workflow, on the baseline's branch, whose gate passed.

Only runs that nobody outside of the repository can bring about are looked at. A fork shares its parent's list of runs
and artifacts, and may call its branch as it likes; so a run is known by workflow, event, branch and head repository,
and an artifact by the run it belongs to, never by its name alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from ragstone.errors import RunDirectoryError
from ragstone.github.archive import ArchiveRefused
from ragstone.github.artifacts import newest_artifact, read_artifact
from ragstone.github.client import GitHubApi, Reply, Trouble, TroubleKind
from ragstone.metrics.registry import METRICS
from ragstone.metrics.score import Score, Scored
from ragstone.run.directory import CACHE, MANIFEST, SAMPLES, RunDirectory
from ragstone.run.manifest import Manifest
from ragstone.run.scoring import score_response

TRUSTED_EVENTS = ("push", "schedule", "workflow_dispatch", "merge_group")
"""Events that only those with write access bring about, and that run the branch's own code."""

MAX_RUNS = 50
MAX_DOWNLOADS = 10
_TOLERANCE = 1e-9


class _Owner(Reply):
    id: int


class WorkflowRun(Reply):
    """A run as GitHub lists it."""

    id: int
    workflow_id: int
    event: str
    status: str | None = None
    head_branch: str | None = None
    head_sha: str
    created_at: str
    html_url: str = ""
    repository: _Owner
    head_repository: _Owner | None = None


class _Repository(Reply):
    id: int
    default_branch: str


class _Comparison(Reply):
    status: str


@dataclass(frozen=True, slots=True)
class TrustedBaseline:
    """A run directory from a run that may be believed. `files` holds its members by name."""

    run_id: int
    url: str
    sha: str
    branch: str
    created_at: str
    files: Mapping[str, bytes] = field(repr=False)

    def materialise(self, directory: Path) -> RunDirectory:
        """As `open_members`."""
        return open_members(self.files, directory)


@dataclass(frozen=True, slots=True)
class NoBaseline:
    """There is nothing to compare with; `reason` is one sentence. Never a regression."""

    reason: str


def find_baseline(
    api: GitHubApi, *, run_id: int, workflow: str | None, branch: str | None, artifact_name: str
) -> TrustedBaseline | NoBaseline:
    """Look for the baseline of this job's workflow on `branch` (None: the default branch). Never raises Trouble."""
    try:
        repository = api.get(_Repository, api.base)
        branch = branch or repository.default_branch
        workflow_id = _workflow_id(api, run_id, workflow)
        return _newest_passing(api, repository.id, workflow_id, branch, artifact_name, run_id)
    except Trouble as trouble:
        if trouble.kind is TroubleKind.REFUSED:
            return NoBaseline(
                "GitHub does not let this job read earlier runs: give it `permissions: actions: read` "
                f"(and `contents: read`). {trouble}"
            )
        return NoBaseline(f"GitHub could not be asked for earlier runs ({trouble}).")


def open_members(files: Mapping[str, bytes], directory: Path) -> RunDirectory:
    """Write the members into `directory` (new, ours alone) and open it as a run, every score checked by replaying it.

    Raises RunDirectoryError when it is not a run that this version can read and confirm.
    """
    directory.mkdir(mode=0o700, parents=True)
    for name in (MANIFEST, SAMPLES, CACHE):
        if name in files:
            # Our own names under our own directory: the archive has no say in where anything goes.
            descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(files[name])
    run = RunDirectory.open(directory)
    run.scores()
    confirm_scores(run)
    return run


def confirm_scores(run: RunDirectory) -> None:
    """Replay every recorded judgement through today's metrics and hold the recorded scores against the result.

    Metrics of another version are left alone (the gate does not compare them). Raises RunDirectoryError for a score
    that its own judgements do not give.
    """
    versions = run.manifest.metrics
    metrics = [metric for name, metric in METRICS.items() if versions.get(name) == metric.info.version]
    for record in run.records():
        replayed, _ = score_response(metrics, record.sample, record.response, record.judgements)
        for name, score in replayed.items():
            if name in record.scores and not _same(record.scores[name], score):
                raise RunDirectoryError(
                    f"sample '{record.sample.id}': {name} does not follow from the recorded judgements.",
                    where=str(run.path / SAMPLES),
                    mend="The file was changed after the run; run the evaluation again.",
                )


def _same(recorded: Score, replayed: Score) -> bool:
    if isinstance(recorded, Scored) and isinstance(replayed, Scored):
        return abs(recorded.value - replayed.value) <= _TOLERANCE
    return type(recorded) is type(replayed)


def _workflow_id(api: GitHubApi, run_id: int, workflow: str | None) -> int | str:
    """This job's workflow, by what GitHub says of this very run; by its file where the run can't be read."""
    try:
        return api.get(WorkflowRun, f"{api.base}/actions/runs/{run_id}").workflow_id
    except Trouble as trouble:
        if workflow is None or trouble.kind is TroubleKind.REFUSED:
            raise
        return workflow


def _newest_passing(
    api: GitHubApi, repository_id: int, workflow_id: int | str, branch: str, artifact_name: str, own_run: int
) -> TrustedBaseline | NoBaseline:
    refusals: list[str] = []
    downloads = 0
    seen = 0
    for run in _candidates(api, repository_id, workflow_id, branch, own_run):
        seen += 1
        artifact = newest_artifact(api, run.id, artifact_name)
        if artifact is None:
            continue
        if downloads == MAX_DOWNLOADS:
            break
        downloads += 1
        try:
            files = read_artifact(api, artifact)
        except ArchiveRefused as refused:
            refusals.append(f"run {run.id} was left out: {refused.reason}")
            continue
        if _passed(files):
            return TrustedBaseline(run.id, run.html_url, run.head_sha, branch, run.created_at, files)
    if not seen:
        return NoBaseline(f"First run: no finished run of this workflow on '{branch}' yet.")
    if not downloads:
        return NoBaseline(f"No run of this workflow on '{branch}' has an artifact called '{artifact_name}'.")
    why = f" ({'; '.join(refusals[:3])})" if refusals else ""
    return NoBaseline(f"None of the last {downloads} runs on '{branch}' passed its gate{why}.")


def _candidates(
    api: GitHubApi, repository_id: int, workflow_id: int | str, branch: str, own_run: int
) -> Iterator[WorkflowRun]:
    """Runs that may be believed, newest first."""
    path = f"{api.base}/actions/workflows/{quote(str(workflow_id), safe='')}/runs"
    found: list[WorkflowRun] = []
    # Asked for event by event: pull requests and forks can't push the wanted runs out of the listing.
    for event in TRUSTED_EVENTS:
        wanted: dict[str, str | int] = {"event": event, "status": "completed", "exclude_pull_requests": "true"}
        if event != "merge_group":
            wanted["branch"] = branch
        runs = api.pages(WorkflowRun, path, wanted, key="workflow_runs", max_pages=1)
        found += [run for run in runs if is_trusted(run, repository_id, workflow_id, branch, event, own_run)]
    newest = sorted(found, key=lambda run: (run.created_at, run.id), reverse=True)
    for run in newest[:MAX_RUNS]:
        if run.event != "merge_group" or _was_merged(api, run, branch):
            yield run


def is_trusted(
    run: WorkflowRun, repository_id: int, workflow_id: int | str, branch: str, event: str, own_run: int
) -> bool:
    """Whether `run` is one that only those with write access can bring about. What the server filtered is not taken
    on trust: every condition is checked again. A head repository that is gone (null) is not ours."""
    on_branch = (
        (run.head_branch or "").startswith(f"gh-readonly-queue/{branch}/")
        if event == "merge_group"
        else run.head_branch == branch
    )
    return (
        run.event == event
        and event in TRUSTED_EVENTS
        and run.status == "completed"
        and on_branch
        and run.repository.id == repository_id
        and run.head_repository is not None
        and run.head_repository.id == repository_id
        and (isinstance(workflow_id, str) or run.workflow_id == workflow_id)
        and run.id != own_run
    )


def _was_merged(api: GitHubApi, run: WorkflowRun, branch: str) -> bool:
    """A queued commit counts once the branch holds it: a queue can drop what it has tested."""
    try:
        path = f"{api.base}/compare/{quote(run.head_sha, safe='')}...{quote(branch, safe='')}"
        return api.get(_Comparison, path).status in ("ahead", "identical")
    except Trouble:
        return False


def _passed(files: Mapping[str, bytes]) -> bool:
    if MANIFEST not in files or SAMPLES not in files:
        return False
    try:
        manifest = Manifest.model_validate_json(files[MANIFEST])
    except ValidationError:
        return False
    return manifest.state == "finished" and manifest.verdict == "pass"
