"""Shards of a job's own workflow run: evaluated by jobs of a matrix, and merged from their artifacts by another job.

An artifact says from which run it is, but not which of its jobs wrote it. So the shards are read as data, like a run
from a fork: in memory, with limits, checked against GitHub's digest, and every score is recomputed from its judgements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.app.merge import Shards
from ragstone.archive import ArchiveRefused
from ragstone.ci.github.artifacts import artifacts_like, read_artifact
from ragstone.ci.github.client import GitHubApiError
from ragstone.config.settings import MAX_SHARDS, Settings
from ragstone.errors import ConfigError, GitHubError, RunDirectoryError
from ragstone.job.base_commit import CHOSEN_BASE
from ragstone.job.inputs import CommentMode
from ragstone.job.job import Job
from ragstone.job.plan import BaselineSource, IssueMode
from ragstone.judge.names import split_name
from ragstone.rounds.needs import MERGE, SHARD, refuse_conflicts
from ragstone.run.archive_members import SHARD_LIMITS, write_members
from ragstone.run.directory import MANIFEST, REJUDGED, SAMPLES, RunDirectory

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class ShardOutcome:
    """The result of a job that evaluates a shard. `run` is None if there was nothing to evaluate."""

    run: RunDirectory | None = None


def plan_shards(job: Job) -> None:
    """Keep a job that evaluates a shard from publishing more than its run. Raises ConfigError."""
    shard, merge = job.settings.run.shard, job.inputs.merge
    if shard is None and merge is None:
        if job.inputs.allow_missing:
            raise ConfigError("allow-missing needs merge.", where="input 'allow-missing'")
        return
    if shard is not None and merge is not None:
        raise ConfigError(
            "one job evaluates a shard, and another one merges them.",
            where="input 'merge'",
            hint="Set either `shard` or `merge`.",
        )
    if job.plan.baseline is BaselineSource.COMMIT:
        refuse_conflicts([CHOSEN_BASE, SHARD if shard is not None else replace(MERGE, name="merging shards")])
    if shard is not None:
        job.plan = replace(job.plan, comment=CommentMode.OFF, issue=IssueMode.OFF, pull_request=None)


def no_shards(pattern: str) -> ConfigError:
    return ConfigError(
        f"this workflow run has no artifact called '{pattern}'.",
        where="input 'merge'",
        hint="Upload the run directory of each shard under such a name, and let this job need those.",
    )


def fetch_shards(job: Job, write: Callable[[str], None]) -> Shards | None:
    """The shards in the artifacts of this workflow run that the input `merge` names, in a private folder.

    None if there are none. Raises ConfigError, RunDirectoryError for one that is not valid, and GitHubError.
    """
    pattern = job.inputs.merge or ""
    if job.api is None:
        raise ConfigError("merging needs a GitHub token, to read the shards.", where="input 'github-token'")
    try:
        found = artifacts_like(job.api, job.event.run_id, pattern)
        if not found:
            return None
        if len(found) > MAX_SHARDS:
            raise ConfigError(f"more than {MAX_SHARDS} artifacts are called '{pattern}'.", where="input 'merge'")
        folder = job.temporary / "shards"
        for artifact in found:
            name = artifact.name if _FOLDER.fullmatch(artifact.name) else f"artifact-{artifact.id}"
            try:
                _write(read_artifact(job.api, artifact, SHARD_LIMITS), folder / name)
            except ArchiveRefused as refused:
                if not job.inputs.allow_missing:
                    raise RunDirectoryError(
                        f"the shard can't be read: {refused.reason}.",
                        where=f"artifact '{artifact.name}'",
                        hint="Rerun the job that uploaded it.",
                    ) from None
                job.notes.append(f"The artifact '{artifact.name}' can't be read: {refused.reason}.")
    except GitHubApiError as api_error:
        raise GitHubError(
            f"the shards can't be read from this workflow run: {api_error}",
            hint="Give the job `permissions: actions: read`.",
        ) from None
    write(f"Shards: {', '.join(artifact.name for artifact in found)}\n")
    return Shards((folder,), job.inputs.allow_missing)


def _write(files: Mapping[str, bytes], directory: Path) -> None:
    write_members(files, directory)
    inner = {name: files[path] for name in (MANIFEST, SAMPLES) if (path := f"{REJUDGED}/{name}") in files}
    if inner:
        write_members(inner, directory / REJUDGED)


def judged_as_set(shards: Shards, settings: Settings) -> bool:
    """Whether the shards were judged by the judge in `settings`: then the jobs that evaluated them had its key."""
    provider, _ = split_name(settings.judge.name)
    for path in sorted(one for folder in shards.paths for one in folder.iterdir()):
        try:
            return RunDirectory.open(path).manifest.judge.provider == provider
        except RunDirectoryError:
            continue
    return False
