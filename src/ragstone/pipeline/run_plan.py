"""Turns settings into a golden set, and into the plan of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from ragstone.errors import ConfigError, suggestion
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.project_metrics import ProjectMetrics
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.sources import JudgeSource, SystemSource
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.pipeline.invocation import invocation_of, system_commit
from ragstone.settings.settings import Settings


def read_golden_set(settings: Settings, files: Sequence[str] = ()) -> GoldenSet:
    """The golden set that `settings` name, or the one in `files`, with the columns of
    the settings.

    Ids and tags in the settings select samples, but not from `files`. Raises ConfigError
    if no golden set is named, and for an id or a tag that no sample has.
    """
    if files:
        return load_golden_set(
            files, columns=settings.golden.columns, history=settings.golden.history
        )
    if not settings.golden.paths:
        raise ConfigError(
            "no golden set is named.",
            hint="Use --golden FILE, or set paths under [golden] in ragstone.toml (`ragstone init` writes one).",
        )
    golden = load_golden_set(
        settings.golden.paths,
        root=settings.root,
        columns=settings.golden.columns,
        limit=settings.golden.limit,
        within=settings.within,
        history=settings.golden.history,
    )
    ids = {*settings.golden.only}
    tags = {*settings.golden.tags}
    if not ids and not tags:
        return golden
    selected_ids: set[str] = set()
    known_ids: set[str] = set()
    known_tags: set[str] = set()
    for sample in golden:
        # A turn can also be selected by the id of its conversation.
        sample_ids = {sample.id} if sample.turn is None else {sample.id, sample.turn.id}
        known_ids |= sample_ids
        known_tags |= {*sample.tags}
        if sample_ids & ids or tags.intersection(sample.tags):
            selected_ids.add(sample.id)
    _refuse_unknown("--only", settings.golden.only, known_ids)
    _refuse_unknown("--tag", settings.golden.tags, known_tags)
    selected = golden.select(lambda sample: sample.id in selected_ids)
    return replace(selected, is_limited=True, is_selection=True)


def _refuse_unknown(
    flag: str, names: Iterable[str], known_names: Collection[str]
) -> None:
    """Raise ConfigError for the first of `names` that no sample has."""
    for name in names:
        if name not in known_names:
            raise ConfigError(
                f"no sample has '{name[:80]}'.",
                where=flag,
                hint=suggestion(name, known_names) if known_names else None,
            )


def project_metrics(settings: Settings, commit: str | None = None) -> ProjectMetrics:
    """The metrics that `settings` define and select, and the system, at `commit`, whose
    answers they score."""
    system = SystemSource(settings.system, settings.root, settings.within, commit)
    return ProjectMetrics(system, settings.metrics, settings.run.metrics)


def run_plan(
    settings: Settings,
    context: RunContext,
    *,
    golden: GoldenSet | None = None,
    command: Literal["run", "gate"] | None = "run",
) -> RunPlan:
    """The plan of the run that `settings` describe.

    `golden` is the golden set, if it was read before. `command` started the run; with
    None, the run does not say how to reproduce it. Raises ConfigError and
    GoldenSetError.
    """
    run = settings.run
    if golden is None:
        golden = read_golden_set(settings)
    invocation = None
    if command is not None:
        invocation = invocation_of(settings, context, command)
    return RunPlan(
        golden=golden,
        judge=JudgeSource(settings.judge, settings.within),
        metrics=project_metrics(
            settings, system_commit(settings.root, context.environ)
        ),
        out=settings.path(run.out),
        repeats=run.repeats,
        answers_per_sample=run.answers,
        resume=run.resume,
        time_limit_s=run.time_limit_s,
        workers=run.workers,
        dask=run.dask,
        oracle=run.oracle,
        invocation=invocation,
    )
