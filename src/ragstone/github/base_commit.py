"""Prepares the base commit of a job, so that its system can be asked in the same job:
downloads its files, and sets up its environment and its system."""

from __future__ import annotations

from functools import partial

from ragstone.archive import ArchiveRefused
from ragstone.errors import ConfigError, GitHubError, SystemUnderTestError
from ragstone.evaluation.lineage import lineage
from ragstone.evaluation.rounds.base_commit import BaseSystem
from ragstone.github.api.base_tree import compared_commit, download_tree
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.commands import Write
from ragstone.github.container.user_environment import Installed
from ragstone.github.job import Job
from ragstone.github.job_plan import BaselineSource
from ragstone.github.trusted_config import TrustedSettings
from ragstone.pipeline.base_checkout import (
    accepted_at,
    base_settings,
    commit_fingerprint,
)
from ragstone.pipeline.gate import GateRequest
from ragstone.pipeline.known_secrets import known_secrets

CHECKOUT = "checkout"


def find_base_commit(job: Job) -> str | None:
    """The base commit to ask in this job (see `compared_commit`); None if there is
    none, or the job compares with something else. Raises ConfigError and
    GitHubError."""
    if job.plan.baseline is not BaselineSource.COMMIT:
        return None
    if job.container is not None and job.container.base is None:
        raise ConfigError(
            "in the action, only an input can choose the base commit.",
            where="RAGSTONE_BASELINE",
            hint="Unset the variable, and set the input `baseline: commit`.",
        )
    if job.api is None:
        raise _not_downloaded("there is no GitHub token")
    try:
        return compared_commit(job.api, job.base)
    except GitHubApiError as api_error:
        raise _not_downloaded(str(api_error)) from None


def prepare_base(
    job: Job,
    commit: str,
    settings: TrustedSettings,
    request: GateRequest,
    deadline: float | None,
    write: Write,
) -> BaseSystem:
    """The system at `commit`, installed by `deadline` of the monotonic clock, and not
    yet started.

    Raises GitHubError, ConfigError, SystemUnderTestError, TimeLimitReached.
    """
    container = job.container
    above = job.temporary
    if container is not None and container.base is not None:
        above = container.base.folder
    checkout = above / CHECKOUT
    assert job.api is not None  # noqa: S101 - for the type checker
    workspace = job.places.workspace.resolve()
    try:
        download_tree(job.api, commit, checkout, workspace)
    except (GitHubApiError, ArchiveRefused) as error:
        raise _not_downloaded(str(error)) from None
    root = checkout / settings.root.resolve().relative_to(workspace)
    root.mkdir(parents=True, exist_ok=True)
    apart = container is not None
    system = base_settings(
        settings, root, current_checkout=workspace, has_own_environment=apart
    )
    secrets_of = settings.model_copy(update={"system": system})
    for secret in known_secrets(job.environ, secrets_of):
        job.redact.add(secret)
    accepted_drops = accepted_at(request.policy, settings, root)
    installed = Installed(system, job.environ)
    if container is not None:
        write(f"-- setting up commit {commit[:12]}, to compare with --\n")
        try:
            installed = container.install(
                system, job.environ, deadline, write, base_checkout=checkout
            )
        except (ConfigError, SystemUnderTestError) as error:
            message = f"the base, commit {commit[:12]}: {error.message}"
            raise type(error)(message, where=error.where, hint=error.hint) from None
    log = job.temporary / "base-system.log"
    make = partial(
        installed.build,
        installed.settings,
        root=root,
        log=log,
        within=checkout,
        forbidden_imports=workspace,
    )
    # The fingerprints of the branch's baselines, for accepted drops.
    fingerprints = () if request.baseline is None else lineage(request.baseline)
    return BaseSystem(
        commit,
        installed.settings,
        make,
        log=log,
        lineage=(*fingerprints, commit_fingerprint(commit)),
        spent=accepted_drops,
    )


def _not_downloaded(why: str) -> GitHubError:
    return GitHubError(
        f"the base commit can't be downloaded: {why}.",
        where="input 'baseline'",
        hint="Give the job `permissions: contents: read`. If files are lacking, use `baseline: artifact`, "
        "or `ragstone gate --baseline-commit` in a `run:` step.",
    )
