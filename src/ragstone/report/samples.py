"""Builds the samples of a report from scores and records."""

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
from ragstone.report.escape import clip_answer
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
from ragstone.report.tracebacks import last_frames


def first_failures(run: RunScores, limit: int) -> tuple[str, ...]:
    """Return, for each reason why the system gave no answer, the id of the first sample;
    at most `limit` of them."""
    first_by_reason: dict[str, str] = {}
    for sample_id, reason in run.system.failures.items():
        first_by_reason.setdefault(reason_pattern(reason), sample_id)
    return tuple(first_by_reason.values())[:limit]


class RunSamples:
    """The samples of a run, and how their scores changed since the baseline if the
    scores of both can be compared."""

    def __init__(
        self,
        verdict: GateVerdict,
        current: RunScores,
        baseline: RunScores | None,
        links: Links,
        metrics: tuple[str, ...] | None = None,
    ) -> None:
        metrics_with_scores = (
            metric
            for metric, scores in current.metrics.items()
            if scores.values or scores.failed
        )
        self.metrics = tuple(metrics_with_scores) if metrics is None else metrics
        """The metrics in the table of samples."""
        self.comparable_baseline = NO_RUN
        """The baseline if the scores of both runs can be compared, else empty."""
        if baseline is not None and verdict.is_compared:
            self.comparable_baseline = baseline
        self._current = current
        self._links = links
        self._verdict = verdict
        diagnosis = verdict.explanation.diagnosis
        self._causes = {} if diagnosis is None else diagnosis.titles()

    def rows(
        self, limit: int | None = None, drafts: RunScores = NO_RUN
    ) -> list[SampleRow]:
        """Return the rows of the table of samples: those that failed, then the largest
        losses, then the lowest scores, then `drafts`. If there is a `limit`, it is the
        maximum number of samples, and of drafts."""
        ranked = sorted(map(self._row, self._current.samples), key=self._rank)
        rows = ranked[:limit]
        if drafts.samples:
            draft_samples = RunSamples(
                self._verdict,
                drafts,
                baseline=None,
                links=self._links,
                metrics=self.metrics,
            )
            rows += [
                replace(row, tags=("draft", *row.tags))
                for row in draft_samples.rows(limit)
            ]
        return rows

    def worst(
        self,
        records: Mapping[str, SampleRecord],
        baseline_records: Mapping[str, SampleRecord],
    ) -> tuple[SamplePart, ...]:
        """Return the samples of the verdict's explanation, each with all compared metrics
        in which it lost."""
        losses_by_sample: dict[str, dict[str, ChangePart]] = {}
        for regression in self._verdict.explanation.regressions:
            losses = losses_by_sample.setdefault(regression.sample_id, {})
            losses[regression.metric] = ChangePart(
                regression.metric, regression.current, regression.baseline, None
            )
        parts: list[SamplePart] = []
        for sample_id, losses in losses_by_sample.items():
            for metric in self._verdict.compared_metrics:
                cell = self._cell(sample_id, metric)
                if metric not in losses and cell.worse:
                    baseline_scores = self.comparable_baseline.scores_of(metric)
                    losses[metric] = ChangePart(
                        metric, cell.value, baseline_scores.values[sample_id], None
                    )
            facts = self._current.facts_of(sample_id)
            part = SamplePart(
                id=sample_id,
                question=facts.question,
                place=self._place(sample_id),
                tags=facts.tags,
                changes=tuple(losses.values()),
                cause=self._causes.get(sample_id),
            )
            if sample_id in records:
                record = records[sample_id]
                part = _with_details(part, record, baseline_records.get(sample_id))
            parts.append(part)
        return tuple(parts)

    def failures(self, records: Mapping[str, SampleRecord]) -> tuple[FailurePart, ...]:
        """Return the failed samples in groups with similar reasons: the system's
        failures first, then the larger groups."""
        unanswered = self._current.system.failures
        # By who failed, and the reason without what differs from sample to sample.
        reasons: dict[tuple[FailedBy, str], dict[str, str]] = defaultdict(dict)
        titles: dict[tuple[FailedBy, str], dict[str, None]] = defaultdict(dict)
        for sample_id, reason in unanswered.items():
            reasons["system", reason_pattern(reason)][sample_id] = reason
        for metric, scores in self._current.metrics.items():
            for sample_id, failed in scores.failed.items():
                if failed.by != "system" or sample_id not in unanswered:
                    group = (failed.by, reason_pattern(failed.reason))
                    reasons[group][sample_id] = failed.reason
                    titles[group][metric_title(metric)] = None
        parts = []
        for group, reason_by_sample in reasons.items():
            failed_by, _ = group
            samples = tuple(
                FailedSamplePart(sample_id, self._place(sample_id))
                for sample_id in reason_by_sample
            )
            record = records.get(samples[0].id)
            trace: tuple[str, ...] = ()
            if record is not None and failed_by == "system":
                for response in record.responses:
                    if response.failure is not None:
                        trace = trace or last_frames(response.failure.detail)
            part = FailurePart(
                by=failed_by,
                reason=most_common(reason_by_sample.values()),
                metrics=tuple(titles[group]),
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
        """Return by how much a change makes a metric worse; negative if better."""
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
            cells=tuple(self._cell(sample_id, metric) for metric in self.metrics),
            latency_s=system.latencies_s.get(sample_id),
            failure=system.failures.get(sample_id),
            cause=self._causes.get(sample_id),
        )

    def _rank(self, row: SampleRow) -> tuple[bool, float, float]:
        """Return the sort key of a row: failures come first, then the largest losses,
        then the lowest scores."""
        has_failed = row.failure is not None
        largest_loss = 0.0
        lowest_score = 1.0
        for metric, cell in zip(self.metrics, row.cells, strict=True):
            has_failed = has_failed or cell.state == "failed"
            if cell.value is not None:
                score = cell.value
                if metric in self._verdict.explanation.lower_is_better:
                    score = 1.0 - cell.value
                lowest_score = min(lowest_score, score)
                largest_loss = max(largest_loss, self._loss(metric, cell.change or 0.0))
        return not has_failed, -largest_loss, lowest_score

    def _cell(self, sample_id: str, metric: str) -> Cell:
        scores = self._current.scores_of(metric)
        value = scores.values.get(sample_id)
        baseline_scores = self.comparable_baseline.scores_of(metric)
        baseline_value = baseline_scores.values.get(sample_id)
        if value is not None:
            change = None if baseline_value is None else value - baseline_value
            is_worse = self._loss(metric, change or 0.0) > 0.0
            return Cell(value, change, "scored", worse=is_worse)
        if sample_id in scores.failed:
            return Cell(None, None, "failed", scores.failed[sample_id].reason)
        if sample_id in scores.not_applicable:
            return Cell(None, None, "not_applicable", scores.not_applicable[sample_id])
        return Cell(None, None, "absent")


def _with_details(
    part: SamplePart, record: SampleRecord, baseline_record: SampleRecord | None
) -> SamplePart:
    """Return a sample with the answer that has the lowest score; of equal ones, the
    first."""
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
        question=clip_answer(PHRASES["question"](record.sample, answer)),
        changes=tuple(changes),
        detailed=True,
        answer=clip_answer(answer.response.answer),
        baseline_answer=None
        if baseline_record is None
        else clip_answer(baseline_record.response.answer),
        reference=clip_answer("\nor: ".join(record.sample.references)) or None,
        unsupported=statements_without_support(answer, record),
        missing=tuple(lacking_statements(answer)),
    )


def _note(score: Score | None) -> str | None:
    return score.note if isinstance(score, Scored) else None


def statements_without_support(
    answer: Answer, record: SampleRecord
) -> tuple[StatementPart, ...]:
    """Return the statements of the answer without support, those that a context
    contradicts first."""
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
