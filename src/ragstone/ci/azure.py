"""Azure Pipelines: its jobs, and the comment thread on a pull request."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from ragstone.ci.http import Api
from ragstone.ci.platform import CiJob, Comments, Platform, Variables
from ragstone.errors import ConfigError

_NAME = "Azure Pipelines"
_TOKEN = "SYSTEM_ACCESSTOKEN"  # noqa: S105 - the variable's name
_MAX_BODY = 150_000 - 1_000
"""Characters that Azure DevOps allows in a comment, with room for the mark."""

_VERSION = "api-version=7.1"
_BRANCHES = "refs/heads/"


def _job(variables: Variables) -> CiJob | None:
    if variables.get("TF_BUILD").lower() != "true":
        return None
    request = variables.get("SYSTEM_PULLREQUEST_PULLREQUESTID") or None
    ref = variables.get("BUILD_SOURCEBRANCH")
    builds_branch = request is None and variables.get("BUILD_REASON") != "PullRequest" and ref.startswith(_BRANCHES)
    return CiJob(_NAME, branch=ref.removeprefix(_BRANCHES) if builds_branch else None, request=request)


def _post_thread(variables: Variables, request: str, mark: str, body: str) -> bool:
    """Post `body` in a thread of its own."""
    token = variables.secret(_TOKEN)
    if token is None:
        raise ConfigError(
            f"there is no token for Azure's API in {_TOKEN}.",
            hint=f"Map it in the step: env: {_TOKEN}: $(System.AccessToken)",
        )
    auth = {"Authorization": SecretStr(f"Bearer {token.get_secret_value()}")}
    api = Api.at(variables.get("SYSTEM_COLLECTIONURI"), auth, variable="SYSTEM_COLLECTIONURI")
    project, repository = (
        quote(variables.get(name), safe="") for name in ("SYSTEM_TEAMPROJECTID", "BUILD_REPOSITORY_ID")
    )
    path = f"/{project}/_apis/git/repositories/{repository}/pullRequests/{quote(request, safe='')}/threads"
    ours = api.json("GET", "/_apis/connectionData")["authenticatedUser"]["id"]
    content = f"{mark}\n{body}"
    for thread in api.json("GET", f"{path}?{_VERSION}")["value"]:
        first: dict[str, Any] = next(iter(thread.get("comments") or ()), {})
        text = str(first.get("content") or "")
        if (first.get("author") or {}).get("id") == ours and text.partition("\n")[0].strip() == mark:
            place = f"{path}/{int(thread['id'])}/comments/{int(first['id'])}?{_VERSION}"
            api.json("PATCH", place, {"content": content})
            return True
    comment = {"parentCommentId": 0, "content": content, "commentType": "text"}
    # A closed thread doesn't keep a pull request from being completed: the build's result does, if it failed.
    api.json("POST", f"{path}?{_VERSION}", {"comments": [comment], "status": "closed"})
    return False


AZURE = Platform(_NAME, _job, secrets=(_TOKEN,), comments=Comments(_MAX_BODY, _post_thread))
