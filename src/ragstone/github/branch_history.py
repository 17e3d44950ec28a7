"""What GitHub knows of the branch's history: merged pull requests and releases."""

from __future__ import annotations

import re

from ragstone.gate.policy import Policy
from ragstone.github.api.client import (
    GitHubApi,
    GitHubApiError,
    listed,
    reading_replies,
)

_MERGED = re.compile(r"^Merge pull request #(\d{1,9}) |\(#(\d{1,9})\)\s*$")
_TAG_PAGES = 5


def tagged_commits(api: GitHubApi, policy: Policy) -> dict[str, str]:
    """The newest tags by commit, if the policy measures drift from a release. Never
    raises GitHubApiError."""
    if policy.drift.anchor != "release":
        return {}
    try:
        with reading_replies():
            tags = listed(api.repository.get_tags(), max_pages=_TAG_PAGES)
            return {tag.commit.sha: tag.name for tag in reversed(tags)}
    except GitHubApiError:
        return {}  # the report says that the history has no release


def merged_pull_request(message: str | None) -> int | None:
    """The pull request merged by a commit with this `message`, in GitHub's wording;
    None if there is none."""
    merge = _MERGED.search((message or "").partition("\n")[0])
    return int(merge[1] or merge[2]) or None if merge else None
