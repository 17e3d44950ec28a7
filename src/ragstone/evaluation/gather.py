"""Gathers the scores of a run, record by record, without the texts of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.answer_kinds import AnswerKind, kind_of
from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.ranked import ranked_contexts
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.rewording import Rewording, rewording_of
from ragstone.evaluation.scores import (
    MetricScores,
    RunScores,
    SampleFacts,
    SystemFacts,
    VerdictCounts,
    fingerprint,
)
from ragstone.evaluation.scoring import failure_of
from ragstone.evaluation.step_facts import step_facts
from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.citations import cites_what_is_there
from ragstone.judge.clarification import asks_back
from ragstone.judge.judgements import (
    JudgementFailure,
    Judgements,
    StatementList,
    SupportTable,
    Verdict,
)
from ragstone.metrics.alignment import UsedContexts, used_contexts
from ragstone.metrics.score import Failed, NotApplicable, Score, Scored


class Gathering:
    """The scores of the run that `manifest` describes."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._samples: dict[str, SampleFacts] = {}
        self._system = SystemFacts()
        self._metrics = {
            name: MetricScores({}, version=version)
            for name, version in manifest.metrics.items()
        }

    def add(self, record: SampleRecord, where: str) -> None:
        """Add a record. Raises RunDirectoryError if it does not agree with the manifest
        or those before."""
        sample = record.sample
        if sample.id in self._samples:
            raise RunDirectoryError(f"duplicate sample '{sample.id}'.", where=where)
        if len(record.answers) != self._manifest.answers:
            raise RunDirectoryError(
                f"sample '{sample.id}' has {counted(len(record.answers), 'answer')}, but the manifest says "
                f"{self._manifest.answers}.",
                where=where,
            )
        if unknown := [name for name in record.scores if name not in self._metrics]:
            raise RunDirectoryError(
                f"metric '{unknown[0]}' is not in the manifest.", where=where
            )
        self._samples[sample.id] = SampleFacts.of(sample)
        _add_first_answer(self._system, sample.id, record.answers[0])
        _add_answers(self._system, sample, record.answers)
        for name, score in record.scores.items():
            _add_score(self._metrics[name], name, score, record)

    def scores(self, path: Path) -> RunScores:
        return RunScores(
            str(path), self._metrics, self._samples, self._system, self._manifest
        )


def _add_score(
    metric: MetricScores, name: str, score: Score, record: SampleRecord
) -> None:
    sample_id = record.sample.id
    match score:
        case NotApplicable(reason):
            metric.not_applicable[sample_id] = reason
        case Failed():
            metric.failed[sample_id] = score
        case Scored(value):
            metric.values[sample_id] = value
            answers = tuple(
                _value(answer.scores.get(name)) for answer in record.answers
            )
            if len(answers) > 1 and any(value is not None for value in answers):
                metric.answers[sample_id] = answers
            readings = [_readings(answer, name) for answer in record.answers]
            if sum(map(len, readings)) > 1:
                metric.readings[sample_id] = tuple(filter(None, readings))


def _value(score: Score | None) -> float | None:
    return score.value if isinstance(score, Scored) else None


def _readings(answer: Answer, metric: str) -> tuple[float, ...]:
    """The scores of all judging rounds of an answer; empty if it has no score."""
    rounds = answer.repeat_scores.get(metric)
    if rounds:
        return rounds
    value = _value(answer.scores.get(metric))
    return () if value is None else (value,)


def _add_first_answer(system: SystemFacts, sample_id: str, answer: Answer) -> None:
    response = answer.response
    # A hash of strings differs between processes: it is compared within one only.
    system.contexts[sample_id] = hash(
        tuple(
            (context.text, context.id, context.score) for context in response.contexts
        )
    )
    if response.latency_s is not None:
        system.latencies_s[sample_id] = response.latency_s
    if response.usage is not None:
        system.usage[sample_id] = response.usage
    used = _used_contexts(answer)
    if used is not None:
        system.used_contexts[sample_id] = used
    verdicts = _verdict_counts(answer.judged)
    if verdicts is not None:
        system.verdicts[sample_id] = verdicts


def _add_answers(
    system: SystemFacts, sample: Sample, answers: Sequence[Answer]
) -> None:
    answered = [answer for answer in answers if answer.response.failure is None]
    failure = failure_of([answer.response for answer in answers])
    if failure is not None:
        system.failures[sample.id] = failure
        system.failed_answers[sample.id] = len(answers) - len(answered)
    if not answered:
        return
    system.answers[sample.id] = tuple(
        fingerprint(answer.response.answer) for answer in answered
    )
    kinds = tuple(_kind(answer, sample) for answer in answered)
    if set(kinds) != {AnswerKind.ANSWERS}:
        system.kinds[sample.id] = kinds
    newest = answered[-1]
    response = newest.response
    system.ranked[sample.id] = ranked_contexts(sample, response, newest.judged)
    cites = cites_what_is_there(response) if response.contexts else None
    if cites is not None:
        system.citations[sample.id] = cites
    steps = step_facts(sample, response)
    if steps is not None:
        system.steps[sample.id] = steps
    rewordings = [rewording_of(answer, sample) for answer in answered]
    if all(rewording.grounded for rewording in rewordings):
        states_reference = all(rewording.states_reference for rewording in rewordings)
        system.reworded[sample.id] = Rewording(True, states_reference)


def _verdict_counts(judged: Judgements) -> VerdictCounts | None:
    """The counts of supported statements; None if there are none."""
    if not isinstance(judged.support, SupportTable):
        return None
    supported = [
        support
        for support in judged.support.supports
        if support.verdict is Verdict.SUPPORTED
    ]
    if not supported:
        return None
    return VerdictCounts(
        supported=len(supported),
        unquoted=sum(support.unquoted for support in supported),
        disputed=sum(bool(support.contradicted_by) for support in supported),
    )


def _kind(answer: Answer, sample: Sample) -> AnswerKind:
    response = answer.response
    if sample.expects_clarification and asks_back(response.answer):
        return AnswerKind.ANSWERS
    statements = answer.judged.statements
    abstains, claims = None, True
    if isinstance(statements, StatementList):
        abstains = statements.abstains
        claims = bool(statements.statements)
    elif isinstance(statements, JudgementFailure):
        claims = not statements.not_applicable
    return kind_of(
        response.answer,
        sample.question,
        sample.reference,
        response.contexts,
        abstains=abstains,
        claims=claims,
    )


def _used_contexts(answer: Answer) -> UsedContexts | None:
    """The contexts that support an answer, by its first judging round; None without
    contexts or support verdicts."""
    support = answer.judged.support
    contexts = answer.response.contexts
    if not isinstance(support, SupportTable) or not support.supports or not contexts:
        return None
    supporting: list[str] = []
    for verdict in support.supports:
        if verdict.verdict is Verdict.SUPPORTED:
            supporting += verdict.supported_by
    return used_contexts([context.text for context in contexts], supporting)
