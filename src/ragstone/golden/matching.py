"""Which sample of a golden set a stored answer, or a score, is of."""

from __future__ import annotations

from collections.abc import Iterable

from ragstone.golden.sample import Sample


class SampleFinder:
    """Finds a sample by its id, or else by its question, whose white space does not
    matter. One with earlier turns is known by its id alone."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_id: dict[str, Sample] = {}
        self._by_question: dict[str, Sample] = {}
        for sample in samples:
            self._by_id[sample.id] = sample
            if not sample.history:
                self._by_question[_one_line(sample.question)] = sample

    def find(self, sample_id: str, question: str) -> Sample | None:
        by_question = self._by_question.get(_one_line(question))
        return self._by_id.get(sample_id, by_question)


def _one_line(text: str) -> str:
    return " ".join(text.split())
