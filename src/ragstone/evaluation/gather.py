"""Gathers the scores of a run, record by record."""

from __future__ import annotations

from pathlib import Path

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.answer_kinds import AnswerKind
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.ranked import RankedContexts
from ragstone.evaluation.rewording import Rewording
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts, VerdictCounts
from ragstone.evaluation.serialise import AnswerFacts, RecordFacts
from ragstone.formatting import counted
from ragstone.metrics.alignment import UsedContexts
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored
from ragstone.system.response import TokenUsage

_QUESTION_CHARS = 300


class _Metric:
    """The scores of one metric, by sample id; see `MetricScores`."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._not_applicable: dict[str, str] = {}
        self._failed: dict[str, Failed] = {}
        self._answers: dict[str, tuple[float | None, ...]] = {}
        self._readings: dict[str, tuple[tuple[float, ...], ...]] = {}

    def add(self, name: str, facts: RecordFacts) -> None:
        match facts.scores.get(name):
            case Scored(value):
                self._values[facts.sample_id] = value
                self._add_answers(name, facts)
            case NotApplicable(reason):
                self._not_applicable[facts.sample_id] = reason
            case Failed() as failure:
                self._failed[facts.sample_id] = failure

    def _add_answers(self, name: str, facts: RecordFacts) -> None:
        values = tuple(_value(answer.scores.get(name)) for answer in facts.answers)
        if len(values) > 1 and any(value is not None for value in values):
            self._answers[facts.sample_id] = values
        readings = tuple(answer.readings(name) for answer in facts.answers)
        if sum(map(len, readings)) > 1:
            self._readings[facts.sample_id] = tuple(filter(None, readings))

    def scores(self, version: str) -> MetricScores:
        return MetricScores(self._values, self._not_applicable, self._failed, version, self._answers, self._readings)


def _value(score: Score | None) -> float | None:
    return score.value if isinstance(score, Scored) else None


class _System:
    """How the system behaved, by sample id; see `SystemFacts`."""

    def __init__(self) -> None:
        self._latencies_s: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        self._failed_answers: dict[str, int] = {}
        self._answers: dict[str, tuple[str, ...]] = {}
        self._used_contexts: dict[str, UsedContexts] = {}
        self._usage: dict[str, TokenUsage] = {}
        self._contexts: dict[str, int] = {}
        self._kinds: dict[str, tuple[AnswerKind, ...]] = {}
        self._ranked: dict[str, RankedContexts] = {}
        self._citations: dict[str, bool] = {}
        self._reworded: dict[str, Rewording] = {}
        self._verdicts: dict[str, VerdictCounts] = {}

    def add(self, sample_id: str, answers: tuple[AnswerFacts, ...]) -> None:
        self._add_first_answer(sample_id, answers[0])
        answered = [answer for answer in answers if answer.answer is not None]
        if answered:
            self._answers[sample_id] = tuple(answer.answer for answer in answered if answer.answer is not None)
            self._ranked[sample_id] = answered[-1].ranked
            if answered[-1].citations is not None:
                self._citations[sample_id] = answered[-1].citations
            if all(answer.rewording.grounded for answer in answered):
                states_reference = all(answer.rewording.states_reference for answer in answered)
                self._reworded[sample_id] = Rewording(True, states_reference)
        kinds = tuple(answer.kind for answer in answered)
        if set(kinds) - {AnswerKind.ANSWERS}:
            self._kinds[sample_id] = kinds
        failures = [answer.failure for answer in answers if answer.failure is not None]
        if failures:
            several = f"{len(failures)} of {len(answers)} answers: " if len(answers) > 1 else ""
            self._failures[sample_id] = several + failures[0]
            self._failed_answers[sample_id] = len(failures)

    def _add_first_answer(self, sample_id: str, answer: AnswerFacts) -> None:
        self._contexts[sample_id] = answer.contexts
        if answer.latency_s is not None:
            self._latencies_s[sample_id] = answer.latency_s
        if answer.used is not None:
            self._used_contexts[sample_id] = answer.used
        if answer.usage is not None:
            self._usage[sample_id] = answer.usage
        if answer.verdicts is not None:
            self._verdicts[sample_id] = answer.verdicts

    def facts(self) -> SystemFacts:
        return SystemFacts(
            latencies_s=self._latencies_s,
            failures=self._failures,
            failed_answers=self._failed_answers,
            answers=self._answers,
            used_contexts=self._used_contexts,
            usage=self._usage,
            contexts=self._contexts,
            kinds=self._kinds,
            ranked=self._ranked,
            citations=self._citations,
            reworded=self._reworded,
            verdicts=self._verdicts,
        )


class Gathering:
    """The scores of the run that `manifest` describes."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._samples: dict[str, SampleFacts] = {}
        self._metrics = {name: _Metric() for name in manifest.metrics}
        self._system = _System()

    def add(self, facts: RecordFacts, where: str) -> None:
        """Add a record. Raises RunDirectoryError if it does not agree with the manifest or those before."""
        sample_id, answers = facts.sample_id, facts.answers
        if sample_id in self._samples:
            raise RunDirectoryError(f"duplicate sample '{sample_id}'.", where=where)
        if len(answers) != self._manifest.answers:
            raise RunDirectoryError(
                f"sample '{sample_id}' has {counted(len(answers), 'answer')}, but the manifest says "
                f"{self._manifest.answers}.",
                where=where,
            )
        if unknown := [name for name in facts.scores if name not in self._metrics]:
            raise RunDirectoryError(f"metric '{unknown[0]}' is not in the manifest.", where=where)
        self._samples[sample_id] = SampleFacts(
            question=facts.question[:_QUESTION_CHARS],
            tags=facts.tags,
            group=facts.group,
            origin=facts.origin,
            content_hash=facts.content_hash,
            answerable=facts.answerable,
            reference=facts.reference,
            draft=facts.draft,
            parts=facts.parts,
            bounds=facts.bounds,
        )
        self._system.add(sample_id, answers)
        for name, metric in self._metrics.items():
            metric.add(name, facts)

    def scores(self, path: Path) -> RunScores:
        """All of them."""
        metrics = {name: self._metrics[name].scores(version) for name, version in self._manifest.metrics.items()}
        return RunScores(str(path), metrics, self._samples, self._system.facts(), self._manifest)
