"""Joins the modules of the worker into the one source that is started in the user's
interpreter."""

from __future__ import annotations

import re
from functools import cache

from ragstone.files import shipped
from ragstone.golden.aliases import SYSTEM_NAMES

MODULES = (
    *("wording", "fields", "contexts", "spans", "steps", "returns"),
    *("adapters", "metric_functions", "protocol"),
)
"""The modules of the worker. Each imports only from those before it, and from the
standard library."""


# An import from Ragstone, or from ``__future__``, which Python allows only at the top
# of a file.
_REMOVED_IMPORT = re.compile(
    r"^from (?:ragstone\.[\w.]+|__future__) import (?:\([^)]*\)|.*)$", re.MULTILINE
)


@cache
def worker_source() -> str:
    """Join the modules of the worker into one source, which imports only the standard
    library. Its `main` serves questions.

    The modules share one namespace, so their imports from Ragstone are removed, and no
    two of them may define the same name. SYSTEM_NAMES, which they import from
    `golden.aliases`, is defined first.
    """
    names = dict(SYSTEM_NAMES)
    sources = [f"from __future__ import annotations\n\nSYSTEM_NAMES = {names!r}\n"]
    for name in MODULES:
        source = shipped(f"{name}.py", __package__).read_text("utf-8")
        sources.append(_REMOVED_IMPORT.sub("", source))
    return "\n\n".join(sources)
