"""What a run is compared with: the newest good run, the base commit, or the run that
the workflow names."""

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
from ragstone.github.plan import BaselineSource
from ragstone.pipeline.baseline import open_baseline
from ragstone.pipeline.baseline_search import Comparison, open_baseline_in
from ragstone.settings.settings import Settings

_NO_BASE_COMMIT = "This run has no base commit, so it is compared with the newest good run, as with `artifact`."
_OWN_SETTINGS = ("gate.baseline", "gate.baseline_commit", "gate.baseline_entrypoint")
"""Settings with which a config file could choose what it is compared with."""


def refuse_own_baseline(job: Job) -> None:
    """A pull request's own config file must not choose the baseline, nor an input one
    that nobody reviews.

    Raises ConfigError.
    """
    gate, from_file = job.settings.gate, job.settings.from_file
    chosen = [key for key in _OWN_SETTINGS if key in from_file]
    if gate.baseline_folder is not None:
        chosen.append("gate.baseline_folder")
    if gate.baseline_commit is not None:
        chosen.append("gate.baseline_commit")
    if chosen:
        raise ConfigError(
            "on GitHub the workflow chooses the baseline, not a setting.",
            where=chosen[0],
            hint="Remove it, and set the input `baseline` (--baseline artifact, commit or none with --github).",
        )
    check_baseline_branch(job)


def check_baseline_branch(job: Job) -> None:
    """Raise ConfigError if an input names a branch whose runs nobody needs to have
    reviewed."""
    branch = job.inputs.baseline_branch
    unreviewed = None if branch is None else why_unreviewed(job.api, job.event, branch)
    if unreviewed is not None:
        raise ConfigError(
            f"'{branch}' {unreviewed}, so its runs can't be baselines.",
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
    """The baseline to compare with, or none and a note with the reason. Raises
    BaselineError.

    With a `base_commit`, the run is compared with that, and the baseline only gives
    judgements and lineage.
    """
    if job.plan.baseline is BaselineSource.PATH:
        return Comparison(_baseline_at(settings, job.temporary / "baseline"))
    if job.plan.baseline is BaselineSource.NONE:
        return Comparison()
    if job.api is None:
        notes.append("No baseline: there is no GitHub token to find earlier runs.")
        return Comparison()
    event, inputs = job.event, job.inputs
    run_id, workflow = event.run_id, event.workflow
    if event.upstream is not None:
        run_id, workflow = event.upstream.run_id, None
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
        return replace(comparison, unproven=None)
    return comparison


def _baseline_at(settings: Settings, target: Path) -> RunDirectory:
    """The baseline in the folder named by the workflow, copied out of reach of user
    code, with recomputed scores."""
    named = str(settings.gate.baseline)
    try:
        source = settings.path(named)
        unpack_run(read_members(source, settings.within, RUN_LIMITS), target)
        return confirm(open_baseline(target))
    except (OSError, RunDirectoryError) as error:
        raise BaselineError(
            f"the baseline can't be used: {error}",
            where=named,
            hint="Use a directory in the workspace that was written by `ragstone run` or `ragstone gate`.",
        ) from None
