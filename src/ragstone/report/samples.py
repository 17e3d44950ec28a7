"""From scores and records to the samples in a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec.structs import replace

from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.rewording import lacking_statements, unsupported_statements
from ragstone.evaluation.scores import NO_RUN, RunScores
from ragstone.formatting import most_common, reason_pattern
from ragstone.gate.verdict import GateVerdict
from ragstone.judge.judgements import NO_STATEMENTS, Verdict, result_or
from ragstone.metrics.registry import metric_title
from ragstone.metrics.score import FailedBy, Score, Scored
from ragstone.report.escape import bounded
from ragstone.report.filters import PHRASES
from ragstone.report.parts import (
    Cell,
    ChangePart,
    FailedSamplePart,
    FailurePart,
    Links,
    Place,
    SamplePart,
    SampleRow,
    StatementPart,
)
from ragstone.report.traces import last_frames


def first_failures(run: RunScores, limit: int) -> tuple[str, ...]:
    """The first sample of each reason for which the system gave no answer, of at most
    `limit` reasons."""
    by_reason: dict[str, str] = {}
    for sample_id, reason in run.system.failures.items():
        by_reason.setdefault(reason_pattern(reason), sample_id)
    return tuple(by_reason.values())[:limit]


class RunSamples:
    """The samples of a run and their changes since the baseline: in scores only if both
    can be compared.

    `columns` are the metrics of the table of samples: by default those that the run has
    scores of.
    """

    def __init__(
        self,
        verdict: GateVerdict,
        current: RunScores,
        baseline: RunScores | None,
        links: Links,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        scored = (
            name
            for name, scores in current.metrics.items()
            if scores.values or scores.failed
        )
        self.columns = tuple(scored) if columns is None else columns
        self.compared = NO_RUN
        """The baseline, if the scores of both runs can be compared."""
        if baseline is not None and verdict.is_compared:
            self.compared = baseline
        self._current = current
        self._links = links
        self._verdict = verdict
        diagnosis = verdict.explanation.diagnosis
        self._causes = {} if diagnosis is None else diagnosis.titles()

    def rows(
        self, limit: int | None = None, drafts: RunScores = NO_RUN
    ) -> list[SampleRow]:
        """The rows of the table of samples: what failed or got worst first, then the
        lowest scores, and `drafts` last; of each at most `limit`, if there is one."""
        ranked = sorted(map(self._row, self._current.samples), key=self._rank)
        rows = ranked[:limit]
        if drafts.samples:
            samples = RunSamples(self._verdict, drafts, None, self._links, self.columns)
            rows += [
                replace(row, tags=("draft", *row.tags)) for row in samples.rows(limit)
            ]
        return rows

    def worst(
        self,
        details: Mapping[str, SampleRecord],
        baseline_details: Mapping[str, SampleRecord],
    ) -> tuple[SamplePart, ...]:
        """One part for each of the worst samples, in their order, with all compared
        metrics in which it lost."""
        by_sample: dict[str, dict[str, ChangePart]] = {}
        for regression in self._verdict.explanation.regressions:
            losses = by_sample.setdefault(regression.sample_id, {})
            losses[regression.metric] = ChangePart(
                regression.metric, regression.current, regression.baseline, None
            )
        parts: list[SamplePart] = []
        for sample_id, losses in by_sample.items():
            for metric in self._verdict.compared_metrics:
                cell = self._cell(sample_id, metric)
                if metric not in losses and cell.worse:
                    before = self.compared.scores_of(metric).values[sample_id]
                    losses[metric] = ChangePart(metric, cell.value, before, None)
            facts = self._current.facts_of(sample_id)
            part = SamplePart(
                id=sample_id,
                question=facts.question,
                place=self._place(sample_id),
                tags=facts.tags,
                changes=tuple(losses.values()),
                cause=self._causes.get(sample_id),
            )
            if sample_id in details:
                record = details[sample_id]
                part = _detailed(part, record, baseline_details.get(sample_id))
            parts.append(part)
        return tuple(parts)

    def failures(self, details: Mapping[str, SampleRecord]) -> tuple[FailurePart, ...]:
        """Failed samples by reasons that are alike, the system's first, then the larger
        groups first."""
        unanswered = self._current.system.failures
        reasons: dict[tuple[FailedBy, str], dict[str, str]] = defaultdict(dict)
        titles: dict[tuple[FailedBy, str], dict[str, None]] = defaultdict(dict)
        for sample_id, reason in unanswered.items():
            reasons["system", reason_pattern(reason)][sample_id] = reason
        for metric, scores in self._current.metrics.items():
            for sample_id, failed in scores.failed.items():
                if failed.by != "system" or sample_id not in unanswered:
                    kind = (failed.by, reason_pattern(failed.reason))
                    reasons[kind][sample_id] = failed.reason
                    titles[kind][metric_title(metric)] = None
        parts = []
        for kind, group in reasons.items():
            samples = tuple(FailedSamplePart(name, self._place(name)) for name in group)
            record = details.get(samples[0].id)
            trace: tuple[str, ...] = ()
            if record is not None and kind[0] == "system":
                for response in record.responses:
                    if response.failure is not None:
                        trace = trace or last_frames(response.failure.detail)
            part = FailurePart(
                by=kind[0],
                reason=most_common(group.values()),
                metrics=tuple(titles[kind]),
                samples=samples,
                trace=trace,
            )
            parts.append(part)
        parts.sort(key=lambda part: (part.by != "system", -len(part.samples)))
        return tuple(parts)

    def _place(self, sample_id: str) -> Place | None:
        origin = self._current.facts_of(sample_id).origin
        if origin is None:
            return None
        return Place(origin.file, origin.line, self._links.origin(origin))

    def _loss(self, metric: str, change: float) -> float:
        """By how much a change makes a metric worse."""
        if metric in self._verdict.explanation.lower_is_better:
            return change
        return -change

    def _row(self, sample_id: str) -> SampleRow:
        facts = self._current.facts_of(sample_id)
        system = self._current.system
        return SampleRow(
            id=sample_id,
            question=facts.question,
            tags=facts.tags,
            place=self._place(sample_id),
            cells=tuple(self._cell(sample_id, metric) for metric in self.columns),
            latency_s=system.latencies_s.get(sample_id),
            failure=system.failures.get(sample_id),
            cause=self._causes.get(sample_id),
        )

    def _rank(self, row: SampleRow) -> tuple[bool, float, float]:
        """The place of a sample in the table: what failed, the largest loss, the lowest
        score."""
        failed = row.failure is not None
        largest_loss = 0.0
        lowest = 1.0
        for metric, cell in zip(self.columns, row.cells, strict=True):
            failed = failed or cell.state == "failed"
            if cell.value is not None:
                goodness = cell.value
                if metric in self._verdict.explanation.lower_is_better:
                    goodness = 1.0 - cell.value
                lowest = min(lowest, goodness)
                largest_loss = max(largest_loss, self._loss(metric, cell.change or 0.0))
        return not failed, -largest_loss, lowest

    def _cell(self, sample_id: str, metric: str) -> Cell:
        scores = self._current.scores_of(metric)
        value = scores.values.get(sample_id)
        before = self.compared.scores_of(metric).values.get(sample_id)
        if value is not None:
            change = None if before is None else value - before
            worse = self._loss(metric, change or 0.0) > 0.0
            return Cell(value, change, "scored", worse=worse)
        if sample_id in scores.failed:
            return Cell(None, None, "failed", scores.failed[sample_id].reason)
        reason = scores.not_applicable.get(sample_id)
        return Cell(
            None, None, "absent" if reason is None else "not_applicable", reason
        )


def _detailed(
    part: SamplePart, record: SampleRecord, before: SampleRecord | None
) -> SamplePart:
    """A sample with the answer that has the lowest score; of equal ones, the first."""
    metric = part.changes[0].metric
    scores = [answer.scores.get(metric) for answer in record.answers]
    values = [score.value if isinstance(score, Scored) else 1.0 for score in scores]
    answer = record.answers[values.index(min(values))]
    changes = (
        replace(change, note=_note(record.scores.get(change.metric)))
        for change in part.changes
    )
    return replace(
        part,
        question=bounded(PHRASES["question"](record.sample, answer)),
        changes=tuple(changes),
        detailed=True,
        answer=bounded(answer.response.answer),
        baseline_answer=None if before is None else bounded(before.response.answer),
        reference=bounded("\nor: ".join(record.sample.references)) or None,
        unsupported=statements_without_support(answer, record),
        missing=tuple(lacking_statements(answer)),
    )


def _note(score: Score | None) -> str | None:
    return score.note if isinstance(score, Scored) else None


def statements_without_support(
    answer: Answer, record: SampleRecord
) -> tuple[StatementPart, ...]:
    """The statements of the answer without support, those that a context contradicts
    first."""
    statements = result_or(answer.judged.statements, NO_STATEMENTS).statements
    texts = {statement.id: statement.text for statement in statements}
    parts = [
        StatementPart(
            texts.get(support.statement_id, support.statement_id),
            "contradicted"
            if support.verdict is Verdict.CONTRADICTED
            else "unsupported",
            support.quote,
        )
        for support in unsupported_statements(answer, record.sample)
    ]
    return tuple(sorted(parts, key=lambda part: part.verdict))
