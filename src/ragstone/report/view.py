"""One view model for all reports, ordered by what matters most to the reader."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import percent
from ragstone.gate.alignment import contexts_used
from ragstone.gate.changes import changes_line
from ragstone.gate.findings import CHANGED, GOLDEN_SET_CHANGE, USAGE, Level
from ragstone.gate.headline import headline_of
from ragstone.gate.speed_and_price import usage_line
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.judge.offline.reliability import MIN_ACCURACY, grade, weak_languages
from ragstone.report import wording
from ragstone.report.parts import (
    ComparisonPart,
    FailedSamplePart,
    JudgeFacts,
    Links,
    PlacePart,
    ReportView,
    RunPart,
    SamplePart,
    SampleRow,
)
from ragstone.report.reproduce import reproduce_lines
from ragstone.report.rows import check_rows, metric_rows
from ragstone.report.samples import SAMPLE_ROWS, RunSamples

__all__ = ["Links", "ReportView", "build_view"]

Placed = TypeVar("Placed", SamplePart, FailedSamplePart, SampleRow)
_NO_RECORDS: Mapping[str, SampleRecord] = MappingProxyType({})


def build_view(
    verdict: GateVerdict,
    current: RunScores,
    baseline: RunScores | None = None,
    details: Mapping[str, SampleRecord] = _NO_RECORDS,
    *,
    baseline_details: Mapping[str, SampleRecord] = _NO_RECORDS,
    links: Links | None = None,
    drafts: RunScores | None = None,
    title: str = "Ragstone",
    advisory: bool = False,
) -> ReportView:
    """Gather everything a report shows.

    `details` and `baseline_details` are the records of the samples in `verdict.explanation`, by id; samples without one
    are shown without answer and statements. `links` makes places clickable. If the system gave no answer at all, there
    are neither metrics nor a judge. `drafts` are samples that count in no check: rows of the table with the tag
    ``draft``. `advisory`: the job goes on whatever the verdict. Pure;
    strings are not changed.
    """
    links = links or Links()
    samples = RunSamples.of(verdict, current, baseline, links)
    unanswered = bool(current.samples) and current.system.failures.keys() >= current.samples.keys()
    judge = None if unanswered else _judge(current, samples.columns)
    grades = dict(judge.grades) if judge else {}
    shared = verdict.comparability.metrics if verdict.comparability is not None else ()
    explanation, sensitivity = verdict.explanation, verdict.sensitivity
    said = headline_of(
        verdict,
        samples=len(current.samples),
        answers=current.manifest.answers if current.manifest is not None else 1,
        advisory=advisory,
    )
    changes = tuple(finding.data for finding in verdict.of_kind(CHANGED))
    usage_changes = tuple(finding.data for finding in verdict.of_kind(USAGE))
    return ReportView(
        title=title,
        status=verdict.status,
        passed=verdict.passed,
        exit_code=verdict.exit_code,
        headline=replace(said, fact=wording.sentence(said.fact)),
        reason=verdict.reason,
        run=_run(current),
        metrics=() if unanswered else metric_rows(verdict, current, samples.compared, grades),
        checks=verdict.checks,
        check_rows=check_rows(verdict.checks),
        attribution=explanation.attribution,
        worst=samples.worst(explanation.regressions, shared, details, baseline_details),
        worst_left=explanation.regressed_left,
        failures=samples.failures(),
        comparison=_comparison(verdict, baseline, links),
        judge=judge,
        cost=current.manifest.cost if current.manifest is not None else None,
        warnings=(
            *(() if verdict.status is Status.PASS else verdict.texts(Level.ALERT)),  # a pass has them in line one
            *verdict.texts(Level.WARNING),
            *(language_warnings(facts.question for facts in current.samples.values()) if grades else ()),
            *verdict.texts(Level.ASIDE),
        ),
        asides=len(verdict.texts(Level.ASIDE)),
        resolution=sensitivity.text if sensitivity is not None and sensitivity.level is Level.FACT else None,
        notes=verdict.notes,
        reproduce=reproduce_lines(current.manifest, baseline.manifest if baseline is not None else None),
        accept=verdict.accept,
        differences=tuple(samples.differences(shared)),
        sample_metrics=samples.columns,
        samples=tuple(rows_of(verdict, current, baseline, links, drafts, limit=SAMPLE_ROWS)),
        samples_total=len(current.samples) + (0 if drafts is None else len(drafts.samples)),
        contexts_used=contexts_used(current),
        retrieval=explanation.retrieval,
        diagnosis=explanation.diagnosis,
        oracle=verdict.oracle,
        run_url=links.run,
        artifact_url=links.artifact,
        changed=changes_line(changes, worse=verdict.status is Status.FAIL),
        changes=changes,
        golden_set_change=next((finding.data for finding in verdict.of_kind(GOLDEN_SET_CHANGE)), None),
        usage_changes=usage_changes,
        usage=usage_line(usage_changes),
    )


def with_links(view: ReportView, links: Links) -> ReportView:
    def linked(found: Placed) -> Placed:
        return replace(found, place=PlacePart.of(found.place, links.origin))

    return replace(
        view,
        worst=tuple(map(linked, view.worst)),
        failures=tuple(replace(group, samples=tuple(map(linked, group.samples))) for group in view.failures),
        samples=tuple(map(linked, view.samples)),
    )


def rows_of(
    verdict: GateVerdict,
    current: RunScores,
    baseline: RunScores | None,
    links: Links,
    drafts: RunScores | None = None,
    *,
    limit: int | None = None,
) -> Iterator[SampleRow]:
    """The rows of the table of samples, worst first and drafts last; of each at most `limit`, if there is one."""
    samples = RunSamples.of(verdict, current, baseline, links)
    yield from samples.rows(limit)
    if drafts is not None:
        for row in RunSamples(drafts, samples.columns, links, samples.lower_is_better).rows(limit):
            yield replace(row, tags=("draft", *row.tags))


def _run(current: RunScores) -> RunPart:
    manifest = current.manifest
    if manifest is None:
        return RunPart(label=current.label, samples=len(current.samples))
    return RunPart(
        label=current.label,
        samples=len(current.samples),
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
        usage=manifest.usage,
    )


def _judge(current: RunScores, metrics: tuple[str, ...]) -> JudgeFacts | None:
    if current.manifest is None:
        return None
    judge = current.manifest.judge
    return JudgeFacts(
        label=judge.label(),
        offline=judge.offline,
        grades=tuple(offline_grades(metrics).items()) if judge.provider == "offline" else (),
    )


def _comparison(verdict: GateVerdict, baseline: RunScores | None, links: Links) -> ComparisonPart | None:
    found = verdict.comparability
    if found is None and baseline is None:
        return None
    manifest = baseline.manifest if baseline is not None else None
    label = links.baseline_name or (baseline.label if baseline is not None else None)
    if manifest is not None and manifest.same_job:
        label = f"commit {(manifest.system.commit or 'unknown')[:12]}, asked in the same job"
    return ComparisonPart(
        baseline=label,
        comparable=found is not None and found.comparable,
        paired=found.paired if found is not None else 0,
        total=found.total if found is not None else 0,
        notes=found.notes if found is not None else (),
        commit=manifest.system.commit if manifest is not None else None,
        url=links.baseline,
    )


_QUESTIONS_READ = 200
_NAMES = {
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "th": "Thai",
    "ru": "a language in Cyrillic script",
    "ar": "a language in Arabic script",
    "he": "Hebrew",
    "hi": "a language in Devanagari script",
    "el": "Greek",
}


def offline_grades(metrics: Iterable[str]) -> dict[str, str]:
    """The measured grade of the offline judge for each of `metrics` that has one: ``B (fair)``."""
    found = {name: grade(name) for name in metrics}
    return {name: f"{one.letter} ({one.word})" for name, one in found.items() if one is not None}


def language_warnings(questions: Iterable[str]) -> tuple[str, ...]:
    """What to know of the offline judge in the languages of the first `questions`; empty where it was measured well."""
    found = weak_languages(itertools.islice(questions, _QUESTIONS_READ))
    return tuple(
        f"Questions are in {_NAMES.get(code, code)}, where the offline judge "
        + ("was never measured" if accuracy is None else f"judges {percent(round(accuracy, 2))} of known changes right")
        + f" (at least {percent(MIN_ACCURACY)} is needed): don't rely on its scores"
        for code, accuracy in found.items()
    )
