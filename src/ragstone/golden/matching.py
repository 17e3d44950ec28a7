"""Finds the sample that a stored answer, or a score, belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.golden.sample import Sample


class SampleFinder:
    """Finds a sample by its id, or else by its question, ignoring white space.

    A sample with earlier turns is found by its id only: its question alone can be that of
    another conversation.
    """

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_id: dict[str, Sample] = {}
        self._by_question: dict[str, Sample] = {}
        for sample in samples:
            self._by_id[sample.id] = sample
            if not sample.history:
                self._by_question[_one_line(sample.question)] = sample

    def find(self, sample_id: str, question: str) -> Sample | None:
        """Return the sample with this id or question, None if there is none."""
        by_question = self._by_question.get(_one_line(question))
        return self._by_id.get(sample_id, by_question)


def _one_line(text: str) -> str:
    return " ".join(text.split())
