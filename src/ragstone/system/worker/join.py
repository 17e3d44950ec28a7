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
"""Modules of the worker; each imports only from those before it, and from the standard
library."""


_OWN_IMPORT = re.compile(
    r"^from (?:ragstone\.[\w.]+|__future__) import (?:\([^)]*\)|.*)$", re.MULTILINE
)
"""An import from Ragstone, or from ``__future__``, which may stand only at the top of a
file."""


@cache
def worker_source() -> str:
    """The source of the worker, which imports the standard library only; its `main`
    serves questions.

    The modules one after the other, without what they import from Ragstone: they share
    one namespace, and the table of names, a file elsewhere, is written out before them.
    """
    names = dict(SYSTEM_NAMES)
    sources = [f"from __future__ import annotations\n\nSYSTEM_NAMES = {names!r}\n"]
    for name in MODULES:
        source = shipped(f"{name}.py", __package__).read_text("utf-8")
        sources.append(_OWN_IMPORT.sub("", source))
    return "\n\n".join(sources)
