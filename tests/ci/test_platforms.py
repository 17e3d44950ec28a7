"""Which branch or merge request a job is for, by the variables of its CI system."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.ci.gitlab import GITLAB as GITLAB_CI
from ragstone.ci.gitlab import GitLabArtifacts
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
        ({**GITLAB, "CI_COMMIT_BRANCH": "trunk"}, CiJob("GitLab CI", "trunk", None, "trunk", protected=False)),
        (
            {**GITLAB, "CI_COMMIT_BRANCH": "release", "CI_COMMIT_REF_PROTECTED": "true"},
            CiJob("GitLab CI", "release", None, "trunk", protected=True),
        ),
        ({**GITLAB, "CI_MERGE_REQUEST_IID": "5"}, CiJob("GitLab CI", None, "5", "trunk", protected=False)),
        ({**GITLAB, "CI_COMMIT_TAG": "trunk"}, CiJob("GitLab CI", None, None, "trunk", protected=False)),
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


@pytest.mark.parametrize(
    ("merge", "branch"),
    [
        ({}, "trunk"),
        ({"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "evil-base"}, "trunk"),
        (
            {
                "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "evil-base",
                "CI_MERGE_REQUEST_TARGET_BRANCH_PROTECTED": "false",
                "CI_COMMIT_REF_PROTECTED": "true",
            },
            "trunk",
        ),
        (
            {
                "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "release",
                "CI_MERGE_REQUEST_TARGET_BRANCH_PROTECTED": "true",
            },
            "release",
        ),
    ],
)
def test_only_a_protected_target_of_a_merge_request_on_gitlab_gives_the_baseline(
    tmp_path: Path, merge: dict[str, str], branch: str
) -> None:
    api = {"CI_API_V4_URL": "https://gitlab.example/api/v4", "CI_JOB_TOKEN": "token", "CI_JOB_NAME": "gate"}
    environ = {**GITLAB, **api, "CI_PROJECT_DIR": str(tmp_path), **merge}
    assert GitLabArtifacts.of_job(GITLAB_CI.variables(environ), "", tmp_path / "run").branch == branch
