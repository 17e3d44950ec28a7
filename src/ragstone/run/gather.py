"""Gathers the scores of a run, record by record, into columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path

from ragstone.errors import RunDirectoryError
from ragstone.formatting import counted
from ragstone.golden.sample import Origin
from ragstone.metrics.alignment import UsedContexts
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.run.columns import Digests, Floats, Repeated, Rows, Texts
from ragstone.run.manifest import Manifest
from ragstone.run.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.run.serialise import RecordFacts
from ragstone.system.response import TokenUsage

_QUESTION_CHARS = 300


class _Metric:
    """The scores of one metric."""

    def __init__(self) -> None:
        self._values = Floats()
        self._not_applicable: Repeated[str] = Repeated()
        self._failed: Repeated[Failed] = Repeated()
        self._answers: dict[str, tuple[float | None, ...]] = {}
        self._readings: dict[str, tuple[tuple[float, ...], ...]] = {}

    def add(self, name: str, facts: RecordFacts) -> None:
        score = facts.scores.get(name)
        self._values.append(_value(score))
        self._not_applicable.append(score.reason if isinstance(score, NotApplicable) else None)
        self._failed.append(score if isinstance(score, Failed) else None)
        if not isinstance(score, Scored) or (len(facts.answers) == 1 and not facts.answers[0].repeat_scores):
            return
        values = tuple(_value(one.scores.get(name)) for one in facts.answers)
        rounds = tuple(one.readings(name) for one in facts.answers)
        if len(values) > 1 and any(one is not None for one in values):
            self._answers[facts.sample_id] = values
        if sum(map(len, rounds)) > 1:
            self._readings[facts.sample_id] = tuple(one for one in rounds if one)

    def scores(self, rows: Rows, version: str) -> MetricScores:
        not_applicable, failed = self._not_applicable.column(rows), self._failed.column(rows)
        return MetricScores(self._values.column(rows), not_applicable, failed, version, self._answers, self._readings)


def _value(score: Score | None) -> float | None:
    return score.value if isinstance(score, Scored) else None


class _Samples(Mapping[str, SampleFacts]):
    """What is known of each sample; made when it is asked for."""

    def __init__(self) -> None:
        self.rows = Rows()
        self._questions = Texts()
        self._hashes = Texts()
        self._references = Digests()
        self._lines = array("q")
        self._rest: Repeated[tuple[tuple[str, ...], str | None, str | None, bool, bool]] = Repeated()

    def add(self, facts: RecordFacts) -> None:
        self.rows[facts.sample_id] = len(self.rows)
        self._questions.append(facts.question[:_QUESTION_CHARS])
        self._hashes.append(facts.content_hash)
        self._references.append([facts.reference])
        origin = facts.origin
        self._lines.append(-1 if origin is None or origin.line is None else origin.line)
        file = None if origin is None else origin.file
        self._rest.append((facts.tags, facts.group, file, facts.answerable, facts.draft))

    def __getitem__(self, sample_id: str) -> SampleFacts:
        row = self.rows[sample_id]
        tags, group, file, answerable, draft = self._rest.value(row)
        reference, line = self._references.row(row), self._lines[row]
        return SampleFacts(
            self._questions.row(row),
            tags,
            group,
            None if file is None else Origin(file, None if line < 0 else line),
            self._hashes.row(row),
            answerable,
            reference[0] if reference else None,
            draft,
        )

    def __contains__(self, sample_id: object) -> bool:
        return sample_id in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Gathering:
    """The scores of the run that `manifest` describes."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._metrics = {name: _Metric() for name in manifest.metrics}
        self._samples = _Samples()
        self._latencies = Floats()
        self._failures: Repeated[str] = Repeated()
        self._failed_answers: Repeated[int] = Repeated()
        self._answers = Digests(manifest.answers)
        self._used: Repeated[UsedContexts] = Repeated()
        self._usage: Repeated[TokenUsage] = Repeated()

    @property
    def rows(self) -> Rows:
        """The row of each sample."""
        return self._samples.rows

    def add(self, facts: RecordFacts, where: str) -> None:
        """Add a record. Raises RunDirectoryError if it does not agree with the manifest or those before."""
        sample_id, answers = facts.sample_id, facts.answers
        if sample_id in self.rows:
            raise RunDirectoryError(f"duplicate sample '{sample_id}'.", where=where)
        if len(answers) != self._manifest.answers:
            raise RunDirectoryError(
                f"sample '{sample_id}' has {counted(len(answers), 'answer')}, but the manifest says "
                f"{self._manifest.answers}.",
                where=where,
            )
        if unknown := [name for name in facts.scores if name not in self._metrics]:
            raise RunDirectoryError(f"metric '{unknown[0]}' is not in the manifest.", where=where)
        self._samples.add(facts)
        self._answers.append([one.answer for one in answers])
        self._latencies.append(answers[0].latency_s)
        self._used.append(answers[0].used)
        self._usage.append(answers[0].usage)
        broken = [one.failure for one in answers if one.failure is not None]
        several = f"{len(broken)} of {len(answers)} answers: " if len(answers) > 1 else ""
        self._failures.append(several + broken[0] if broken else None)
        self._failed_answers.append(len(broken) or None)
        for name, metric in self._metrics.items():
            metric.add(name, facts)

    def scores(self, path: Path) -> RunScores:
        """All of them."""
        rows = self._samples.rows = self.rows.shared()
        return RunScores(
            label=str(path),
            metrics={
                name: self._metrics[name].scores(rows, version) for name, version in self._manifest.metrics.items()
            },
            samples=self._samples,
            system=SystemFacts(
                self._latencies.column(rows),
                self._failures.column(rows),
                self._failed_answers.column(rows),
                self._answers.column(rows),
                self._used.column(rows),
                self._usage.column(rows),
            ),
            manifest=self._manifest,
        )
