"""The entities that a text names, listed by a judge that can read."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ragstone.judge.judgements import EntityList
from ragstone.judge.protocol import Call

PROMPT_VERSION = "1"
"""Of llm/prompts/entities.toml: part of the version of the metric, not of the judge's identity."""


@runtime_checkable
class NamesEntities(Protocol):
    """A judge that lists entities; a judge offers it by having this method."""

    async def entities(self, text: str, *, call: Call) -> EntityList:
        """The distinct entities of `text`, each as it is written there. Raises JudgementFailed."""
        ...
