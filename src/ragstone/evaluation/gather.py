"""Collects the scores of a run, record by record, without the texts of the answers."""

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
from ragstone.judge.citations import cites_only_contexts
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


class ScoreCollector:
    """Collects the scores of the run that `manifest` describes."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._samples: dict[str, SampleFacts] = {}
        self._system = SystemFacts()
        self._metrics = {
            name: MetricScores({}, version=version)
            for name, version in manifest.metrics.items()
        }

    def add(self, record: SampleRecord, where: str) -> None:
        """Add a record, which was read from `where`. Raises RunDirectoryError if it
        contradicts the manifest, or its sample was added before."""
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
        """The scores of all records that were added, labelled with `path`."""
        return RunScores(
            str(path), self._metrics, self._samples, self._system, self._manifest
        )


def _add_answer_scores(metric: MetricScores, name: str, record: SampleRecord) -> None:
    """Add the score of each answer, if there are several answers with one."""
    values: list[float | None] = []
    for answer in record.answers:
        score = answer.scores.get(name)
        values.append(score.value if isinstance(score, Scored) else None)
    # A metric that compares answers with each other scores none of them.
    if len(values) > 1 and set(values) != {None}:
        metric.answers[record.sample.id] = tuple(values)


def _add_answers(facts: SystemFacts, sample: Sample, answers: Sequence[Answer]) -> None:
    """Add the facts of the answers to one sample, including failed ones."""
    sample_id = sample.id
    first = answers[0]
    response = first.response
    facts.contexts[sample_id] = hash(response.contexts)
    if response.latency_s is not None:
        facts.latencies_s[sample_id] = response.latency_s
    if response.usage is not None:
        facts.usage[sample_id] = response.usage
    support = first.judged.support
    if isinstance(support, SupportTable) and support.supports:
        supported = [
            statement
            for statement in support.supports
            if statement.verdict is Verdict.SUPPORTED
        ]
        unquoted = sum(statement.unquoted for statement in supported)
        facts.verdicts[sample_id] = VerdictCounts(len(supported), unquoted)
        if response.contexts:
            texts = [context.text for context in response.contexts]
            supporting = supporting_contexts(support.supports)
            facts.used_contexts[sample_id] = used_contexts(texts, supporting)
    successful = [answer for answer in answers if answer.response.failure is None]
    failure = failure_of([answer.response for answer in answers])
    if failure is not None:
        facts.failures[sample_id] = failure
        facts.failed_answers[sample_id] = len(answers) - len(successful)
    if successful:
        _add_successful_answers(facts, sample, successful)


def _add_successful_answers(
    facts: SystemFacts, sample: Sample, answers: Sequence[Answer]
) -> None:
    """Add the facts of the answers to one sample that did not fail."""
    sample_id = sample.id
    # Where a doubt made the gate ask again, the first answer is the one in doubt.
    last = answers[-1]
    facts.answers[sample_id] = tuple(
        fingerprint(answer.response.answer) for answer in answers
    )
    kinds = tuple(_kind(answer, sample) for answer in answers)
    if set(kinds) != {AnswerKind.ANSWERS}:
        facts.kinds[sample_id] = kinds
    response = last.response
    facts.ranked[sample_id] = ranked_contexts(sample, response, last.judged)
    cites = cites_only_contexts(response) if response.contexts else None
    if cites is not None:
        facts.citations[sample_id] = cites
    steps = step_facts(sample, response)
    if steps is not None:
        facts.steps[sample_id] = steps
    rewordings = [rewording_of(answer, sample) for answer in answers]
    if all(rewording.grounded for rewording in rewordings):
        states_reference = all(rewording.states_reference for rewording in rewordings)
        facts.reworded[sample_id] = Rewording(
            grounded=True, states_reference=states_reference
        )


def _kind(answer: Answer, sample: Sample) -> AnswerKind:
    response = answer.response
    # Asking back is the right answer there, though it claims nothing.
    if sample.expects_clarification and asks_back(response.answer):
        return AnswerKind.ANSWERS
    match answer.judged.statements:
        case StatementList(statements, abstains):
            has_claims = bool(statements)
        case JudgementFailure(not_applicable=nothing_to_judge):
            abstains = answer_abstains(response.answer)
            has_claims = not nothing_to_judge
        case None:
            abstains = answer_abstains(response.answer)
            has_claims = True  # not known to have none
    return kind_of(
        response.answer,
        sample.question,
        sample.reference or "",
        response.contexts,
        abstains=abstains,
        has_claims=has_claims,
    )
