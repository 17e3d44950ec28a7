"""One check run per gate, where the token may write checks."""

from __future__ import annotations

from typing import Literal

from ragstone.ci.github.client import ApiReply, GitHubApi

MAX_SUMMARY = 65_000
"""GitHub allows 65,535 characters."""

_MAX_TITLE = 200

Conclusion = Literal["success", "neutral", "failure"]


class _CheckRun(ApiReply):
    html_url: str | None = None


def create_check_run(
    api: GitHubApi, name: str, sha: str, conclusion: Conclusion, *, title: str, summary: str, url: str, external_id: str
) -> str:
    """Report a finished check called `name` on commit `sha`, and return its address.

    A later one of the same name takes its place on the commit. Raises GitHubApiError.
    """
    body = {
        "name": name,
        "head_sha": sha,
        "status": "completed",
        "conclusion": conclusion,
        "details_url": url,
        "external_id": external_id,
        "output": {"title": title[:_MAX_TITLE], "summary": summary[:MAX_SUMMARY]},
    }
    return api.post(_CheckRun, f"{api.base}/check-runs", body).html_url or ""
