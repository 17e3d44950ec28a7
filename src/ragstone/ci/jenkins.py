"""Jenkins: jobs of multibranch pipelines."""

from __future__ import annotations

from ragstone.ci.platform import CiJob, Platform, Variables

_NAME = "Jenkins"


def _job(variables: Variables) -> CiJob | None:
    if not variables.get("JENKINS_URL"):
        return None
    request = variables.get("CHANGE_ID") or None
    branch = variables.get("BRANCH_NAME") or variables.get("GIT_LOCAL_BRANCH") or None
    return CiJob(
        _NAME,
        branch=branch if request is None and not variables.get("TAG_NAME") else None,
        request=request,
        default_branch=branch if variables.get("BRANCH_IS_PRIMARY") == "true" else None,
    )


JENKINS = Platform(_NAME, _job)
