"""From scores and records to the samples in a report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.rewording import lacking_statements, unsupported_statements
from ragstone.evaluation.scores import RunScores, SampleFacts
from ragstone.formatting import alike, counted, most_common
from ragstone.gate.facts import Facts
from ragstone.gate.verdict import GateVerdict, Regression
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import ContextUse, Judgements, StatementList, Verdict
from ragstone.metrics.registry import metric_title
from ragstone.metrics.score import FailedBy, Scored
from ragstone.report.parts import (
    Cell,
    ChangePart,
    Differences,
    FailedSamplePart,
    FailurePart,
    Links,
    Place,
    SamplePart,
    SampleRow,
    StatementPart,
)

_BINS = 40


@dataclass(frozen=True, slots=True)
class RunSamples:
    """The samples of a run, and of the baseline if the scores of both can be compared (`compared`).

    `columns` are the metrics of the table of samples. `baseline` is there even if its scores can't be compared: its
    answers can. `causes` say why a sample is worse, by its id, and `facts` from what.
    """

    current: RunScores
    columns: tuple[str, ...]
    links: Links
    lower_is_better: frozenset[str] = frozenset()
    compared: RunScores | None = None
    baseline: RunScores | None = None
    causes: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Facts] = field(default_factory=dict)

    @classmethod
    def of(cls, verdict: GateVerdict, current: RunScores, baseline: RunScores | None, links: Links) -> RunSamples:
        explanation = verdict.explanation
        return cls(
            current,
            tuple(name for name, scores in current.metrics.items() if scores.values or scores.failed),
            links,
            explanation.lower_is_better,
            baseline if verdict.is_compared else None,
            baseline,
            explanation.diagnosis.titles() if explanation.diagnosis is not None else {},
            explanation.facts,
        )

    def rows(self, limit: int | None) -> Iterator[SampleRow]:
        """The rows of the table of samples: what failed or got worst first, then the lowest scores; at most `limit`."""
        for sample_id in sorted(self.current.samples, key=self._rank)[:limit]:
            facts = self.current.samples[sample_id]
            cells = tuple(self._cell(sample_id, metric) for metric in self.columns)
            yield SampleRow(
                id=sample_id,
                question=facts.question,
                tags=facts.tags,
                place=self._place(sample_id),
                cells=cells,
                latency_s=self.current.system.latencies_s.get(sample_id),
                failure=self.current.system.failures.get(sample_id),
                cause=self.causes.get(sample_id),
                changed=self._changed(sample_id, cells),
            )

    def worst(
        self,
        regressions: Iterable[Regression],
        shared: Sequence[str],
        details: Mapping[str, SampleRecord],
        baseline_details: Mapping[str, SampleRecord],
    ) -> tuple[SamplePart, ...]:
        """One part for each sample in `regressions`, in their order.

        Each has all metrics of `shared` in which the sample lost, not only those in the list.
        """
        by_sample: dict[str, list[Regression]] = {}
        for regression in regressions:
            by_sample.setdefault(regression.sample_id, []).append(regression)
        parts = []
        for sample_id, losses in by_sample.items():
            named = {regression.metric for regression in losses}
            losses += self._losses(sample_id, [metric for metric in shared if metric not in named])
            parts.append(self._worst(sample_id, losses, details.get(sample_id), baseline_details.get(sample_id)))
        return tuple(parts)

    def failures(self) -> tuple[FailurePart, ...]:
        """Failed samples by reasons that are alike, the system's first, then the larger groups first."""
        groups: dict[tuple[FailedBy, str], _FailureGroup] = {}
        system_failures = self.current.system.failures
        for sample_id, reason in system_failures.items():
            groups.setdefault(("system", alike(reason)), _FailureGroup()).reasons[sample_id] = reason
        for metric, scores in self.current.metrics.items():
            for sample_id, failure in scores.failed.items():
                if failure.by == "system" and sample_id in system_failures:
                    continue
                group = groups.setdefault((failure.by, alike(failure.reason)), _FailureGroup())
                group.metrics[metric_title(metric)] = None
                group.reasons[sample_id] = failure.reason
        order = sorted(groups.items(), key=lambda item: (item[0][0] != "system", -len(item[1].reasons)))
        return tuple(
            FailurePart(
                by,
                most_common(group.reasons.values()),
                tuple(group.metrics),
                tuple(FailedSamplePart(sample_id, self._place(sample_id)) for sample_id in group.reasons),
            )
            for (by, _), group in order
        )

    def differences(self, shared: Collection[str]) -> Iterator[Differences]:
        """The distribution of the paired differences of each metric of `shared` that both runs scored."""
        for metric in self.columns:
            if metric not in shared:
                continue
            before = self._baseline_scores(metric)
            scores = self.current.metrics[metric].values
            deltas = np.array([value - before[name] for name, value in scores.items() if name in before])
            if not deltas.size:
                continue
            fell, rose = int((deltas < 0).sum()), int((deltas > 0).sum())
            lower_is_better = metric in self.lower_is_better
            counts, edges = np.histogram(deltas[deltas != 0], bins=_BINS, range=(-1.0, 1.0))
            yield Differences(
                metric=metric,
                lower_is_better=lower_is_better,
                edges=tuple(edges.round(2).tolist()),
                counts=tuple(counts.tolist()),
                worse=rose if lower_is_better else fell,
                same=int((deltas == 0).sum()),
                better=fell if lower_is_better else rose,
            )

    def _facts(self, sample_id: str) -> SampleFacts:
        return self.current.samples.get(sample_id, SampleFacts())

    def _place(self, sample_id: str) -> Place | None:
        return Place.of(self._facts(sample_id).origin, self.links.origin)

    def _baseline_scores(self, metric: str) -> Mapping[str, float]:
        """The scores of the baseline, if they can be compared."""
        scores = self.compared.metrics.get(metric) if self.compared is not None else None
        return scores.values if scores is not None else {}

    def _rank(self, sample_id: str) -> tuple[bool, float, float]:
        """The place of a sample in the table: what failed, the largest loss, the lowest score."""
        failed = sample_id in self.current.system.failures
        largest_loss, lowest = 0.0, 1.0
        for metric in self.columns:
            scores = self.current.metrics.get(metric)
            if scores is None:
                continue
            failed = failed or sample_id in scores.failed
            value = scores.values.get(sample_id)
            if value is None:
                continue
            change = value - self._baseline_scores(metric).get(sample_id, value)
            if metric in self.lower_is_better:
                value, change = 1.0 - value, -change
            largest_loss = min(largest_loss, change)
            lowest = min(lowest, value)
        return (not failed, largest_loss, lowest)

    def _cell(self, sample_id: str, metric: str) -> Cell:
        scores = self.current.metrics.get(metric)
        if scores is None:
            return Cell(None, None, "absent")
        value = scores.values.get(sample_id)
        if value is not None:
            before = self._baseline_scores(metric).get(sample_id)
            if before is None:
                return Cell(value, None, "scored")
            worse = value > before if metric in self.lower_is_better else value < before
            return Cell(value, value - before, "scored", worse=worse)
        if sample_id in scores.failed:
            return Cell(None, None, "failed", scores.failed[sample_id].reason)
        if sample_id in scores.not_applicable:
            return Cell(None, None, "not_applicable", scores.not_applicable[sample_id])
        return Cell(None, None, "absent")

    def _changed(self, sample_id: str, cells: Iterable[Cell]) -> tuple[str, ...]:
        if self.baseline is None or sample_id not in self.baseline.samples:
            return ()
        answer = self.current.system.answers.get(sample_id)
        changed = [] if answer == self.baseline.system.answers.get(sample_id) else ["answer"]
        if any(cell.change for cell in cells):
            changed.append("scores")
        return tuple(changed)

    def _losses(self, sample_id: str, metrics: Iterable[str]) -> list[Regression]:
        losses = []
        for metric in metrics:
            scores = self.current.metrics.get(metric)
            value = scores.values.get(sample_id) if scores is not None else None
            before = self._baseline_scores(metric).get(sample_id)
            if value is not None and before is not None and value < before:
                losses.append(Regression(sample_id, metric, value, before))
        return sorted(losses, key=lambda loss: loss.current - (loss.baseline or 0.0))

    def _worst(
        self, sample_id: str, losses: Sequence[Regression], record: SampleRecord | None, before: SampleRecord | None
    ) -> SamplePart:
        facts = self._facts(sample_id)
        changes = tuple(
            ChangePart(loss.metric, loss.current, loss.baseline, _note(record, loss.metric)) for loss in losses
        )
        part = SamplePart(
            id=sample_id,
            question=facts.question,
            place=self._place(sample_id),
            tags=facts.tags,
            changes=changes,
            cause=self.causes.get(sample_id),
            facts=self.facts.get(sample_id),
        )
        if record is None:
            return part
        answer = _worst_answer(record, [loss.metric for loss in losses])
        judged = answer.judgements[0] if answer.judgements else Judgements()
        use = judged.context_use if isinstance(judged.context_use, ContextUse) else None
        return replace(
            part,
            question=_question(record, judged) or facts.question,
            detailed=True,
            answer=answer.response.answer,
            baseline_answer=before.response.answer if before is not None else None,
            reference="\nor: ".join(record.sample.references) or None,
            unsupported=_unsupported(answer, record.sample),
            missing=tuple(lacking_statements(answer)),
            contexts=len(answer.response.contexts),
            useful_contexts=None if use is None else sum(context.useful for context in use.contexts),
        )


@dataclass(slots=True)
class _FailureGroup:
    """Failures with reasons that are alike: the titles of the metrics, and the reasons by sample."""

    metrics: dict[str, None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def _question(record: SampleRecord, judged: Judgements) -> str:
    """The question; after earlier turns, also what it was understood as."""
    sample = record.sample
    if not sample.history:
        return sample.question
    understood = f"; judged as: {judged.standalone_question}" if judged.standalone_question else ""
    return f"{sample.question} (after {counted(len(sample.history), 'earlier message')}{understood})"


def _worst_answer(record: SampleRecord, metrics: Sequence[str]) -> Answer:
    """The answer with the lowest mean score of `metrics`; of equal ones, the first."""

    def mean(answer: Answer) -> float:
        scores = [answer.scores.get(name) for name in metrics]
        values = [score.value for score in scores if isinstance(score, Scored)]
        return sum(values) / len(values) if values else 1.0

    return min(record.answers, key=mean)


def _note(record: SampleRecord | None, metric: str) -> str | None:
    score = record.scores.get(metric) if record is not None else None
    return score.note if isinstance(score, Scored) else None


def _unsupported(answer: Answer, sample: Sample) -> tuple[StatementPart, ...]:
    """The statements of the answer without support, those that a context contradicts first."""
    statements = answer.judgements[0].statements if answer.judgements else None
    if not isinstance(statements, StatementList):
        return ()
    texts = {statement.id: statement.text for statement in statements.statements}
    contradicted, unsupported = [], []
    for support in unsupported_statements(answer, sample):
        text = texts.get(support.statement_id, support.statement_id)
        if support.verdict is Verdict.CONTRADICTED:
            contradicted.append(StatementPart(text, "contradicted", support.quote))
        else:
            unsupported.append(StatementPart(text, "unsupported", support.quote))
    return (*contradicted, *unsupported)
