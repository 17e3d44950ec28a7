"""The base commit of a job, ready to be asked beside the change: its files from GitHub,
its environment, its system."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from ragstone.archive import ArchiveRefused
from ragstone.errors import ConfigError, GitHubError, SystemUnderTestError
from ragstone.evaluation.lineage import lineage
from ragstone.evaluation.rounds.base_commit import BaseSystem
from ragstone.github.api.base_tree import (
    add_left_out,
    compared_commit,
    download_tree,
)
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.commands import Write
from ragstone.github.container.user_environment import Installed
from ragstone.github.job import Job
from ragstone.github.plan import BaselineSource
from ragstone.github.trusted_config import TrustedSettings
from ragstone.pipeline.base_checkout import (
    accepted_at,
    base_settings,
    commit_fingerprint,
)
from ragstone.pipeline.gate import GateRequest
from ragstone.pipeline.known_secrets import known_secrets

CHECKOUT = "checkout"
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(\S.*?)\s*$", re.MULTILINE)


def find_base_commit(job: Job) -> str | None:
    """The commit to ask beside the change, None if there is none: see
    `compared_commit`.

    Raises ConfigError, GitHubError.
    """
    if job.plan.baseline is not BaselineSource.COMMIT:
        return None
    if job.container is not None and job.container.base is None:
        raise ConfigError(
            "in the action, only an input asks for the base commit.",
            where="RAGSTONE_BASELINE",
            hint="Set the input `baseline: commit`.",
        )
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
    try:
        download_tree(job.api, commit, checkout)
        notes = add_left_out(job.api, commit, checkout)
    except (GitHubApiError, ArchiveRefused) as error:
        raise _not_downloaded(str(error)) from None
    workspace = job.places.workspace.resolve()
    refuse_submodules(checkout, workspace, commit)
    root = checkout / settings.root.resolve().relative_to(workspace)
    root.mkdir(parents=True, exist_ok=True)
    apart = container is not None
    system = base_settings(settings, root, above=workspace, own_environment=apart)
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
        not_from=workspace,
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
        notes=notes,
    )


def refuse_submodules(checkout: Path, workspace: Path, commit: str) -> None:
    """Raise ConfigError for submodules that are in use, which GitHub's archive of the
    commit lacks."""
    modules, text = checkout / ".gitmodules", ""
    if modules.is_file():
        text = modules.read_text(encoding="utf-8", errors="replace")
    for path in _SUBMODULE.findall(text):
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
