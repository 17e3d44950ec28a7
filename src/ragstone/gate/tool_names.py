"""Tools that the golden set expects and that were never called: perhaps their names are
misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Set

from ragstone.formatting import counted, some
from ragstone.gate.evidence import Evidence


def tool_warnings(evidence: Evidence) -> Iterator[str]:
    """A warning that names expected tools that no answer called."""
    steps = list(evidence.current.system.steps.values())
    expected = [tools for facts in steps for tools in sorted(facts.expected)]
    called = frozenset[str]().union(*(facts.called for facts in steps))
    yield from uncalled_tools(expected, called, is_whole_run=True)


def step_notes(evidence: Evidence) -> Iterator[str]:
    """A note that contexts are those of several searches and of tools too."""
    steps = evidence.current.system.steps.values()
    retrievals, results = (
        sum(facts.retrievals for facts in steps),
        sum(facts.results for facts in steps),
    )
    if retrievals or results:
        counts = (
            f"{counted(retrievals, 'retrieval')} and {counted(results, 'tool result')}"
        )
        yield f"Contexts include what the steps of answers found: {counts}."


def uncalled_tools(
    expected: Iterable[str], called: Set[str], *, is_whole_run: bool
) -> Iterator[str]:
    """A sentence that names the tools of `expected` (``a or b``) that were not
    `called`, and what was called instead.

    Of less than a whole run, only those with such a tool are named: others may be
    called by other answers.
    """
    calls = {tools: tools.split(" or ") for tools in expected}
    names = {name for tools in calls.values() for name in tools}
    if not called:
        if calls and is_whole_run:
            yield "The golden set expects tool calls, and no answer has one. Does the system return its steps?"
        return
    uncalled = []
    for tools, alternatives in calls.items():
        if not called.isdisjoint(alternatives):
            continue
        close = difflib.get_close_matches(alternatives[0], sorted(called - names), n=1)
        if close:
            uncalled.append(f"'{tools}' (did you mean '{close[0]}'?)")
        elif is_whole_run:
            uncalled.append(f"'{tools}'")
    if uncalled:
        yield f"The golden set expects tools that were never called: {some(uncalled)}. Names are compared as written."
