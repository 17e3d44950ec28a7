"""Which branch or merge request a job is for, by the variables of its CI system."""

from __future__ import annotations

import pytest

from ragstone.ci.platform import CiJob
from ragstone.ci.platforms import job_of

GITLAB = {"GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "trunk"}
AZURE = {"TF_BUILD": "True"}
JENKINS = {"JENKINS_URL": "https://ci/"}
BUILDKITE = {"BUILDKITE": "true", "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main"}
CIRCLE = {"CIRCLECI": "true"}


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, None),
        ({"CI": "true"}, None),
        ({**GITLAB, "CI_COMMIT_BRANCH": "trunk"}, CiJob("GitLab CI", "trunk", None, "trunk")),
        ({**GITLAB, "CI_MERGE_REQUEST_IID": "5"}, CiJob("GitLab CI", None, "5", "trunk")),
        ({**GITLAB, "CI_COMMIT_TAG": "trunk"}, CiJob("GitLab CI", None, None, "trunk")),
        ({**AZURE, "BUILD_SOURCEBRANCH": "refs/heads/a/b"}, CiJob("Azure Pipelines", "a/b")),
        ({**AZURE, "BUILD_SOURCEBRANCH": "refs/tags/main"}, CiJob("Azure Pipelines")),
        (
            {**AZURE, "BUILD_SOURCEBRANCH": "refs/pull/5/merge", "SYSTEM_PULLREQUEST_PULLREQUESTID": "5"},
            CiJob("Azure Pipelines", None, "5"),
        ),
        (
            {**JENKINS, "BRANCH_NAME": "main", "BRANCH_IS_PRIMARY": "true"},
            CiJob("Jenkins", "main", None, "main"),
        ),
        ({**JENKINS, "BRANCH_NAME": "PR-5", "CHANGE_ID": "5"}, CiJob("Jenkins", None, "5")),
        ({**JENKINS, "BRANCH_NAME": "main", "TAG_NAME": "main"}, CiJob("Jenkins")),
        (
            {**BUILDKITE, "BUILDKITE_BRANCH": "main", "BUILDKITE_PULL_REQUEST": "false"},
            CiJob("Buildkite", "main", None, "main"),
        ),
        # The branch of a fork can have any name.
        (
            {**BUILDKITE, "BUILDKITE_BRANCH": "main", "BUILDKITE_PULL_REQUEST": "5"},
            CiJob("Buildkite", None, "5", "main"),
        ),
        ({**BUILDKITE, "BUILDKITE_BRANCH": "main", "BUILDKITE_TAG": "v1"}, CiJob("Buildkite", None, None, "main")),
        ({**CIRCLE, "CIRCLE_BRANCH": "main"}, CiJob("CircleCI", "main")),
        ({**CIRCLE, "CIRCLE_BRANCH": "pull/5"}, CiJob("CircleCI", None, "5")),
        ({**CIRCLE, "CIRCLE_BRANCH": "main", "CIRCLE_PR_NUMBER": "5"}, CiJob("CircleCI", None, "5")),
        ({**CIRCLE, "CIRCLE_TAG": "v1"}, CiJob("CircleCI")),
    ],
)
def test_the_job_of_an_environment(environ: dict[str, str], job: CiJob | None) -> None:
    assert job_of(environ) == job
