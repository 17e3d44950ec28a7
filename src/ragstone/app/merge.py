"""Merge the shards of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ragstone.config.load import OPTIONS
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.rounds.context import RunContext
from ragstone.rounds.project_metrics import ProjectMetrics
from ragstone.run.lock import run_lock
from ragstone.run.manifest import Invocation, Manifest
from ragstone.run.merge import Merged, find_runs, merge_runs


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards to merge: run directories, or folders of them. `allow_missing`: those that lack count as failures."""

    paths: tuple[Path, ...]
    allow_missing: bool = False


def merge(
    shards: Shards,
    out: Path,
    project: ProjectMetrics,
    context: RunContext,
    *,
    invocation: Invocation,
    golden: GoldenSet | None = None,
    policy_hash: str | None = None,
) -> Merged:
    """Write the run that `shards` are parts of to `out`; `project` has the metrics that were scored.

    `golden` is the golden set that their samples must be from, `policy_hash` the policy that they must have had, if
    any. `invocation` says how merging was started. Raises RunDirectoryError that names the shard, and ConfigError if
    the run directory is one of them.
    """
    paths = find_runs(shards.paths)
    for path in paths:
        _refuse_overlap(path, out)

    def finished(manifest: Manifest) -> Manifest:
        if policy_hash is not None and manifest.policy_hash not in (None, policy_hash):
            raise ConfigError(
                "the policy here is not the one that the shards were evaluated with.",
                where=str(paths[0]),
                hint="Merge them with the same thresholds file, and evaluate them again if it was changed.",
            )
        commit = manifest.system.commit
        if not context.trusts_checkout and commit != project.system.commit:
            raise ConfigError(
                "the shards are of another commit than this job's.",
                where=str(paths[0]),
                hint="Evaluate and merge them in one workflow run.",
            )
        return manifest.model_copy(
            update={
                "invocation": _invocation(manifest.invocation, invocation),
                "policy_hash": policy_hash or manifest.policy_hash,
            }
        )

    with run_lock(out):
        return merge_runs(
            paths,
            out,
            golden=golden,
            custom=project.own(),
            allow_missing=shards.allow_missing,
            redact=context.redact,
            finished=finished,
        )


def _refuse_overlap(path: Path, out: Path) -> None:
    shard, ours = Path(os.path.realpath(path)), Path(os.path.realpath(out))
    if shard.is_relative_to(ours) or ours.is_relative_to(shard):
        raise ConfigError(
            f"the run directory ({out}) and the shard {path} must not contain each other.",
            hint="Use a separate directory for --out.",
        )


def _invocation(evaluated: Invocation | None, merging: Invocation) -> Invocation:
    """How the whole run is started on one machine: as the shards were, but with the settings of the decision."""
    if evaluated is None:
        return merging
    options = {key: value for key, value in evaluated.options.items() if key != "run.out"} | merging.options
    return evaluated.model_copy(
        update={
            "command": merging.command,
            "options": {option.key: options[option.key] for option in OPTIONS if option.key in options},
            "secrets": evaluated.secrets or merging.secrets,
        }
    )
