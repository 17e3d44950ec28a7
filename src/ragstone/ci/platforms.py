"""The CI platforms, and what follows from their declarations."""

from __future__ import annotations

from collections.abc import Mapping

from ragstone.ci.azure import AZURE
from ragstone.ci.buildkite import BUILDKITE
from ragstone.ci.circleci import CIRCLECI
from ragstone.ci.github.platform import GITHUB
from ragstone.ci.gitlab import GITLAB
from ragstone.ci.jenkins import JENKINS
from ragstone.ci.platform import CiJob, Platform

PLATFORMS: tuple[Platform, ...] = (GITLAB, AZURE, JENKINS, BUILDKITE, CIRCLECI, GITHUB)

SECRETS = tuple(name for platform in PLATFORMS for name in (*platform.secrets, *platform.user_secrets))
"""Variables whose values must not appear in anything that is written."""

WITHHELD = tuple(name for platform in PLATFORMS for name in (*platform.secrets, *platform.withheld))
"""Names and patterns of variables that the system under test never gets."""

BY_NAME = tuple(name for platform in PLATFORMS for name in (*platform.user_secrets, *platform.by_name))
"""Names and patterns of variables that the system under test gets only if they are named exactly."""


def platform_of(environ: Mapping[str, str]) -> tuple[Platform, CiJob] | None:
    """The platform that `environ` belongs to, and the job; None outside of the platforms known here."""
    for platform in PLATFORMS:
        job = platform.read_job(platform.variables(environ))
        if job is not None:
            return platform, job
    return None


def job_of(environ: Mapping[str, str]) -> CiJob | None:
    found = platform_of(environ)
    return found[1] if found is not None else None
