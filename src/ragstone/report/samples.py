"""From scores and records to the samples in a report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from ragstone.formatting import counted
from ragstone.gate.verdict import Regression
from ragstone.golden.sample import Origin
from ragstone.judge.judgements import ContextUse, Judgements, StatementList, SupportTable, Verdict
from ragstone.metrics.score import FailedBy, Scored
from ragstone.report import wording
from ragstone.report.document import ChangePart, FailedSamplePart, FailurePart, PlacePart, SamplePart, StatementPart
from ragstone.report.parts import Cell, Differences, SampleRow
from ragstone.run.record import Answer, SampleRecord
from ragstone.run.scores import MetricScores, RunScores, SampleFacts

ToUrl = Callable[[Origin], str | None]

SAMPLE_ROWS = 2000
"""Maximum number of rows in the view; the worst are kept."""

_NO_CAUSES: Mapping[str, str] = MappingProxyType({})

_BINS = 40


def worst_samples(
    regressions: Sequence[Regression],
    current: RunScores,
    baseline: RunScores | None,
    metrics: Sequence[str],
    details: Mapping[str, SampleRecord],
    baseline_details: Mapping[str, SampleRecord],
    url: ToUrl,
) -> tuple[SamplePart, ...]:
    """One entry per sample in `regressions`, in their order.

    Each has all of `metrics` (those compared with `baseline`) in which the sample lost, not only those in the list.
    """
    by_sample: dict[str, list[Regression]] = {}
    for regression in regressions:
        by_sample.setdefault(regression.sample_id, []).append(regression)
    for sample_id, found in by_sample.items():
        named = {regression.metric for regression in found}
        found += [one for one in _losses(sample_id, metrics, current, baseline) if one.metric not in named]
    return tuple(
        _worst(sample_id, found, current.samples.get(sample_id, SampleFacts()), details, baseline_details, url)
        for sample_id, found in by_sample.items()
    )


def _losses(sample_id: str, metrics: Sequence[str], current: RunScores, baseline: RunScores | None) -> list[Regression]:
    if baseline is None:
        return []
    found = []
    for metric in metrics:
        now, then = current.metrics.get(metric), baseline.metrics.get(metric)
        after = now.values.get(sample_id) if now else None
        before = then.values.get(sample_id) if then else None
        if after is not None and before is not None and after < before:
            found.append(Regression(sample_id, metric, after, before))
    return sorted(found, key=lambda one: one.current - (one.baseline or 0.0))


def _worst(
    sample_id: str,
    regressions: Iterable[Regression],
    facts: SampleFacts,
    details: Mapping[str, SampleRecord],
    baseline_details: Mapping[str, SampleRecord],
    url: ToUrl,
) -> SamplePart:
    record = details.get(sample_id)
    before = baseline_details.get(sample_id)
    changes = tuple(
        ChangePart(
            metric=regression.metric,
            current=regression.current,
            baseline=regression.baseline,
            note=_note(record, regression.metric),
        )
        for regression in regressions
    )
    known = SamplePart(
        id=sample_id,
        question=facts.question,
        place=PlacePart.of(facts.origin, url),
        tags=facts.tags,
        changes=changes,
        answer="",
        baseline_answer=None,
        reference=None,
        unsupported=(),
        missing=(),
        contexts=0,
        useful_contexts=None,
        detailed=False,
    )
    if record is None:
        return known
    shown = _worst_answer(record, [change.metric for change in changes])
    judged = shown.judgements[0] if shown.judgements else Judgements()
    use = judged.context_use if isinstance(judged.context_use, ContextUse) else None
    return replace(
        known,
        question=_asked(record, judged) or facts.question,
        answer=shown.response.answer,
        baseline_answer=before.response.answer if before is not None else None,
        reference="\nor: ".join(record.sample.references) or None,
        unsupported=_unsupported(judged),
        missing=_missing(use),
        contexts=len(shown.response.contexts),
        useful_contexts=None if use is None else sum(context.useful for context in use.contexts),
        detailed=True,
    )


def _asked(record: SampleRecord, judged: Judgements) -> str:
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


def _unsupported(judged: Judgements) -> tuple[StatementPart, ...]:
    if not isinstance(judged.statements, StatementList) or not isinstance(judged.support, SupportTable):
        return ()
    texts = {statement.id: statement.text for statement in judged.statements.statements}
    bad = [support for support in judged.support.supports if support.verdict is not Verdict.SUPPORTED]
    bad.sort(key=lambda support: support.verdict is not Verdict.CONTRADICTED)
    return tuple(
        StatementPart(
            texts.get(support.statement_id, support.statement_id),
            "contradicted" if support.verdict is Verdict.CONTRADICTED else "unsupported",
            support.quote,
        )
        for support in bad
    )


def _missing(use: ContextUse | None) -> tuple[str, ...]:
    if use is None:
        return ()
    texts = {statement.id: statement.text for statement in use.reference_statements}
    return tuple(
        texts.get(support.statement_id, support.statement_id)
        for support in use.attributions
        if support.verdict is not Verdict.SUPPORTED
    )


def failure_groups(current: RunScores, url: ToUrl) -> tuple[FailurePart, ...]:
    """Failed samples by reason, the system's first, then the larger groups first."""
    found: dict[tuple[FailedBy, str], tuple[dict[str, None], dict[str, None]]] = {}
    for sample_id, reason in current.system.failures.items():
        found.setdefault(("system", reason), ({}, {}))[1][sample_id] = None
    for metric, scores in current.metrics.items():
        for sample_id, failure in scores.failed.items():
            if failure.by == "system" and sample_id in current.system.failures:
                continue
            metrics, samples = found.setdefault((failure.by, failure.reason), ({}, {}))
            metrics[wording.metric_title(metric)] = None
            samples[sample_id] = None
    order = sorted(found.items(), key=lambda item: (item[0][0] != "system", -len(item[1][1])))
    return tuple(
        FailurePart(
            by=by,
            reason=reason,
            metrics=tuple(metrics),
            samples=tuple(_failed_sample(sample_id, current, url) for sample_id in samples),
        )
        for (by, reason), (metrics, samples) in order
    )


def _failed_sample(sample_id: str, current: RunScores, url: ToUrl) -> FailedSamplePart:
    origin = current.samples.get(sample_id, SampleFacts()).origin
    return FailedSamplePart(sample_id, PlacePart.of(origin, url))


def differences(
    current: RunScores, baseline: RunScores, metrics: Iterable[str], lower_is_better: Collection[str] = ()
) -> tuple[Differences, ...]:
    """The distribution of paired differences of each of `metrics`, over the samples that both runs scored."""
    found = []
    for metric in metrics:
        now, then = current.metrics.get(metric), baseline.metrics.get(metric)
        if now is None or then is None:
            continue
        deltas = np.array([now.values[key] - then.values[key] for key in now.values if key in then.values])
        if not deltas.size:
            continue
        moved = deltas[deltas != 0]
        fell, rose = int((deltas < 0).sum()), int((deltas > 0).sum())
        lower = metric in lower_is_better
        counts, edges = np.histogram(moved, bins=_BINS, range=(-1.0, 1.0))
        found.append(
            Differences(
                metric=metric,
                title=wording.metric_title(metric),
                lower_is_better=lower,
                edges=tuple(float(edge) for edge in edges),
                counts=tuple(int(number) for number in counts),
                worse=rose if lower else fell,
                same=int((deltas == 0).sum()),
                better=fell if lower else rose,
            )
        )
    return tuple(found)


def sample_order(
    current: RunScores, baseline: RunScores | None, metrics: Sequence[str], lower_is_better: Collection[str] = ()
) -> list[str]:
    """The ids of all samples: those that failed or got worst first, then the lowest scores."""
    then = baseline.metrics if baseline is not None else {}

    def badness(sample_id: str) -> tuple[bool, float, float]:
        failed = sample_id in current.system.failures
        changes, values = [0.0], [1.0]
        for metric in metrics:
            scores = current.metrics.get(metric)
            value = scores.values.get(sample_id) if scores else None
            if value is None:
                failed = failed or bool(scores and sample_id in scores.failed)
                continue
            lower = metric in lower_is_better
            values.append(1.0 - value if lower else value)
            before = then[metric].values.get(sample_id) if metric in then else None
            change = 0.0 if before is None else value - before
            changes.append(-change if lower else change)
        return (not failed, min(changes), min(values))

    return sorted(current.samples, key=badness)


def sample_rows(
    ids: Iterable[str],
    current: RunScores,
    baseline: RunScores | None,
    metrics: Sequence[str],
    url: ToUrl,
    lower_is_better: Collection[str] = (),
    causes: Mapping[str, str] = _NO_CAUSES,
    before: RunScores | None = None,
) -> Iterator[SampleRow]:
    """A row for each of `ids`. `causes` are by sample id. `before` has the baseline's answers, also if its scores can't
    be compared.
    """
    for sample_id in ids:
        facts = current.samples[sample_id]
        cells = tuple(
            _cell(
                sample_id,
                current.metrics.get(metric),
                baseline.metrics.get(metric) if baseline is not None else None,
                lower=metric in lower_is_better,
            )
            for metric in metrics
        )
        yield SampleRow(
            id=sample_id,
            question=facts.question,
            tags=facts.tags,
            place=PlacePart.of(facts.origin, url),
            cells=cells,
            latency_s=current.system.latencies_s.get(sample_id),
            failure=current.system.failures.get(sample_id),
            cause=causes.get(sample_id),
            changed=_changed(sample_id, cells, current, before),
        )


def _changed(sample_id: str, cells: Iterable[Cell], current: RunScores, baseline: RunScores | None) -> tuple[str, ...]:
    if baseline is None or sample_id not in baseline.samples:
        return ()
    answers = current.system.answers.get(sample_id), baseline.system.answers.get(sample_id)
    found = ["answer"] if answers[0] != answers[1] else []
    return (*found, *(["scores"] if any(cell.change for cell in cells) else []))


def _cell(sample_id: str, scores: MetricScores | None, then: MetricScores | None, *, lower: bool) -> Cell:
    if scores is None:
        return Cell(None, None, "absent")
    if sample_id in scores.values:
        value = scores.values[sample_id]
        before = then.values.get(sample_id) if then is not None else None
        if before is None:
            return Cell(value, None, "scored")
        return Cell(value, value - before, "scored", worse=value > before if lower else value < before)
    if sample_id in scores.failed:
        return Cell(None, None, "failed", scores.failed[sample_id].reason)
    if sample_id in scores.not_applicable:
        return Cell(None, None, "not_applicable", scores.not_applicable[sample_id])
    return Cell(None, None, "absent")
