"""Finds an earlier run of a pull request with the same files, and reads it from its
artifact.

Who can push to a pull request can change its workflow too, and have it upload anything.
So an earlier run counts only if GitHub says that its commit has the same files as this
one's: then its workflow was the same, and who could forge its answers can forge this
run's as well. Runs of forks, of other workflows and for other events never count.
"""

from __future__ import annotations

from pathlib import Path

from github.Artifact import Artifact
from github.WorkflowRun import WorkflowRun

from ragstone.archive import ArchiveRefused
from ragstone.errors import RunDirectoryError
from ragstone.evaluation.archive_members import RUN_LIMITS, unpack_run
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.earlier import is_complete
from ragstone.evaluation.replay import confirm
from ragstone.github.api.artifacts import artifacts_of, read_artifact
from ragstone.github.api.client import GitHubApi, GitHubApiError, reply_errors
from ragstone.github.api.commands import Write
from ragstone.github.api.trusted_runs import newest_runs

MAX_SEARCHED_RUNS = 10
"""Runs whose artifacts are looked up at most, the newest first."""
MAX_READ_ARTIFACTS = 4
"""Few are enough: an artifact also has the answers of the runs before it."""
_EVENT = "pull_request"


def find_earlier_run(
    api: GitHubApi,
    run_id: int,
    artifact_name: str,
    *,
    tree: str,
    folder: Path,
    write: Write,
) -> RunDirectory | None:
    """Read the newest valid artifact of an earlier run with the same files as run
    `run_id`, which is for a pull request, into a subfolder of `folder`. Returns None if
    there is none.

    `tree` is the SHA of Git's tree that is checked out: a merge of the pull request
    with its base. Why an artifact is not used goes to `write`.
    """
    try:
        artifacts: list[Artifact] = []
        for run in _runs_of_same_files(api, run_id):
            artifacts.extend(artifacts_of(api, run.id, artifact_name))
        artifacts.sort(key=lambda artifact: artifact.id, reverse=True)
        for artifact in artifacts[:MAX_READ_ARTIFACTS]:
            try:
                return _read(api, artifact, tree, folder / str(artifact.id))
            except (ArchiveRefused, RunDirectoryError) as reason:
                write(
                    f"An earlier run, artifact {artifact.id}, is not used: {reason}\n"
                )
    except GitHubApiError as api_error:
        write(f"Earlier runs of this pull request can't be read: {api_error}\n")
    return None


@reply_errors()
def _runs_of_same_files(api: GitHubApi, run_id: int) -> list[WorkflowRun]:
    """The finished runs whose commits have the same files as that of run `run_id`, the
    newest first. If this is not its first attempt, run `run_id` itself comes first."""
    current = api.workflow_run(run_id)
    identity = _identity(current)
    is_fork = getattr(current.head_repository, "id", None) != current.repository.id
    is_for_pull = current.event == _EVENT and bool(current.head_branch)
    if is_fork or not is_for_pull or None in identity:
        return []
    runs = newest_runs(api, current.workflow_id, _EVENT, current.head_branch)
    # GitHub's filters are checked by `_identity`.
    same = [
        run
        for run in runs
        if run.id != current.id
        and run.status == "completed"
        and _identity(run) == identity
    ]
    same.sort(key=lambda run: (run.created_at, run.id), reverse=True)
    earlier_attempts = [current] if current.run_attempt > 1 else []
    return earlier_attempts + same[:MAX_SEARCHED_RUNS]


def _identity(run: WorkflowRun) -> tuple[object, ...]:
    """What two runs must have in common: event, workflow, branch, repositories and
    files."""
    return (
        run.event,
        run.workflow_id,
        run.head_branch,
        getattr(run.head_repository, "id", None),
        run.repository.id,
        getattr(run.head_commit, "tree_id", None),
    )


def _read(api: GitHubApi, artifact: Artifact, tree: str, folder: Path) -> RunDirectory:
    """Read the run in `artifact` into `folder`, and check that its scores follow from
    its judgements. Raises ArchiveRefused, RunDirectoryError and GitHubApiError."""
    run = unpack_run(read_artifact(api, artifact, RUN_LIMITS), folder)
    invocation = run.manifest.invocation
    if invocation is None or invocation.tree != tree:
        raise ArchiveRefused("it is a run of other files")
    confirm(run)
    if not is_complete(run):
        raise ArchiveRefused("it lacks answers, or their scores")
    return run
