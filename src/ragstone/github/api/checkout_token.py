"""Finds tokens that actions/checkout left where the code under test can read them."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from ragstone.files import open_regular
from ragstone.golden.sample import Texts

# The ways to store it in .git/config: a header, the name of an included file, or the
# password of an address.
_STORED_TOKEN = re.compile(
    rb"extraheader\s*=\s*\"?authorization\s*:|git-credentials-[\w-]+\.config|://[^/\s:@]+:[^/\s@]+@",
    re.IGNORECASE,
)

_MAX_FILE_BYTES = 256 * 1024
_MAX_FILES = 200
# Where checkouts are looked for: in the workspace, and up to two folders below it.
_CHECKOUT_PATTERNS = ("", "*/", "*/*/")
_WARNING = (
    "actions/checkout left its token where the code under test can read it, so that code has the "
    "permissions of this job. Add `persist-credentials: false` under `with:` of the checkout step."
)


def warn_of_token(workspace: Path, temporary: str | None) -> Texts:
    """A warning if there is a token in a checkout in `workspace`, or in the runner's
    `temporary` folder; empty if not."""
    candidates = [
        workspace.glob(f"{pattern}.git/config") for pattern in _CHECKOUT_PATTERNS
    ]
    candidates.append(workspace.glob(".git/modules/*/config"))
    if temporary:
        candidates.append(Path(temporary).glob("git-credentials-*.config"))
    for path in islice(chain.from_iterable(candidates), _MAX_FILES):
        with suppress(OSError), open_regular(path) as stream:
            if _STORED_TOKEN.search(stream.read(_MAX_FILE_BYTES)):
                return (_WARNING,)
    return ()
