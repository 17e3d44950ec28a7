"""The history of the baseline's branch, for a job on GitHub."""

from __future__ import annotations

import re

from ragstone.ci.github.client import ApiReply, Commit, GitHubApi, GitHubApiError
from ragstone.errors import RagstoneError
from ragstone.gate.policy import Policy
from ragstone.history.file import History, parse_history
from ragstone.run.directory import HISTORY

_MERGED = re.compile(r"^Merge pull request #(\d{1,9}) |\(#(\d{1,9})\)\s*$")
_TAG_PAGES = 5


class _Tag(ApiReply):
    name: str
    commit: Commit


def history_from(body: bytes | None) -> tuple[History, str | None]:
    """The history in `body`, and a sentence if it can't be used."""
    if body is None:
        return History(), None
    try:
        return parse_history(body, HISTORY), None
    except RagstoneError as error:
        return History(), f"The history can't be used, so drift is not measured: {error.message}"


def tagged_commits(api: GitHubApi, policy: Policy) -> dict[str, str]:
    """The newest tags by commit, if the policy measures drift from a release. Never raises GitHubApiError."""
    if policy.drift.anchor != "release":
        return {}
    try:
        tags = list(api.pages(_Tag, f"{api.base}/tags", max_pages=_TAG_PAGES))
    except GitHubApiError:
        return {}  # the report says that the history has no release
    return {tag.commit.sha: tag.name for tag in reversed(tags)}


def merged_pull_request(message: str | None) -> int | None:
    """The pull request merged by a commit with this `message`, in GitHub's wording; None if there is none."""
    found = _MERGED.search((message or "").partition("\n")[0])
    return int(found[1] or found[2]) or None if found else None
