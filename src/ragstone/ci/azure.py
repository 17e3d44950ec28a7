"""Azure Pipelines: its jobs, and the comment thread on a pull request."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from ragstone.ci.comments import Comment, is_marked
from ragstone.ci.http import Api
from ragstone.ci.platform import CiJob, Platform, Variables
from ragstone.errors import ConfigError

_NAME = "Azure Pipelines"
_TOKEN = "SYSTEM_ACCESSTOKEN"  # noqa: S105 - the variable's name
_VERSION = "api-version=7.1"
_BRANCHES = "refs/heads/"


def _job(variables: Variables) -> CiJob | None:
    if variables.get("TF_BUILD").lower() != "true":
        return None
    request = variables.get("SYSTEM_PULLREQUEST_PULLREQUESTID") or None
    ref = variables.get("BUILD_SOURCEBRANCH")
    builds_branch = request is None and variables.get("BUILD_REASON") != "PullRequest" and ref.startswith(_BRANCHES)
    return CiJob(_NAME, branch=ref.removeprefix(_BRANCHES) if builds_branch else None, request=request)


class _Threads:
    """The first comments of a pull request's threads: ours is in a thread of its own.

    Azure DevOps allows 150,000 characters.
    """

    limit = 150_000 - 1_000

    def __init__(self, variables: Variables, request: str) -> None:
        token = variables.secret(_TOKEN)
        if token is None:
            raise ConfigError(
                f"there is no token for Azure's API in {_TOKEN}.",
                hint=f"Map it in the step: env: {_TOKEN}: $(System.AccessToken)",
            )
        auth = {"Authorization": SecretStr(f"Bearer {token.get_secret_value()}")}
        self._api = Api.at(variables.get("SYSTEM_COLLECTIONURI"), auth, variable="SYSTEM_COLLECTIONURI")
        project, repository = (
            quote(variables.get(name), safe="") for name in ("SYSTEM_TEAMPROJECTID", "BUILD_REPOSITORY_ID")
        )
        pull = f"pullRequests/{quote(request, safe='')}"
        self._path = f"/{project}/_apis/git/repositories/{repository}/{pull}/threads"

    def ours(self, mark: str) -> list[Comment]:
        me = self._api.json("GET", "/_apis/connectionData")["authenticatedUser"]["id"]
        found = []
        for thread in self._api.json("GET", f"{self._path}?{_VERSION}")["value"]:
            first: dict[str, Any] = next(iter(thread.get("comments") or ()), {})
            if (first.get("author") or {}).get("id") == me and is_marked(str(first.get("content") or ""), mark):
                found.append(Comment(f"{self._path}/{int(thread['id'])}/comments/{int(first['id'])}?{_VERSION}"))
        return found

    def create(self, mark: str, text: str) -> Comment:  # noqa: ARG002 - nothing is looked for again
        comment = {"parentCommentId": 0, "content": text, "commentType": "text"}
        # A closed thread doesn't keep a pull request from being completed: the build's result does, if it failed.
        self._api.json("POST", f"{self._path}?{_VERSION}", {"comments": [comment], "status": "closed"})
        return Comment(self._path)

    def update(self, comment: Comment, text: str) -> Comment:
        self._api.json("PATCH", comment.place, {"content": text})
        return comment

    def delete(self, comment: Comment) -> None:
        self._api.json("DELETE", comment.place)


AZURE = Platform(_NAME, _job, secrets=(_TOKEN,), comments=_Threads)
