"""Azure DevOps: the comment thread on a pull request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ragstone.ci.http import Api
from ragstone.errors import ConfigError

TOKEN = "SYSTEM_ACCESSTOKEN"  # noqa: S105 - the variable's name
_VERSION = "api-version=7.1"


def post_thread(environ: Mapping[str, str], request: str, mark: str, body: str) -> bool:
    """Update our comment on the pull request, or create it in a thread of its own. Whether it was updated.

    Raises ApiRefused, ConfigError.
    """
    if not environ.get(TOKEN):
        raise ConfigError(
            f"there is no token for Azure's API in {TOKEN}.",
            hint=f"Map it in the step: env: {TOKEN}: $(System.AccessToken)",
        )
    auth = {"Authorization": f"Bearer {environ[TOKEN]}"}
    api = Api.at(environ.get("SYSTEM_COLLECTIONURI", ""), auth, variable="SYSTEM_COLLECTIONURI")
    project, repository = (
        quote(environ.get(name, ""), safe="") for name in ("SYSTEM_TEAMPROJECTID", "BUILD_REPOSITORY_ID")
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
