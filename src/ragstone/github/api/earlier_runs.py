"""The run that a pull request had before this one of the same files, read from the
artifact that it left.

Whoever may push to a pull request may change its workflow too, which then uploads what
it likes. So only a run of a commit counts whose files are those of this one's, as
GitHub has it: its workflow was the same, and whatever could plant answers there can do
so here as well. A fork's runs never count, nor those of other workflows and events.
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

MAX_RUNS = 10
"""Of more runs of the same files, the artifacts of the newest are looked for."""
MAX_READ = 4
"""Number of artifacts that are read at most. One has the answers of those before it,
too."""
_EVENT = "pull_request"


def find_earlier_run(
    api: GitHubApi,
    own_run: int,
    artifact_name: str,
    tree: str,
    folder: Path,
    say: Write,
) -> RunDirectory | None:
    """The newest artifact of a run for the pull request of run `own_run` with the same
    files, as a run below `folder`.

    `tree` is Git's name for the files that are checked out: a merge with the base. What
    is left out is said, and why.
    """
    try:
        artifacts: list[Artifact] = []
        for run in _same_runs(api, own_run):
            artifacts.extend(artifacts_of(api, run.id, artifact_name))
        artifacts.sort(key=lambda artifact: artifact.id, reverse=True)
        for artifact in artifacts[:MAX_READ]:
            try:
                return _read(api, artifact, tree, folder / str(artifact.id))
            except (ArchiveRefused, RunDirectoryError) as why:
                say(f"An earlier run, artifact {artifact.id}, is not counted: {why}\n")
    except GitHubApiError as api_error:
        say(f"Earlier runs of this pull request can't be read: {api_error}\n")
    return None


@reply_errors()
def _same_runs(api: GitHubApi, own_run: int) -> list[WorkflowRun]:
    """The finished runs for the pull request of run `own_run` whose commit has the same
    files, the newest first.

    The first is run `own_run` itself, if it was tried before. The server's filters are
    verified.
    """
    own = api.workflow_run(own_run)
    identity = _identity(own)
    is_fork = getattr(own.head_repository, "id", None) != own.repository.id
    if is_fork or None in identity or not own.head_branch or own.event != _EVENT:
        return []
    listed = newest_runs(api, own.workflow_id, _EVENT, own.head_branch)
    same = [
        run
        for run in listed
        if run.id != own.id and run.status == "completed" and _identity(run) == identity
    ]
    same.sort(key=lambda run: (run.created_at, run.id), reverse=True)
    tried_before = [own] if own.run_attempt > 1 else []
    return tried_before + same[:MAX_RUNS]


def _identity(run: WorkflowRun) -> tuple[object, ...]:
    """Its event, workflow, branch, repositories, and files."""
    return (
        run.event,
        run.workflow_id,
        run.head_branch,
        getattr(run.head_repository, "id", None),
        run.repository.id,
        getattr(run.head_commit, "tree_id", None),
    )


def _read(api: GitHubApi, artifact: Artifact, tree: str, folder: Path) -> RunDirectory:
    """The run in `artifact`, with scores that follow from its judgements.

    Raises ArchiveRefused, RunDirectoryError, GitHubApiError.
    """
    run = unpack_run(read_artifact(api, artifact, RUN_LIMITS), folder)
    invocation = run.manifest.invocation
    if invocation is None or invocation.tree != tree:
        raise ArchiveRefused("it is of other files")
    confirm(run)
    if not is_complete(run):
        raise ArchiveRefused("it lacks answers, or their scores")
    return run
