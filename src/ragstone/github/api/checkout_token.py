"""Whether actions/checkout left its token where the code under test can read it."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from ragstone.files import open_regular
from ragstone.golden.sample import Texts

_KEPT = re.compile(
    rb"extraheader\s*=\s*\"?authorization\s*:|git-credentials-[\w-]+\.config|://[^/\s:@]+:[^/\s@]+@",
    re.IGNORECASE,
)
"""How it is stored: as a header in .git/config, in an included file, or in an
address."""

_MAX_BYTES = 256 * 1024
_MAX_FILES = 200
_PATTERNS = ("", "*/", "*/*/")
_WARNING = (
    "actions/checkout left its token where the code under test can read it, so that code has the "
    "permissions of this job. Add `persist-credentials: false` under `with:` of the checkout step."
)


def warn_of_token(workspace: Path, temporary: str | None) -> Texts:
    """A warning if a checkout in `workspace`, or the runner's `temporary` folder,
    contains a token; else none."""
    places = [workspace.glob(f"{above}.git/config") for above in _PATTERNS]
    places.append(workspace.glob(".git/modules/*/config"))
    if temporary:
        places.append(Path(temporary).glob("git-credentials-*.config"))
    for path in islice(chain.from_iterable(places), _MAX_FILES):
        with suppress(OSError), open_regular(path) as stream:
            if _KEPT.search(stream.read(_MAX_BYTES)):
                return (_WARNING,)
    return ()
