"""The base commit of a job, ready to be asked beside the change: its files from GitHub,
its environment, its system."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ragstone.archive import ArchiveRefused
from ragstone.errors import ConfigError, GitHubError, SystemUnderTestError
from ragstone.evaluation.rounds.base_commit import BaseSystem
from ragstone.evaluation.rounds.session import RunPlan
from ragstone.github.api.base_tree import (
    add_left_out,
    compared_commit,
    download_tree,
    submodules,
)
from ragstone.github.api.client import GitHubApiError
from ragstone.github.job import Job
from ragstone.github.plan import BaselineSource
from ragstone.github.trusted_config import Trusted
from ragstone.pipeline.base_checkout import (
    accepted_at,
    base_settings,
    commit_fingerprint,
)
from ragstone.pipeline.gate import GateRequest
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.settings.settings import Settings
from ragstone.system.entrypoint import build_system
from ragstone.system.response import System

CHECKOUT = "checkout"


def find_base_commit(job: Job) -> str | None:
    """The commit to ask beside the change, None if there is none: see
    `compared_commit`.

    Raises ConfigError, GitHubError.
    """
    if job.plan.baseline is not BaselineSource.COMMIT:
        return None
    if job.api is None:
        raise GitHubError(
            "the base commit can't be downloaded: there is no GitHub token.",
            where="input 'baseline'",
            hint="Leave `github-token` as it is, and give the job `permissions: contents: read`.",
        )
    try:
        return compared_commit(job.api, job.base)
    except GitHubApiError as api_error:
        raise _not_downloaded(str(api_error)) from None


def prepare_base(
    job: Job,
    commit: str,
    trusted: Trusted[Settings],
    request: GateRequest,
    lineage: tuple[str, ...],
    write: Callable[[str], None],
) -> tuple[RunPlan, BaseSystem]:
    """The system at `commit`, installed and not yet started, and the plan of `request`
    with the time that is left.

    `lineage` are the fingerprints of the branch's baselines, for accepted drops. Raises
    GitHubError, ConfigError, SystemUnderTestError, TimeLimitReached.
    """
    container, settings, plan = job.container, trusted.value, request.run
    above = (
        job.temporary
        if container is None or container.base is None
        else container.base.folder
    )
    checkout = above / CHECKOUT
    assert job.api is not None  # noqa: S101 - for the type checker
    try:
        download_tree(job.api, commit, checkout)
        notes = add_left_out(job.api, commit, checkout)
    except (GitHubApiError, ArchiveRefused) as error:
        raise _not_downloaded(
            error.reason if isinstance(error, ArchiveRefused) else str(error)
        ) from None
    workspace = job.places.workspace.resolve()
    _refuse_submodules(checkout, workspace, commit)
    root = checkout / settings.root.resolve().relative_to(workspace)
    root.mkdir(parents=True, exist_ok=True)
    apart = container is not None and container.base is not None
    system = base_settings(settings, root, above=workspace, own_environment=apart)
    for secret in known_secrets(
        job.environ, settings.model_copy(update={"system": system})
    ):
        job.redact.add(secret)
    spent = accepted_at(request.policy, settings, root)
    log = job.temporary / "base-system.log"
    make: Callable[[], System] = partial(
        build_system,
        system,
        root=root,
        environ=job.environ,
        log=log,
        within=checkout,
        not_from=workspace,
    )
    if container is not None and apart:
        write(f"-- setting up commit {commit[:12]}, to compare with --\n")
        try:
            plan, system, make = container.prepare_base(
                plan, system, checkout, root=root, log=log, write=write
            )
        except (ConfigError, SystemUnderTestError) as error:
            message = f"the base, commit {commit[:12]}: {error.message}"
            raise type(error)(message, where=error.where, hint=error.hint) from None
    own = commit_fingerprint(commit)
    return plan, BaseSystem(
        commit, system, make, log=log, lineage=(*lineage, own), spent=spent, notes=notes
    )


def _refuse_submodules(checkout: Path, workspace: Path, commit: str) -> None:
    """Raise ConfigError for submodules that are in use, which GitHub's archive of the
    commit lacks."""
    for path in submodules(checkout):
        if _is_filled(workspace / path) and not _is_filled(checkout / path):
            raise ConfigError(
                f"commit {commit[:12]} has a submodule that this checkout uses ({path}), and GitHub's archive of a "
                "commit has none.",
                where="input 'baseline'",
                hint="Use `baseline: artifact`, or `ragstone gate --baseline-commit` in a `run:` step.",
            )


def _is_filled(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _not_downloaded(why: str) -> GitHubError:
    return GitHubError(
        f"the base commit can't be downloaded: {why}.",
        where="input 'baseline'",
        hint="Give the job `permissions: contents: read`, or use `baseline: artifact`.",
    )
