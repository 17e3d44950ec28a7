"""Buildkite: jobs of pipelines."""

from __future__ import annotations

from ragstone.ci.platform import CiJob, Platform, Variables

_NAME = "Buildkite"


def _job(variables: Variables) -> CiJob | None:
    if variables.get("BUILDKITE") != "true":
        return None
    request = variables.get("BUILDKITE_PULL_REQUEST")
    request = "" if request == "false" else request
    builds_branch = not request and not variables.get("BUILDKITE_TAG")
    return CiJob(
        _NAME,
        branch=(variables.get("BUILDKITE_BRANCH") or None) if builds_branch else None,
        request=request or None,
        default_branch=variables.get("BUILDKITE_PIPELINE_DEFAULT_BRANCH") or None,
    )


BUILDKITE = Platform(_NAME, _job, secrets=("BUILDKITE_AGENT_ACCESS_TOKEN",))
