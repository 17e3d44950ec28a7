"""Stored answers: samples and what a system answered them, to be judged again, or for
the first time.

Records of a run stay in their file: what is kept in memory is the samples, and where
the record of each begins. Recorded interactions are kept in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    nullcontext,
)
from copy import copy
from dataclasses import replace

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.interactions import Interactions
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.records_file import Lookup
from ragstone.formatting import counted
from ragstone.golden.matching import SampleFinder
from ragstone.golden.sample import ColumnMapping, GoldenSet, Sample
from ragstone.system.payload import failed
from ragstone.system.response import Response, SystemFailureKind


class StoredAnswers:
    """A `System` that plays the answers in a file of records back, and the samples that
    they answer.

    `answers` is how many each sample has, `entrypoint` the name of their source in a
    manifest. Always `close` it.
    """

    concurrency = 16
    can_be_asked_again = False

    def __init__(
        self,
        records: AbstractContextManager[Lookup],
        samples: dict[str, Sample],
        mappings: Iterable[ColumnMapping],
        *,
        answers_per_sample: int = 1,
        entrypoint: str = "",
    ) -> None:
        self.entrypoint = entrypoint
        self.answers_per_sample = answers_per_sample
        self._samples = samples
        self._mappings = tuple(mappings)
        self._asked: Counter[str] = Counter()
        self._number: int | None = None
        self._open = ExitStack()
        self._record_of = self._open.enter_context(records)

    @classmethod
    def of(cls, run: RunDirectory) -> StoredAnswers:
        """The answers of `run`. Raises RunDirectoryError."""
        manifest = run.manifest
        return cls(
            run.lookup(),
            {record.sample.id: record.sample for record in run.records()},
            [ColumnMapping(file, "run", {}) for file in manifest.golden.files],
            answers_per_sample=manifest.answers,
            entrypoint=manifest.system.entrypoint,
        )

    @classmethod
    def of_interactions(cls, interactions: Interactions) -> StoredAnswers:
        """The answers of `interactions`, which are kept in memory. Raises what reading
        them raises."""
        records: dict[str, SampleRecord] = {}
        for sample, response in interactions.answers:
            records[sample.id] = SampleRecord(sample, (Answer(response),))
        return cls(
            nullcontext(records.get),
            {name: record.sample for name, record in records.items()},
            [interactions.mapping],
        )

    def __len__(self) -> int:
        return len(self._samples)

    def __contains__(self, sample_id: str) -> bool:
        return sample_id in self._samples

    @property
    def golden(self) -> GoldenSet:
        """The samples, in the order in which they were read."""
        return GoldenSet(tuple(self._samples.values()), self._mappings)

    def join(self, golden: GoldenSet) -> int:
        """Replace the samples by those of `golden` with the same id, or else the same
        question; returns how many.

        Several answers to one golden question become one group, because they are not
        independent.
        """
        finder = SampleFinder(golden)
        matches: dict[str, Sample] = {}
        for sample_id, stored in self._samples.items():
            match = finder.find(sample_id, stored.question)
            if match is not None:
                matches[sample_id] = match
        answers = Counter(match.id for match in matches.values())
        for sample_id, match in matches.items():
            group = match.group or self._samples[sample_id].group
            if answers[match.id] > 1:
                group = match.group or match.id
            self._samples[sample_id] = replace(match, id=sample_id, group=group)
        return len(matches)

    def response(self, sample_id: str, number: int = 0) -> Response:
        """The stored response to the sample `sample_id`: the one with this `number`,
        from 0.

        Raises KeyError for a sample that has none, and RunDirectoryError if the file
        can't be read, or was changed.
        """
        record = self._record_of(sample_id)
        if record is None:
            raise KeyError(sample_id)
        if len(record.answers) != self.answers_per_sample:
            have = counted(len(record.answers), "answer")
            raise RunDirectoryError(
                f"sample '{sample_id}' has {have}, but the others have {self.answers_per_sample}."
            )
        return record.answers[number].response

    def to(self, sample: Sample) -> Response | None:
        """The first stored response to `sample`, if it has the same question here."""
        stored = self._samples.get(sample.id)
        question = sample.part_hashes()[0]
        if stored is None or stored.part_hashes()[0] != question:
            return None
        return self.response(sample.id)

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        """The stored response; of several, the next one each time."""
        return self.numbered(sample, self.next_number(sample) % self.answers_per_sample)

    def numbered(self, sample: Sample, number: int) -> Response:
        """The response with this number, from 0. An earlier turn that is not stored has
        failed."""
        if sample.id in self._samples or sample.turn is None:
            return self.response(sample.id, number)
        return failed(sample.id, SystemFailureKind.MISSING, "its answer is not stored")

    def next_number(self, sample: Sample) -> int:
        """How often the sample was asked before. All turns of a session have one
        number: that of their conversation."""
        if sample.turn is None:
            self._asked[sample.id] += 1
            return self._asked[sample.id] - 1
        if self._number is None:
            conversation = f"{sample.turn.id}/"
            self._number = self._asked[conversation]
            self._asked[conversation] += 1
        return self._number

    @asynccontextmanager
    async def session(self) -> AsyncIterator[StoredAnswers]:
        """A session, in which the answers to all turns were given together."""
        yield copy(self)

    async def close(self) -> None:
        self._open.close()
