"""Regular expressions of a golden set, matched in linear time by RE2.

Patterns and answers may come from strangers. RE2 has no backtracking, so no pattern can
hang the gate, and it refuses patterns that would take much memory; in exchange it has
no look-around and no back-references.
"""

from __future__ import annotations

import functools
import re
from typing import cast

MAX_PATTERN_CHARACTERS = 1_000


@functools.lru_cache(maxsize=4_096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile `pattern`. Raises ValueError, with the reason, if RE2 does not accept
    it."""
    import re2

    length = len(pattern)
    if length > MAX_PATTERN_CHARACTERS:
        raise ValueError(
            f"it has {length:,} characters; at most {MAX_PATTERN_CHARACTERS:,} are allowed"
        )
    options = re2.Options()
    options.log_errors = False
    try:
        return cast("re.Pattern[str]", re2.compile(pattern, options))
    except re2.error as error:
        reason = error.args[0] if error.args else "not valid"
        if isinstance(reason, bytes):  # as google-re2 gives it
            reason = reason.decode("utf-8", "replace")
        raise ValueError(str(reason)) from None
