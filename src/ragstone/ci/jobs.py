"""What the variables of a CI system say about the job that this process runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CiJob:
    """A job of `system`.

    `branch` is the branch that it builds; None for a merge request or a tag. `request` is the number of the merge or
    pull request. `default_branch` is the repository's, where the system says it.
    """

    system: str
    branch: str | None = None
    request: str | None = None
    default_branch: str | None = None


def job_of(environ: Mapping[str, str]) -> CiJob | None:
    """The job that `environ` belongs to; None outside of the systems known here."""
    return next((found for read in _READERS if (found := read(environ)) is not None), None)


def _gitlab(env: Mapping[str, str]) -> CiJob | None:
    if env.get("GITLAB_CI") != "true":
        return None
    return CiJob(
        "GitLab CI",
        branch=_given(env, "CI_COMMIT_BRANCH"),  # not set for merge requests and tags
        request=_given(env, "CI_MERGE_REQUEST_IID"),
        default_branch=_given(env, "CI_DEFAULT_BRANCH"),
    )


def _azure(env: Mapping[str, str]) -> CiJob | None:
    if env.get("TF_BUILD", "").lower() != "true":
        return None
    request = _given(env, "SYSTEM_PULLREQUEST_PULLREQUESTID")
    ref = env.get("BUILD_SOURCEBRANCH", "")
    return CiJob(
        "Azure Pipelines",
        branch=_branch(ref) if request is None and env.get("BUILD_REASON") != "PullRequest" else None,
        request=request,
    )


def _jenkins(env: Mapping[str, str]) -> CiJob | None:
    if not env.get("JENKINS_URL"):
        return None
    request = _given(env, "CHANGE_ID")
    branch = _given(env, "BRANCH_NAME") or _given(env, "GIT_LOCAL_BRANCH")
    tag = _given(env, "TAG_NAME")
    return CiJob(
        "Jenkins",
        branch=branch if request is None and tag is None else None,
        request=request,
        default_branch=branch if env.get("BRANCH_IS_PRIMARY") == "true" else None,
    )


def _buildkite(env: Mapping[str, str]) -> CiJob | None:
    if env.get("BUILDKITE") != "true":
        return None
    request = _given(env, "BUILDKITE_PULL_REQUEST")
    request = None if request == "false" else request
    tag = _given(env, "BUILDKITE_TAG")
    return CiJob(
        "Buildkite",
        branch=_given(env, "BUILDKITE_BRANCH") if request is None and tag is None else None,
        request=request,
        default_branch=_given(env, "BUILDKITE_PIPELINE_DEFAULT_BRANCH"),
    )


def _circle(env: Mapping[str, str]) -> CiJob | None:
    if env.get("CIRCLECI") != "true":
        return None
    branch = _given(env, "CIRCLE_BRANCH")
    request = _given(env, "CIRCLE_PR_NUMBER")  # of a fork
    if request is None and branch is not None and branch.startswith("pull/"):
        request = branch.split("/")[1]
    return CiJob(
        "CircleCI",
        branch=branch if request is None else None,  # not set for tags
        request=request,
    )


_READERS: tuple[Callable[[Mapping[str, str]], CiJob | None], ...] = (_gitlab, _azure, _jenkins, _buildkite, _circle)


def _given(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None


def _branch(ref: str) -> str | None:
    return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None
