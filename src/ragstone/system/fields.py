"""What the settings say about reading an answer, and which half of a system is evaluated."""

from __future__ import annotations

from ragstone.config import SystemSettings
from ragstone.system.response import RETRIEVAL
from ragstone.system.worker import Fields, Part


def answer_fields(settings: SystemSettings) -> Fields:
    """Where the answer and its contexts are, as `settings` say."""
    return Fields(
        answer=settings.answer_field,
        contexts=settings.contexts_field,
        context_text=settings.context_text_field,
        context_id=settings.context_id_field,
        context_score=settings.context_score_field,
        contexts_only=settings.part == RETRIEVAL,
    )


def part_of(settings: SystemSettings) -> Part:
    """The half of a python system that is evaluated."""
    return Part(settings.part, settings.takes_contexts)
