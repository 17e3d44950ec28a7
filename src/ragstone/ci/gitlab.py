"""GitLab: its jobs, artifacts of the branch as a store, and the note on a merge request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ragstone.archive import read_members
from ragstone.ci.comments import Comment, is_marked
from ragstone.ci.http import Api, ApiRefused
from ragstone.ci.platform import CiJob, Platform, PlatformStore, Variables
from ragstone.ci.store import MAX_ARCHIVE_BYTES, BaselineStore, Stored
from ragstone.errors import ConfigError

_NAME = "GitLab CI"
_TOKEN = "GITLAB_TOKEN"  # noqa: S105 - the variable's name
_JOB_TOKEN = "CI_JOB_TOKEN"  # noqa: S105
_MAX_PAGES = 50
_COMMAND = re.compile(r"^(\s*)/(?=\w)", re.MULTILINE)
_REFERENCE = re.compile(r"([!&])(?=\d)")
_BREAK = "\u200b"


def _job(variables: Variables) -> CiJob | None:
    if variables.get("GITLAB_CI") != "true":
        return None
    return CiJob(
        _NAME,
        branch=variables.get("CI_COMMIT_BRANCH") or None,  # not set for merge requests and tags
        request=variables.get("CI_MERGE_REQUEST_IID") or None,
        default_branch=variables.get("CI_DEFAULT_BRANCH") or None,
        protected=variables.get("CI_COMMIT_REF_PROTECTED") == "true",
    )


def _api(variables: Variables, *, job_token: bool) -> Api:
    """GitLab's API, with the token in GITLAB_TOKEN, else, if `job_token`, that of the job. Raises ConfigError."""
    base = variables.get("CI_API_V4_URL")
    if (token := variables.secret(_TOKEN)) is not None:
        return Api.at(base, {"PRIVATE-TOKEN": token}, variable="CI_API_V4_URL")
    if job_token and (token := variables.secret(_JOB_TOKEN)) is not None:
        return Api.at(base, {"JOB-TOKEN": token}, variable="CI_API_V4_URL")
    raise ConfigError(
        f"there is no token for GitLab's API in {_TOKEN}.",
        hint=f"Add a project access token as a masked CI/CD variable {_TOKEN}; the job token can't write notes.",
    )


def _project(variables: Variables) -> str:
    return f"/projects/{quote(variables.get('CI_PROJECT_ID'), safe='')}"


@dataclass(frozen=True, slots=True)
class GitLabArtifacts(BaselineStore):
    """The artifacts of a job on a branch of this project. GitLab keeps those of the newest successful pipeline.

    A fork's pipelines are in the fork's project, and those of merge requests have another ref. The job uploads its
    run directory itself (`artifacts:` in .gitlab-ci.yml).
    """

    api: Api
    project: str
    branch: str
    job: str
    prefix: str

    @classmethod
    def of_job(cls, variables: Variables, job: str, out: Path) -> GitLabArtifacts:
        """The artifacts of `job` (default: the current job's name) on a protected target branch, else the default one.

        Whoever may push can propose a change for a branch of their own, so another target doesn't count.
        Raises ConfigError outside of GitLab CI.
        """
        reviewed = variables.get("CI_MERGE_REQUEST_TARGET_BRANCH_PROTECTED") == "true"
        target = variables.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") if reviewed else ""
        branch = target or variables.get("CI_DEFAULT_BRANCH")
        name = job or variables.get("CI_JOB_NAME")
        if variables.get("GITLAB_CI") != "true" or not branch or not name:
            raise ConfigError(
                "the store 'gitlab' is for jobs of GitLab CI.",
                where="gate.baseline_store",
                hint="Elsewhere use --baseline RUN_DIR, or another store.",
            )
        try:
            place = out.resolve().relative_to(Path(variables.get("CI_PROJECT_DIR") or ".").resolve())
        except ValueError:
            raise ConfigError(
                f"the run directory {out} is outside the project, so it can't be an artifact.", where="run.out"
            ) from None
        return cls(_api(variables, job_token=True), _project(variables), branch, name, place.as_posix())

    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:  # noqa: ARG002 - GitLab knows the branch
        path = f"{self.project}/jobs/artifacts/{quote(self.branch, safe='')}/download?job={quote(self.job, safe='')}"
        try:
            archive = self.api.download(path, limit=MAX_ARCHIVE_BYTES)
        except ApiRefused as refused:
            if refused.status == 404:
                return
            raise
        place = f"the artifacts of '{self.job}' on '{self.branch}'"
        yield Stored(place, partial(self._read, archive), is_on_branch=lambda _: True)

    def _read(self, archive: bytes, limits: Mapping[str, int]) -> dict[str, bytes]:
        prefix = f"{self.prefix}/" if self.prefix not in ("", ".") else ""
        files = read_members(archive, {f"{prefix}{name}": limit for name, limit in limits.items()})
        return {name.removeprefix(prefix): content for name, content in files.items()}

    def save(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:  # noqa: ARG002 - the job uploads it
        return f"{run}, as an artifact of this job"


class _Notes:
    """The notes of a merge request. GitLab allows a million characters."""

    limit = 1_000_000 - 1_000

    def __init__(self, variables: Variables, request: str) -> None:
        self._api = _api(variables, job_token=False)
        self._path = f"{_project(variables)}/merge_requests/{quote(request, safe='')}/notes"

    def ours(self, mark: str) -> list[Comment]:
        me = self._api.json("GET", "/user")["id"]
        for page in range(1, _MAX_PAGES + 1):
            notes = self._api.json("GET", f"{self._path}?sort=asc&order_by=created_at&per_page=100&page={page}")
            found = [note for note in notes if note["author"]["id"] == me and is_marked(str(note["body"]), mark)]
            if found or len(notes) < 100:
                return [self._comment(note) for note in found]
        return []

    def create(self, mark: str, text: str) -> Comment:  # noqa: ARG002 - nothing is looked for again
        return self._comment(self._api.json("POST", self._path, {"body": without_commands(text)}))

    def update(self, comment: Comment, text: str) -> Comment:
        return self._comment(self._api.json("PUT", comment.place, {"body": without_commands(text)}))

    def delete(self, comment: Comment) -> None:
        self._api.json("DELETE", comment.place)

    def _comment(self, note: dict[str, Any]) -> Comment:
        return Comment(f"{self._path}/{int(note['id'])}")


def without_commands(text: str) -> str:
    """`text` without lines that GitLab would run as a quick action (``/merge``), and without references (``!1``)."""
    return _REFERENCE.sub(rf"\1{_BREAK}", _COMMAND.sub(rf"\1{_BREAK}/", text))


GITLAB = Platform(
    _NAME,
    _job,
    secrets=(_JOB_TOKEN, "CI_REGISTRY_PASSWORD", "CI_DEPENDENCY_PROXY_PASSWORD", "CI_DEPLOY_PASSWORD"),
    user_secrets=(_TOKEN,),
    comments=_Notes,
    store=PlatformStore("gitlab", "JOB", GitLabArtifacts.of_job),
)
