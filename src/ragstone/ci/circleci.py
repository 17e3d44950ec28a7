"""CircleCI: jobs of workflows."""

from __future__ import annotations

from ragstone.ci.platform import CiJob, Platform, Variables

_NAME = "CircleCI"


def _job(variables: Variables) -> CiJob | None:
    if variables.get("CIRCLECI") != "true":
        return None
    branch = variables.get("CIRCLE_BRANCH")  # not set for tags
    request = variables.get("CIRCLE_PR_NUMBER")  # of a fork
    if not request and branch.startswith("pull/"):
        request = branch.split("/")[1]
    return CiJob(_NAME, branch=branch or None if not request else None, request=request or None)


CIRCLECI = Platform(_NAME, _job, secrets=("CIRCLE_OIDC_TOKEN", "CIRCLE_OIDC_TOKEN_V2"))
