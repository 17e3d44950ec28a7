"""The use cases as an entry point asks them: with what the settings say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragstone.evaluation import rescore as rescoring
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.round import run_round
from ragstone.evaluation.rounds.session import Session
from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import GoldenSet
from ragstone.judge.protocol import Judge
from ragstone.pipeline import accept as accepting
from ragstone.pipeline import gate as gating
from ragstone.pipeline import run as running
from ragstone.pipeline.accept import Accepted, MeasuredDrop
from ragstone.pipeline.gate import GatedRun
from ragstone.pipeline.gate_request import gate_request, read_policy
from ragstone.pipeline.run_plan import run_plan
from ragstone.pipeline.stored_report import require_report
from ragstone.report.render import Format, render
from ragstone.report.templates import own_templates
from ragstone.settings.settings import Settings
from ragstone.system.kind import answer_fields
from ragstone.system.response import System


async def evaluate_run(settings: Settings, context: RunContext) -> RunDirectory:
    return await running.evaluate_run(run_plan(settings, context), context)


async def gate(settings: Settings, context: RunContext) -> GatedRun:
    return await gating.gate(gate_request(settings, context), context)


async def rescore(
    source: Path, settings: Settings, context: RunContext, *, golden_paths: Sequence[str] = ()
) -> RunDirectory:
    golden = load_golden_set(golden_paths, root=settings.root) if golden_paths else GoldenSet(())
    plan = run_plan(settings, context, golden=golden, command=None)
    answers = rescoring.open_source(source, settings.golden.columns, answer_fields(settings.system))
    return await rescoring.rescore(answers, plan, context)


def report(run: Path, form: Format, settings: Settings) -> str:
    """What `ragstone report` shows."""
    opened = RunDirectory.open(run)
    return render(require_report(opened), form, templates=own_templates(settings.root))


def accept(settings: Settings, shown: MeasuredDrop | Path, **more: Any) -> Accepted:
    return accepting.accept(read_policy(settings), settings.root, shown, **more)


async def evaluate_golden_set(
    golden: GoldenSet, system: System, judge: Judge, settings: Settings, context: RunContext
) -> RunDirectory:
    """One round with this system and this judge, which stays open."""
    plan = run_plan(settings, context, golden=golden, command=None)
    plan = replace(plan, judge=replace(plan.judge, caller_judge=judge))
    with run_lock(plan.out):
        this = Session(plan, context).round(golden, system, plan.selected_metrics(), plan.out, resume=plan.resume)
        return await run_round(this, context)
