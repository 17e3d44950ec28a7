"""GitLab: artifacts of the branch as a store, and the note on a merge request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ragstone.ci.http import Api, ApiRefused
from ragstone.ci.store import MAX_ARCHIVE_BYTES, Stored, StoreFailed
from ragstone.errors import ConfigError

TOKEN = "GITLAB_TOKEN"  # noqa: S105 - the variable's name
JOB_TOKEN = "CI_JOB_TOKEN"  # noqa: S105
_MAX_PAGES = 50
_COMMAND = re.compile(r"^(\s*)/(?=\w)", re.MULTILINE)
_REFERENCE = re.compile(r"([!&])(?=\d)")
_BREAK = "\u200b"


def api_of(environ: Mapping[str, str], *, job_token: bool) -> Api:
    """GitLab's API, with the token of GITLAB_TOKEN, else, if `job_token`, that of the job. Raises ConfigError."""
    base = environ.get("CI_API_V4_URL", "")
    if environ.get(TOKEN):
        return Api.at(base, {"PRIVATE-TOKEN": environ[TOKEN]}, variable="CI_API_V4_URL")
    if job_token and environ.get(JOB_TOKEN):
        return Api.at(base, {"JOB-TOKEN": environ[JOB_TOKEN]}, variable="CI_API_V4_URL")
    raise ConfigError(
        f"there is no token for GitLab's API in {TOKEN}.",
        hint=f"Add a project access token as a masked CI/CD variable {TOKEN}; the job token can't write notes.",
    )


def _project(environ: Mapping[str, str]) -> str:
    return f"/projects/{quote(environ.get('CI_PROJECT_ID', ''), safe='')}"


@dataclass(frozen=True, slots=True)
class GitLabArtifacts:
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
    def of_job(cls, environ: Mapping[str, str], *, job: str, out: Path) -> GitLabArtifacts:
        """The artifacts of `job` (default: the current job's name) on the target or else the default branch.

        Raises ConfigError outside of GitLab CI.
        """
        branch = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or environ.get("CI_DEFAULT_BRANCH")
        name = job or environ.get("CI_JOB_NAME")
        if environ.get("GITLAB_CI") != "true" or not branch or not name:
            raise ConfigError(
                "the store 'gitlab' is for jobs of GitLab CI.",
                where="gate.baseline_store",
                hint="Elsewhere use --baseline RUN_DIR, or another store.",
            )
        try:
            place = out.resolve().relative_to(Path(environ.get("CI_PROJECT_DIR", ".")).resolve())
        except ValueError:
            raise ConfigError(
                f"the run directory {out} is outside the project, so it can't be an artifact.", where="run.out"
            ) from None
        return cls(api_of(environ, job_token=True), _project(environ), branch, name, place.as_posix())

    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:  # noqa: ARG002 - GitLab knows the branch
        path = f"{self.project}/jobs/artifacts/{quote(self.branch, safe='')}/download?job={quote(self.job, safe='')}"
        try:
            archive = self.api.download(path, limit=MAX_ARCHIVE_BYTES)
        except ApiRefused as refused:
            if refused.status == 404:
                return
            raise StoreFailed(str(refused)) from None
        yield Stored(archive, None, f"the artifacts of '{self.job}' on '{self.branch}'", prefix=self.prefix)

    def keep(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:  # noqa: ARG002 - GitLab keeps it
        return f"{run}, as an artifact of this job"


def post_note(environ: Mapping[str, str], request: str, mark: str, body: str) -> bool:
    """Update our note on the merge request, or create it. Whether it was updated. Raises ApiRefused, ConfigError."""
    api = api_of(environ, job_token=False)
    path = f"{_project(environ)}/merge_requests/{quote(request, safe='')}/notes"
    ours = api.json("GET", "/user")["id"]
    content = {"body": f"{mark}\n{without_commands(body)}"}
    for page in range(1, _MAX_PAGES + 1):
        notes = api.json("GET", f"{path}?sort=asc&order_by=created_at&per_page=100&page={page}")
        for note in notes:
            if note["author"]["id"] == ours and str(note["body"]).partition("\n")[0].strip() == mark:
                api.json("PUT", f"{path}/{int(note['id'])}", content)
                return True
        if len(notes) < 100:
            break
    api.json("POST", path, content)
    return False


def without_commands(text: str) -> str:
    """`text` without lines that GitLab would run as a quick action (``/merge``), and without references (``!1``)."""
    return _REFERENCE.sub(rf"\1{_BREAK}", _COMMAND.sub(rf"\1{_BREAK}/", text))
