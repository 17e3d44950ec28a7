"""Finds what a run is compared with: the newest good run, the base commit, or the run
directory that the workflow names."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from ragstone.errors import BaselineError, ConfigError, RunDirectoryError
from ragstone.evaluation.archive_members import RUN_LIMITS, read_members, unpack_run
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.replay import confirm
from ragstone.github.api.commands import Write
from ragstone.github.api.reviewed import why_unreviewed
from ragstone.github.api.trusted_runs import GitHubArtifacts
from ragstone.github.job import Job
from ragstone.github.job_plan import BaselineSource
from ragstone.pipeline.baseline import open_baseline
from ragstone.pipeline.baseline_search import Comparison, open_baseline_in
from ragstone.settings.settings import Settings

_NO_BASE_COMMIT = "This run has no base commit, so it is compared with the newest good run, as with `artifact`."
# Settings with which a config file could choose what it is compared with.
_BASELINE_KEYS = ("gate.baseline", "gate.baseline_commit", "gate.baseline_entrypoint")


def refuse_own_baseline(job: Job) -> None:
    """Raise ConfigError if the config file of a pull request chooses the baseline, or
    an input names a branch that doesn't count as reviewed."""
    gate = job.settings.gate
    refused = [key for key in _BASELINE_KEYS if key in job.settings.from_file]
    # These are refused from any source: jobs on GitHub don't support them.
    if gate.baseline_folder is not None:
        refused.append("gate.baseline_folder")
    if gate.baseline_commit is not None:
        refused.append("gate.baseline_commit")
    if refused:
        raise ConfigError(
            "on GitHub the workflow chooses the baseline, not a setting.",
            where=refused[0],
            hint="Remove the setting, and set the input `baseline`; with `ragstone gate --github`, use --baseline "
            "artifact, commit or none.",
        )
    check_baseline_branch(job)


def check_baseline_branch(job: Job) -> None:
    """Raise ConfigError if the input `baseline-branch` names a branch that doesn't
    count as reviewed."""
    branch = job.inputs.baseline_branch
    reason = None if branch is None else why_unreviewed(job.api, job.event, branch)
    if reason is not None:
        raise ConfigError(
            f"'{branch}' {reason}, so its runs can't be baselines.",
            where="input 'baseline-branch'",
            hint="Name the default branch or a protected one, and give the job `permissions: contents: read`.",
        )


def find_comparison(
    job: Job,
    settings: Settings,
    base_commit: str | None,
    notes: list[str],
    write: Write,
) -> Comparison:
    """Find the baseline of a run. If there is none, the reason is added to `notes`.
    Raises BaselineError.

    A run with a `base_commit` is compared with that commit. The baseline then only
    provides its judgements, history and lineage.
    """
    if job.plan.baseline is BaselineSource.PATH:
        return Comparison(_baseline_at(settings, job.temporary / "baseline"))
    if job.plan.baseline is BaselineSource.NONE:
        return Comparison()
    if job.api is None:
        notes.append("No baseline: there is no GitHub token to find earlier runs.")
        return Comparison()
    event = job.event
    inputs = job.inputs
    run_id = event.run_id
    workflow = event.workflow
    if event.upstream is not None:
        # The workflow of the reported run, whose file the event doesn't name.
        run_id = event.upstream.run_id
        workflow = None
    store = GitHubArtifacts(
        job.api,
        run_id=run_id,
        workflow=workflow,
        branch=inputs.baseline_branch or job.base.branch,
        artifact_name=inputs.artifact_name,
        baseline_workflow=inputs.baseline_workflow,
    )
    comparison = open_baseline_in(store, job.temporary / "baseline")
    trusted = comparison.trusted
    if trusted is not None:
        commit = f"commit {trusted.sha[:12]}"
        write(f"Baseline: run {trusted.run_id} of '{trusted.branch}', {commit}.\n")
    elif base_commit is None:
        notes.append(comparison.reason)
    if base_commit is None and job.plan.baseline is BaselineSource.COMMIT:
        notes.append(_NO_BASE_COMMIT)
    notes += comparison.damage
    if base_commit is not None:
        # An unreadable baseline leaves nothing unproven: the base commit is asked.
        return replace(comparison, unproven=None)
    return comparison


def _baseline_at(settings: Settings, target: Path) -> RunDirectory:
    """Copy the baseline that the workflow names to `target`, which the user's code
    can't change, and check its scores. Raises BaselineError."""
    path = str(settings.gate.baseline)
    try:
        source = settings.path(path)
        unpack_run(read_members(source, settings.within, RUN_LIMITS), target)
        return confirm(open_baseline(target))
    except (OSError, RunDirectoryError) as error:
        raise BaselineError(
            f"the baseline can't be used: {error}",
            where=path,
            hint="Use a directory in the workspace that was written by `ragstone run` or `ragstone gate`.",
        ) from None
