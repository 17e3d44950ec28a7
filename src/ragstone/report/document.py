"""Builds the document that every report is rendered from, from a verdict and its runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import asdict, replace

from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import NO_RUN, RunScores
from ragstone.evaluation.usage import system_usage
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.registry import checker_of
from ragstone.gate.findings import CHANGED, GOLDEN_SET_CHANGE, ORACLE, USAGE
from ragstone.gate.verdict import Check, CheckKind, Comparability, GateVerdict
from ragstone.metrics.registry import metric_title
from ragstone.report.filters import sentence
from ragstone.report.headline import headline_of
from ragstone.report.metrics import metric_parts
from ragstone.report.parts import (
    NO_LINKS,
    CheckPart,
    ComparisonPart,
    Document,
    ExplanationPart,
    FindingPart,
    JudgePart,
    Links,
    RunPart,
    SamplesPart,
    VerdictPart,
)
from ragstone.report.reproduce import reproduce_lines
from ragstone.report.samples import RunSamples

MAX_ROWS = 100
"""Maximum number of rows of the table of samples in a document; an HTML report has
all."""

_NO_RECORDS: Mapping[str, SampleRecord] = MappingProxyType({})


def document_of(
    verdict: GateVerdict,
    current: RunScores,
    baseline: RunScores | None = None,
    records: Mapping[str, SampleRecord] = _NO_RECORDS,
    *,
    baseline_records: Mapping[str, SampleRecord] = _NO_RECORDS,
    links: Links = NO_LINKS,
    drafts: RunScores = NO_RUN,
    is_advisory: bool = False,
) -> Document:
    """Return everything that a report shows, with strings as they are.

    `records` and `baseline_records` are those of the samples in `verdict.explanation`, by
    id, and `records` also those of the first failures; samples without a record are shown
    without answer and statements. `drafts` are samples that count in no check; their rows
    have the tag ``draft``. If the verdict `is_advisory`, the job goes on whatever it is.
    """
    samples = RunSamples(verdict, current, baseline, links)
    explanation = verdict.explanation
    # The explanation has these, and `checks` the findings about a check.
    kinds_of_other_parts = (CHANGED, ORACLE, USAGE)
    return Document(
        verdict=verdict_part(verdict, current, is_advisory=is_advisory),
        findings=tuple(
            FindingPart(finding.kind, finding.level, finding.text, finding.where)
            for finding in verdict.findings
            if finding.kind not in kinds_of_other_parts
            and not isinstance(finding.data, Check)
        ),
        metrics=()
        if current.is_unanswered
        else metric_parts(verdict, current, samples.comparable_baseline),
        checks=tuple(map(check_part, verdict.checks)),
        explanation=ExplanationPart(
            attribution=explanation.attribution,
            diagnosis=explanation.diagnosis,
            oracle=verdict.oracle,
            changes=tuple(finding.data for finding in verdict.of_kind(CHANGED)),
            golden_set_change=verdict.data(GOLDEN_SET_CHANGE),
            usage_changes=tuple(finding.data for finding in verdict.of_kind(USAGE)),
        ),
        samples=SamplesPart(
            total=len(current.samples) + len(drafts.samples),
            worst=samples.worst(records, baseline_records),
            worst_omitted=explanation.omitted_regressions,
            failures=samples.failures(records),
            metrics=samples.metrics,
            rows=tuple(samples.rows(MAX_ROWS, drafts)),
        ),
        comparison=comparison_part(verdict, baseline, links),
        run=run_part(current, baseline, links),
    )


def verdict_part(
    verdict: GateVerdict, current: RunScores, *, is_advisory: bool
) -> VerdictPart:
    """Return the verdict with line one."""
    headline = headline_of(
        verdict,
        sample_count=len(current.samples),
        answers_per_sample=answers_per_sample(current),
        is_advisory=is_advisory,
    )
    fact = sentence(headline.fact)
    return VerdictPart(
        status=verdict.status,
        passed=verdict.passed,
        exit_code=verdict.exit_code,
        headline=f"{headline.lead} {fact}",
        lead=headline.lead,
        fact=fact,
        reason=verdict.reason,
    )


def check_part(check: Check) -> CheckPart:
    """Return `check` with its title, and with its numbers as text."""
    checker = checker_of(check)
    title = checker.title(check)
    if check.sample is not None:
        title = f"{title}: {check.sample}"
    if check.kind == CheckKind.ANSWERS and check.metric is not None:
        # The reason says what the title of other checks does.
        title = metric_title(check.metric)
    elif check.metric is not None:
        title = f"{title}: {metric_title(check.metric)}"
    return CheckPart(
        **asdict(check),
        title=title,
        shown=checker.result(check),
        required=checker.requirement(check),
    )


def run_part(run: RunScores, baseline: RunScores | None, links: Links) -> RunPart:
    """Return what was run; without a manifest, only its name and size."""
    part = RunPart(
        label=run.label,
        samples=len(run.samples),
        url=links.run,
    )
    manifest = run.manifest
    if manifest is None:
        return part
    judge = JudgePart(label=manifest.judge.label(), offline=manifest.judge.offline)
    return replace(
        part,
        entrypoint=manifest.system.entrypoint,
        commit=manifest.system.commit,
        golden_files=manifest.golden.files,
        created_at=manifest.created_at,
        ragstone_version=manifest.ragstone_version,
        wall_s=manifest.wall_s,
        repeats=manifest.repeats,
        answers=manifest.answers,
        state=manifest.state,
        stop_reason=manifest.stop_reason,
        usage=system_usage(run),
        judge=None if run.is_unanswered else judge,
        cost=manifest.cost,
        reproduce=reproduce_lines(
            manifest, None if baseline is None else baseline.manifest
        ),
    )


def comparison_part(
    verdict: GateVerdict, baseline: RunScores | None, links: Links
) -> ComparisonPart | None:
    """Return what the run was compared with, None if with nothing."""
    if verdict.comparability is None and baseline is None:
        return None
    label = links.baseline_name
    commit = None
    if baseline is not None:
        label = label or baseline.label
        manifest = baseline.manifest
        if manifest is not None:
            commit = manifest.system.commit
            if manifest.same_job:
                short_commit = (commit or "unknown")[:12]
                label = f"commit {short_commit}, asked in the same job"
    comparability = verdict.comparability or Comparability(comparable=False)
    return ComparisonPart(
        baseline=label,
        commit=commit,
        url=links.baseline,
        comparable=comparability.comparable,
        paired=comparability.paired,
        total=comparability.total,
        notes=comparability.notes,
    )
