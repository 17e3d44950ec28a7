"""The JSON report: the view as a `ReportDocument`."""

from __future__ import annotations

import json

from ragstone.gate.robustness import Share
from ragstone.gate.verdict import Check, Interval
from ragstone.golden.sample import Origin
from ragstone.report.document import (
    AttributionPart,
    CausePart,
    ChangePart,
    CheckPart,
    ComparisonPart,
    ContextsUsedPart,
    CostPart,
    DiagnosisPart,
    FailedSamplePart,
    FailurePart,
    GonePart,
    IntervalPart,
    JudgePart,
    MetricPart,
    OraclePart,
    PairedChangePart,
    PerturbedCasePart,
    PerturbedKindPart,
    PlacePart,
    RankUsePart,
    ReportDocument,
    RetrievalPart,
    RobustnessPart,
    RunPart,
    SamplePart,
    SharePart,
    SharesPart,
    StatementPart,
    UsagePart,
)
from ragstone.report.escape import bounded, encodable
from ragstone.report.parts import FailureGroup, MetricRow, ReportView, RunFacts, WorstSample


def render_json(view: ReportView) -> str:
    """The report as indented JSON, with non-ASCII text escaped so that it can't affect a terminal or log.

    Nothing in it is a command to a runner that prints it.
    """
    body = encodable(document(view).model_dump(mode="python"))
    text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[") + "\n"


def document(view: ReportView) -> ReportDocument:
    """The view as the public document."""
    found = view.comparison
    return ReportDocument(
        title=view.title,
        status=view.status.value,
        passed=view.passed,
        exit_code=view.exit_code,
        reason=view.reason,
        warnings=view.warnings,
        resolution=view.resolution,
        run=_run(view.run),
        judge=None if view.judge is None else JudgePart(label=view.judge.label, offline=view.judge.offline),
        cost=None
        if view.cost is None
        else CostPart(**{name: getattr(view.cost, name) for name in CostPart.model_fields}),
        comparison=None
        if found is None
        else ComparisonPart(
            baseline=found.label,
            comparable=found.comparable,
            paired=found.paired,
            total=found.total,
            notes=found.notes,
            commit=found.commit,
            url=found.url,
        ),
        metrics=tuple(_metric(row) for row in view.metrics),
        checks=tuple(_check(check) for check in view.all_checks),
        diagnosis=_diagnosis(view),
        attribution=None
        if view.attribution is None
        else AttributionPart(side=view.attribution.side.value, reason=view.attribution.reason),
        worst=tuple(_sample(sample) for sample in view.worst),
        worst_left=view.worse_left,
        failures=tuple(_failure(group) for group in view.failures),
        contexts_used=_contexts_used(view),
        retrieval=_retrieval(view),
        oracle=_oracle(view),
        robustness=_robustness(view),
        notes=view.notes,
        reproduce=view.reproduce,
    )


def _robustness(view: ReportView) -> RobustnessPart | None:
    found = view.robustness
    if found is None:
        return None
    return RobustnessPart(
        samples=found.samples,
        incomplete=found.incomplete,
        kinds=tuple(
            PerturbedKindPart(
                kind=one.kind,
                asked=one.asked,
                left_out=one.left_out,
                unmade=one.unmade,
                crashed=_share(one.crashed),
                changes=tuple(
                    PairedChangePart(
                        metric=each.metric,
                        n=each.n,
                        change=each.estimate,
                        interval=_required(each.interval),
                        worse=each.worse,
                    )
                    for each in one.changes
                ),
                obeyed=_share(one.obeyed),
                answered=_share(one.answered),
                refused=one.refused,
                cases=tuple(
                    PerturbedCasePart(id=case.id, outcome=case.outcome, asked=case.asked, got=case.got)
                    for case in one.cases
                ),
            )
            for one in found.kinds
        ),
    )


def _share(found: Share | None) -> SharePart | None:
    return None if found is None else SharePart(hits=found.hits, n=found.n, interval=_required(found.interval))


def _required(found: Interval) -> IntervalPart:
    return IntervalPart(low=found.low, high=found.high, confidence=found.confidence, method=found.method)


def _retrieval(view: ReportView) -> RetrievalPart | None:
    found = view.retrieval
    if found is None:
        return None
    gone = tuple(GonePart(id=sample_id, left=left) for sample_id, left in found.gone.items())
    return RetrievalPart(gone=gone, lower=found.lower, rechunked=found.rechunked, other=found.other)


def _oracle(view: ReportView) -> OraclePart | None:
    found = view.oracle
    if found is None:
        return None
    metrics = tuple(
        SharesPart(
            metric=one.metric,
            n=one.n,
            missing=one.missing,
            retrieval=one.retrieval,
            generation=one.generation,
            missing_interval=_interval(one.missing_interval),
            retrieval_interval=_interval(one.retrieval_interval),
            generation_interval=_interval(one.generation_interval),
        )
        for one in found.metrics
    )
    facts = {name: getattr(found, name) for name in OraclePart.model_fields if name != "metrics"}
    return OraclePart(metrics=metrics, **facts)


def _contexts_used(view: ReportView) -> ContextsUsedPart | None:
    found = view.contexts_used
    if found is None:
        return None
    ranks = tuple(RankUsePart(**{name: getattr(one, name) for name in RankUsePart.model_fields}) for one in found.ranks)
    return ContextsUsedPart(answers=found.answers, top=found.top, lower=found.lower, none=found.none, ranks=ranks)


def _run(run: RunFacts) -> RunPart:
    usage = None if run.usage is None else UsagePart.model_validate(run.usage.model_dump())
    facts = {name: getattr(run, name) for name in RunPart.model_fields if name != "usage"}
    return RunPart(**facts, usage=usage)


def _interval(found: Interval | None) -> IntervalPart | None:
    return None if found is None else _required(found)


def _place(origin: Origin | None, url: str | None) -> PlacePart | None:
    return None if origin is None else PlacePart(file=origin.file, line=origin.line, url=url)


def _diagnosis(view: ReportView) -> DiagnosisPart | None:
    found = view.diagnosis
    if found is None:
        return None
    return DiagnosisPart(
        samples=found.samples,
        causes=tuple(
            CausePart(
                cause=one.cause,
                title=one.title,
                side=one.side.value,
                count=len(one.samples),
                samples=one.samples,
                action=one.action,
                source=one.source,
            )
            for one in found.counts
        ),
        retrieval=found.retrieval,
        generation=found.generation,
        retrieval_share=_interval(found.share),
    )


def _metric(row: MetricRow) -> MetricPart:
    return MetricPart(
        metric=row.metric,
        title=row.title,
        slice=row.slice,
        score=row.score,
        interval=_interval(row.interval),
        change=row.change,
        change_interval=_interval(row.change_interval),
        floor=row.floor,
        max_drop=row.max_drop,
        ceiling=row.ceiling,
        max_rise=row.max_rise,
        target=row.target,
        lower_is_better=row.lower_is_better,
        status=row.status.value if row.status is not None else None,
        action=row.action.value if row.action is not None else None,
        state=row.state,
        n=row.n,
        not_applicable=row.not_applicable,
        failed=row.failed,
        min=row.spread.lowest if row.spread is not None else None,
        max=row.spread.highest if row.spread is not None else None,
        sd=row.spread.deviation if row.spread is not None else None,
        offline_reliability=row.grade,
    )


def _check(check: Check) -> CheckPart:
    return CheckPart(
        name=check.name,
        kind=check.kind.value,
        status=check.status.value,
        action=check.action.value,
        reason=check.reason,
        metric=check.metric,
        slice=check.slice,
        estimate=check.estimate,
        interval=_interval(check.interval),
        threshold=check.threshold,
        current=check.current,
        baseline=check.baseline,
        n=check.n,
        n_more=check.n_more,
        detectable_drop=check.detectable_drop,
        accepted=check.accepted,
    )


def _sample(sample: WorstSample) -> SamplePart:
    return SamplePart(
        id=sample.id,
        question=bounded(sample.question),
        place=_place(sample.origin, sample.url),
        tags=sample.tags,
        changes=tuple(
            ChangePart(metric=change.metric, current=change.current, baseline=change.baseline, note=change.note)
            for change in sample.changes
        ),
        answer=bounded(sample.answer),
        baseline_answer=None if sample.baseline_answer is None else bounded(sample.baseline_answer),
        reference=None if sample.reference is None else bounded(sample.reference),
        unsupported=tuple(
            StatementPart(text=bad.text, verdict=bad.verdict, quote=bad.quote) for bad in sample.unsupported
        ),
        missing=sample.missing,
        cause=sample.cause,
        contexts=sample.contexts,
        useful_contexts=sample.useful_contexts,
        detailed=sample.detailed,
    )


def _failure(group: FailureGroup) -> FailurePart:
    return FailurePart(
        by=group.by,
        reason=group.reason,
        metrics=group.metrics,
        samples=tuple(FailedSamplePart(id=found.id, place=_place(found.origin, found.url)) for found in group.samples),
    )
