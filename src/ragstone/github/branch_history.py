"""What GitHub knows of the branch's history: merged pull requests."""

from __future__ import annotations

import re

_MERGED = re.compile(r"^Merge pull request #(\d{1,9}) |\(#(\d{1,9})\)\s*$")


def merged_pull_request(message: str | None) -> int | None:
    """The pull request merged by a commit with this `message`, in GitHub's wording;
    None if there is none."""
    merge = _MERGED.search((message or "").partition("\n")[0])
    return int(merge[1] or merge[2]) or None if merge else None
