"""Whether actions/checkout left its token where the code under test can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ragstone.files import open_regular

_KEPT = re.compile(
    rb"extraheader\s*=\s*\"?authorization\s*:|git-credentials-[\w-]+\.config|://[^/\s:@]+:[^/\s@]+@",
    re.IGNORECASE,
)
"""How it is stored: as a header in .git/config, in an included file, or in an
address."""

_MAX_BYTES = 256 * 1024
_MAX_FILES = 200


def warn_of_token(workspace: Path, temporary: str | None) -> str | None:
    """A warning if a checkout in `workspace`, or the runner's `temporary` folder,
    contains a token; else None."""
    for path in islice(_places(workspace, temporary), _MAX_FILES):
        if _holds_token(path):
            return (
                "actions/checkout left its token where the code under test can read it, so that code has the "
                "permissions of this job. Add `persist-credentials: false` under `with:` of the checkout step."
            )
    return None


def _places(workspace: Path, temporary: str | None) -> Iterator[Path]:
    for pattern in (
        ".git/config",
        "*/.git/config",
        "*/*/.git/config",
        ".git/modules/*/config",
    ):
        yield from workspace.glob(pattern)
    if temporary:
        yield from Path(temporary).glob("git-credentials-*.config")


def _holds_token(path: Path) -> bool:
    try:
        with open_regular(path) as stream:
            return _KEPT.search(stream.read(_MAX_BYTES)) is not None
    except OSError:
        return False
