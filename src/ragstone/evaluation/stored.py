"""Stored answers: samples with the answers that a system gave, to be judged again or for
the first time.

The records of a run stay in their file; only the samples, and where the record of each
begins, are kept in memory. Recorded interactions are all kept in memory.
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
    """A `System` that plays stored answers back, and the samples that they are for.

    `answers_per_sample` is the same for all samples. `entrypoint` names the source of
    the answers in a manifest. Always `close` it.
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
        self._times_asked: Counter[str] = Counter()
        self._session_number: int | None = None
        """The number of the answers that a session plays back; None outside of one."""
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
        """The answers of `interactions`, all kept in memory. Raises what reading them
        raises."""
        records: dict[str, SampleRecord] = {}
        for sample, response in interactions.answers:
            records[sample.id] = SampleRecord(sample, (Answer(response),))
        return cls(
            nullcontext(records.get),
            {sample_id: record.sample for sample_id, record in records.items()},
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
        """Replace samples by those of `golden` with the same id or the same question,
        and return how many were replaced.

        Several answers to one golden question become one group, because they are not
        independent.
        """
        finder = SampleFinder(golden)
        matches: dict[str, Sample] = {}
        for sample_id, stored in self._samples.items():
            match = finder.find(sample_id, stored.question)
            if match is not None:
                matches[sample_id] = match
        match_counts = Counter(match.id for match in matches.values())
        for sample_id, match in matches.items():
            group = match.group or self._samples[sample_id].group
            if match_counts[match.id] > 1:
                group = match.group or match.id
            self._samples[sample_id] = replace(match, id=sample_id, group=group)
        return len(matches)

    def response(self, sample_id: str, number: int = 0) -> Response:
        """The stored response to a sample with this `number`, from 0.

        Raises KeyError for a sample without a stored answer, and RunDirectoryError if
        the file can't be read, or was changed.
        """
        record = self._record_of(sample_id)
        if record is None:
            raise KeyError(sample_id)
        if len(record.answers) != self.answers_per_sample:
            answers = counted(len(record.answers), "answer")
            raise RunDirectoryError(
                f"sample '{sample_id}' has {answers}, but the others have {self.answers_per_sample}."
            )
        return record.answers[number].response

    def first_response(self, sample: Sample) -> Response | None:
        """The first stored response to `sample`; None if its id is stored with another
        question, or not at all."""
        stored = self._samples.get(sample.id)
        question = sample.part_hashes()[0]
        if stored is None or stored.part_hashes()[0] != question:
            return None
        return self.response(sample.id)

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        """Return the stored response; of several, the next one each time."""
        return self.numbered(sample, self.next_number(sample) % self.answers_per_sample)

    def numbered(self, sample: Sample, number: int) -> Response:
        """The stored response with this number, from 0. An earlier turn of a
        conversation that is not stored counts as failed."""
        if sample.id in self._samples or sample.turn is None:
            return self.response(sample.id, number)
        return failed(sample.id, SystemFailureKind.MISSING, "its answer is not stored")

    def next_number(self, sample: Sample) -> int:
        """How often `sample` was asked before; for a turn, how often its conversation
        was. All turns of a session get the same number."""
        if sample.turn is None:
            self._times_asked[sample.id] += 1
            return self._times_asked[sample.id] - 1
        if self._session_number is None:
            conversation = f"{sample.turn.id}/"
            self._session_number = self._times_asked[conversation]
            self._times_asked[conversation] += 1
        return self._session_number

    @asynccontextmanager
    async def session(self) -> AsyncIterator[StoredAnswers]:
        """A session, which plays back the answers of one session that was recorded."""
        yield copy(self)

    async def close(self) -> None:
        self._open.close()
