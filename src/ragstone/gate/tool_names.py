"""Tools that the golden set expects and that were never called: perhaps their names are misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Set

from ragstone.formatting import counted, some
from ragstone.gate.evidence import Evidence

AnyOf = tuple[str, ...]
"""An expected call, by the names of the tools of which one is enough."""


def tool_warnings(evidence: Evidence) -> Iterator[str]:
    """A warning that names expected tools that no answer called."""
    uses = list(evidence.current.system.tools.values())
    expected = [tools for use in uses for tools in use.expected]
    called = frozenset[str]().union(*(use.called for use in uses))
    yield from uncalled_tools(expected, called, is_whole_run=True)


def step_notes(evidence: Evidence) -> Iterator[str]:
    """A note that contexts are those of several searches and of tools too."""
    uses = evidence.current.system.tools.values()
    retrievals, results = sum(use.retrievals for use in uses), sum(use.results for use in uses)
    if retrievals or results:
        found = f"{counted(retrievals, 'retrieval')} and {counted(results, 'tool result')}"
        yield f"Contexts include what the steps of answers found: {found}."


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
