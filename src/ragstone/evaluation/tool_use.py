"""Which tools answers called, and which were expected: facts that need no record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ragstone.golden.sample import Sample
from ragstone.system.response import Response, Retrieval, called_tools, tool_results


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The answers to one sample."""

    expected: tuple[tuple[str, ...], ...]
    """The tools of each expected call, of which one is enough."""
    called: frozenset[str]
    """The tools that an answer called, and the sources of its retrievals."""
    retrievals: int
    """Retrievals whose contexts are among those of an answer."""
    results: int
    """Results of tools that are among the contexts of an answer."""


def tool_use(sample: Sample, responses: Iterable[Response]) -> ToolUse:
    """The tools in `responses`, which are the answers to `sample`."""
    called: set[str] = set()
    retrievals = results = 0
    for response in responses:
        called |= called_tools(response)
        retrievals += sum(isinstance(step, Retrieval) for step in response.steps)
        results += len(tool_results(response.steps))
    return ToolUse(tuple(call.names for call in sample.tools), frozenset(called), retrievals, results)
