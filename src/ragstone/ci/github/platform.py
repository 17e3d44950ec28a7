"""GitHub Actions as a platform: what its variables say, and which of them are secret."""

from __future__ import annotations

import re

from ragstone.ci.platform import CiJob, Platform, Variables

TOKENS = ("RAGSTONE_GITHUB_TOKEN", "GITHUB_TOKEN")
"""Where the token is for a command in a `run:` step, the first that is set."""

HOSTS = (
    *("github.com", "api.github.com", "codeload.github.com", "*.actions.githubusercontent.com"),
    *("*.blob.core.windows.net", "ghcr.io", "pkg-containers.githubusercontent.com"),
)
"""What a job on github.com needs for its checkout, image, artifacts and comment."""

_NAME = "GitHub Actions"
_BRANCH_EVENTS = ("push", "schedule", "workflow_dispatch")
_REQUEST = re.compile(r"refs/pull/(\d+)/")


def _job(variables: Variables) -> CiJob | None:
    if variables.get("GITHUB_ACTIONS") != "true":
        return None
    ref = variables.get("GITHUB_REF")
    request = _REQUEST.match(ref)
    # For other events the ref may be a branch, although other code is checked out.
    builds_branch = variables.get("GITHUB_EVENT_NAME") in _BRANCH_EVENTS and ref.startswith("refs/heads/")
    return CiJob(
        _NAME,
        branch=ref.removeprefix("refs/heads/") if builds_branch else None,
        request=request[1] if request is not None else None,
    )


GITHUB = Platform(
    _NAME,
    _job,
    secrets=(
        *TOKENS,
        "INPUT_GITHUB-TOKEN",
        "INPUT_JUDGE-API-KEY",
        "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    ),
    user_secrets=("GH_TOKEN",),
    withheld=(
        "GITHUB_ENV",
        "GITHUB_OUTPUT",
        "GITHUB_PATH",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
        "INPUT_*",
        "ACTIONS_*",
    ),
    by_name=("GITHUB_*",),
)
