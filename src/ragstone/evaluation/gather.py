"""Gathers the scores of a run, record by record, into columns."""

from __future__ import annotations

import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.answer_kinds import AnswerKind
from ragstone.evaluation.columns import Digests, Ids, Numbers, Repeated, Rows
from ragstone.evaluation.files import writing_to
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.evaluation.serialise import RecordFacts
from ragstone.formatting import counted
from ragstone.golden.sample import LABELS, Bound, Origin
from ragstone.golden.spool import Spool
from ragstone.metrics.alignment import UsedContexts
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import TokenUsage

_QUESTION_CHARS = 300


class _Metric:
    def __init__(self) -> None:
        self._values: Numbers[float] = Numbers("d")
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


class _Columns:
    """The samples of a run, by row. `texts` are question and content hash; `rest` are tags, group, file, whether it is
    answerable and a draft, and the bounds of its own.
    """

    def __init__(self) -> None:
        self.texts: Spool[tuple[str, str]] = Spool()
        self.references = Digests()
        self.parts = Digests(1 + len(LABELS))
        self.lines = array("q")
        self.rest: Repeated[tuple[tuple[str, ...], str | None, str | None, bool, bool, tuple[Bound, ...]]] = Repeated()

    def add(self, facts: RecordFacts) -> None:
        with writing_to(Path(tempfile.gettempdir())):
            self.texts.append((facts.question[:_QUESTION_CHARS], facts.content_hash))
        self.references.append([facts.reference])
        self.parts.append(facts.parts)
        origin = facts.origin
        self.lines.append(-1 if origin is None or origin.line is None else origin.line)
        file = None if origin is None else origin.file
        self.rest.append((facts.tags, facts.group, file, facts.answerable, facts.draft, facts.bounds))

    def same_as(self, other: _Columns) -> bool:
        mine, others = ((one.references, one.parts, one.lines, one.rest) for one in (self, other))
        if mine != others:
            return False
        return all(one == another for one, another in zip(self.texts, other.texts, strict=True))

    def origin(self, row: int) -> Origin | None:
        file, line = self.rest.value(row)[2], self.lines[row]
        return None if file is None else Origin(file, None if line < 0 else line)


_READERS: Mapping[str, Callable[[_Columns, int], Any]] = {
    "question": lambda columns, row: columns.texts[row][0],
    "tags": lambda columns, row: columns.rest.value(row)[0],
    "group": lambda columns, row: columns.rest.value(row)[1],
    "origin": _Columns.origin,
    "content_hash": lambda columns, row: columns.texts[row][1],
    "answerable": lambda columns, row: columns.rest.value(row)[3],
    "reference": lambda columns, row: next(iter(columns.references.row(row)), None),
    "parts": lambda columns, row: columns.parts.row(row),
    "draft": lambda columns, row: columns.rest.value(row)[4],
    "bounds": lambda columns, row: columns.rest.value(row)[5],
}


class _Facts(SampleFacts):
    """The facts of one row. None is stored: each is read when it is asked for, and most readers want one of them."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: _Columns, row: int) -> None:
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_row", row)

    def __getattr__(self, name: str) -> Any:
        if name not in _READERS:
            raise AttributeError(name)
        return _READERS[name](self._columns, self._row)


class _Samples(Mapping[str, SampleFacts]):
    """What is known of each sample. Runs whose samples are equal share it."""

    _newest: ClassVar[weakref.WeakValueDictionary[str, _Samples]] = weakref.WeakValueDictionary()

    def __init__(self, rows: Rows, columns: _Columns) -> None:
        self.rows = rows
        self._columns = columns

    @classmethod
    def of(cls, rows: Rows, columns: _Columns) -> _Samples:
        known = cls._newest.get("samples")
        if known is None or known.rows is not rows or not known._columns.same_as(columns):
            known = cls._newest["samples"] = cls(rows, columns)
        return known

    def __getitem__(self, sample_id: str) -> SampleFacts:
        return _Facts(self._columns, self.rows[sample_id])

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
        self.ids = Ids()
        self._columns = _Columns()
        self._latencies: Numbers[float] = Numbers("d")
        self._failures: Repeated[str] = Repeated()
        self._failed_answers: Repeated[int] = Repeated()
        self._answers = Digests(manifest.answers)
        self._used: Repeated[UsedContexts] = Repeated()
        self._usage: Repeated[TokenUsage] = Repeated()
        self._contexts: Numbers[int] = Numbers("q")
        self._kinds: Repeated[tuple[AnswerKind, ...]] = Repeated()

    def add(self, facts: RecordFacts, where: str) -> None:
        """Add a record. Raises RunDirectoryError if it does not agree with the manifest or those before."""
        sample_id, answers = facts.sample_id, facts.answers
        if not self.ids.add(sample_id):
            raise RunDirectoryError(f"duplicate sample '{sample_id}'.", where=where)
        if len(answers) != self._manifest.answers:
            raise RunDirectoryError(
                f"sample '{sample_id}' has {counted(len(answers), 'answer')}, but the manifest says "
                f"{self._manifest.answers}.",
                where=where,
            )
        if unknown := [name for name in facts.scores if name not in self._metrics]:
            raise RunDirectoryError(f"metric '{unknown[0]}' is not in the manifest.", where=where)
        self._columns.add(facts)
        self._answers.append([one.answer for one in answers])
        self._latencies.append(answers[0].latency_s)
        self._used.append(answers[0].used)
        self._usage.append(answers[0].usage)
        self._contexts.append(answers[0].contexts)
        kinds = tuple(one.kind for one in answers if one.answer is not None)
        self._kinds.append(kinds if set(kinds) - {AnswerKind.ANSWERS} else None)
        broken = [one.failure for one in answers if one.failure is not None]
        several = f"{len(broken)} of {len(answers)} answers: " if len(answers) > 1 else ""
        self._failures.append(several + broken[0] if broken else None)
        self._failed_answers.append(len(broken) or None)
        for name, metric in self._metrics.items():
            metric.add(name, facts)

    def scores(self, path: Path) -> RunScores:
        """All of them."""
        rows = self.ids.rows()
        return RunScores(
            label=str(path),
            metrics={
                name: self._metrics[name].scores(rows, version) for name, version in self._manifest.metrics.items()
            },
            samples=_Samples.of(rows, self._columns),
            system=SystemFacts(
                self._latencies.column(rows),
                self._failures.column(rows),
                self._failed_answers.column(rows),
                self._answers.column(rows),
                self._used.column(rows),
                self._usage.column(rows),
                self._contexts.column(rows),
                self._kinds.column(rows),
            ),
            manifest=self._manifest,
        )
