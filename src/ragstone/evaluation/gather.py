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
    StatementList,
    SupportTable,
    Verdict,
    supporting_contexts,
)
from ragstone.judge.offline.statements import answer_abstains
from ragstone.metrics.alignment import used_contexts
from ragstone.metrics.score import Failed, NotApplicable, Scored


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
        _add_answers(self._system, sample, record.answers)
        for name, score in record.scores.items():
            metric = self._metrics[name]
            match score:
                case NotApplicable(reason):
                    metric.not_applicable[sample.id] = reason
                case Failed():
                    metric.failed[sample.id] = score
                case Scored(value):
                    metric.values[sample.id] = value
                    _add_answer_scores(metric, name, record)

    def scores(self, path: Path) -> RunScores:
        return RunScores(
            str(path), self._metrics, self._samples, self._system, self._manifest
        )


def _add_answer_scores(metric: MetricScores, name: str, record: SampleRecord) -> None:
    """Add the scores of each answer, if there are several."""
    answers: list[float | None] = []
    for answer in record.answers:
        score = answer.scores.get(name)
        answers.append(score.value if isinstance(score, Scored) else None)
    if len(answers) > 1 and set(answers) != {None}:
        metric.answers[record.sample.id] = tuple(answers)


def _add_answers(
    system: SystemFacts, sample: Sample, answers: Sequence[Answer]
) -> None:
    name, first = sample.id, answers[0]
    response = first.response
    # A hash of strings differs between processes: it is compared within one only.
    system.contexts[name] = hash(response.contexts)
    if response.latency_s is not None:
        system.latencies_s[name] = response.latency_s
    if response.usage is not None:
        system.usage[name] = response.usage
    support = first.judged.support
    if isinstance(support, SupportTable) and support.supports:
        supported = [
            statement
            for statement in support.supports
            if statement.verdict is Verdict.SUPPORTED
        ]
        unquoted = sum(statement.unquoted for statement in supported)
        system.verdicts[name] = VerdictCounts(len(supported), unquoted)
        if response.contexts:
            texts = [context.text for context in response.contexts]
            supporting = supporting_contexts(support.supports)
            system.used_contexts[name] = used_contexts(texts, supporting)
    answered = [answer for answer in answers if answer.response.failure is None]
    failure = failure_of([answer.response for answer in answers])
    if failure is not None:
        system.failures[name] = failure
        system.failed_answers[name] = len(answers) - len(answered)
    if answered:
        _add_given(system, sample, answered)


def _add_given(system: SystemFacts, sample: Sample, answered: Sequence[Answer]) -> None:
    """Add the facts of the answers that the system gave."""
    name, newest = sample.id, answered[-1]
    system.answers[name] = tuple(
        fingerprint(answer.response.answer) for answer in answered
    )
    kinds = tuple(_kind(answer, sample) for answer in answered)
    if set(kinds) != {AnswerKind.ANSWERS}:
        system.kinds[name] = kinds
    response = newest.response
    system.ranked[name] = ranked_contexts(sample, response, newest.judged)
    cites = cites_what_is_there(response) if response.contexts else None
    if cites is not None:
        system.citations[name] = cites
    steps = step_facts(sample, response)
    if steps is not None:
        system.steps[name] = steps
    rewordings = [rewording_of(answer, sample) for answer in answered]
    if all(rewording.grounded for rewording in rewordings):
        states_reference = all(rewording.states_reference for rewording in rewordings)
        system.reworded[name] = Rewording(True, states_reference)


def _kind(answer: Answer, sample: Sample) -> AnswerKind:
    response = answer.response
    if sample.expects_clarification and asks_back(response.answer):
        return AnswerKind.ANSWERS
    match answer.judged.statements:
        case StatementList(statements, abstains):
            claims = bool(statements)
        case JudgementFailure(not_applicable=nothing_to_judge):
            abstains = answer_abstains(response.answer)
            claims = not nothing_to_judge
        case None:
            abstains = answer_abstains(response.answer)
            claims = True
    return kind_of(
        response.answer,
        sample.question,
        sample.reference or "",
        response.contexts,
        abstains=abstains,
        claims=claims,
    )
