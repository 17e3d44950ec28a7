"""Tools that the golden set expects and that were never called: perhaps their names are misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Set

from ragstone.formatting import some

AnyOf = tuple[str, ...]
"""An expected call, by the names of the tools of which one is enough."""


def uncalled_tools(expected: Iterable[AnyOf], called: Set[str], *, is_whole_run: bool) -> Iterator[str]:
    """A sentence that names the calls of `expected` that no answer has made, with tools that were called instead.

    Of less than a whole run, only those with such a tool are named: others may be called by other answers.
    """
    calls = list(dict.fromkeys(expected))
    names = {name for tools in calls for name in tools}
    if not called:
        if calls and is_whole_run:
            yield "The golden set expects tool calls, and no answer has one. Does the system return its steps?"
        return
    uncalled = []
    for tools in calls:
        if not called.isdisjoint(tools):
            continue
        close = difflib.get_close_matches(tools[0], sorted(called - names), n=1)
        if close:
            uncalled.append(f"'{' or '.join(tools)}' (did you mean '{close[0]}'?)")
        elif is_whole_run:
            uncalled.append(f"'{' or '.join(tools)}'")
    if uncalled:
        yield f"The golden set expects tools that were never called: {some(uncalled)}. Names are compared as written."
