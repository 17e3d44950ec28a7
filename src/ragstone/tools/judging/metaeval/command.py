"""`ragstone meta-eval`: the agreement of a judge with people, measured on a data set."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from ragstone._version import __version__
from ragstone.commands.context import run_to_end
from ragstone.commands.options import CONFIG, FORMAT, JUDGE, PATH, option, setting, settings_from, with_options
from ragstone.commands.output import write_text
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.abilities import DirectJudge, Preference
from ragstone.judge.factory import build_judge
from ragstone.judge.names import provider_of
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed, Ledger
from ragstone.report.escape import terminal
from ragstone.report.templates import render_text_template
from ragstone.run.directory import CACHE
from ragstone.tools.judging.metaeval import scoring
from ragstone.tools.judging.metaeval.grades import TaskGrade, grade_tasks
from ragstone.tools.judging.metaeval.load import EvalTask, Item, Pairwise, Pointwise, load_items, name_of
from ragstone.tools.judging.metaeval.scoring import Measure, Measured, NoOpinion, Opinion, opinion


@dataclass(frozen=True, slots=True)
class Outcome:
    """One item and the judge's opinions: one for a pointwise item, two for a pair."""

    item: Item
    opinions: tuple[Opinion | NoOpinion, ...]

    @property
    def scored(self) -> bool:
        return all(isinstance(one, Opinion) for one in self.opinions)

    @property
    def right(self) -> bool:
        """Whether the judge decides as people did; not without an opinion, nor if it holds a pair for equally good."""
        match self.item, self.opinions:
            case Pairwise(preference=preference), (Opinion(value=first), Opinion(value=second)):
                return (second - first) * preference > 0
            case Pointwise(task=EvalTask.STATEMENTS, label=count), (Opinion(value=value),):
                return value == count
            case Pointwise(label=label), (Opinion(verdict=verdict),):
                return verdict == (label > 0.5)
        return False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The results for one task. `measures` maps a measure's name to its estimate; undefined ones are left out."""

    task: EvalTask
    kind: str
    items: int
    scored: int
    not_applicable: int
    failed: int
    reasons: tuple[str, ...]
    measures: dict[str, Measured]


@dataclass(frozen=True, slots=True)
class MetaEvaluation:
    """`grades` has one per task for the hard cases, and none for other data sets, which may be easier."""

    dataset: str
    judge: JudgeIdentity
    method: str
    results: tuple[TaskResult, ...]
    grades: tuple[TaskGrade, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)


async def run_judge(
    judge: Judge, items: Sequence[Item], *, method: str = "metric", ledger: Ledger | None = None
) -> list[Outcome]:
    """Outcomes of `judge` for each item, in order; `method` is ``metric``, ``score`` or ``ranking``.

    Raises ConfigError for the last two if the judge is no DirectJudge, and JudgeError if it fails as a whole.
    """
    if method != "metric" and not isinstance(judge, DirectJudge):
        raise ConfigError(
            f"the judge '{judge.identity.label()}' does not support the method '{method}'.",
            hint="Use --method metric, or an LLM judge.",
        )
    ask = _METHODS[method]
    calls = ledger if ledger is not None else Ledger()
    limit = asyncio.Semaphore(max(1, judge.concurrency))

    async def one(item: Item) -> Outcome:
        async with limit:
            return Outcome(item, await ask(judge, item, calls))

    outcomes: list[Outcome] = []
    step = 64 * max(1, judge.concurrency)
    for start in range(0, len(items), step):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items[start : start + step]]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        outcomes.extend(task.result() for task in tasks)
    return outcomes


def summarise(outcomes: Iterable[Outcome], *, seed: int = 0) -> tuple[TaskResult, ...]:
    """The measures of each task, in order of first appearance."""
    by_task: dict[tuple[EvalTask, str], list[Outcome]] = {}
    for outcome in outcomes:
        kind = "pairwise" if isinstance(outcome.item, Pairwise) else "pointwise"
        by_task.setdefault((outcome.item.task, kind), []).append(outcome)
    return tuple(_result(task, kind, found, seed) for (task, kind), found in by_task.items())


def _result(task: EvalTask, kind: str, outcomes: Sequence[Outcome], seed: int) -> TaskResult:
    scored = [outcome for outcome in outcomes if outcome.scored]
    lost = [one for outcome in outcomes for one in outcome.opinions if isinstance(one, NoOpinion)]
    failed = sum(any(isinstance(one, NoOpinion) and one.failed for one in out.opinions) for out in outcomes)
    found: dict[str, Measured] = {}
    if scored:
        groups = [outcome.item.group for outcome in scored]
        rows = _pairwise_rows(scored) if kind == "pairwise" else _pointwise_rows(scored)
        for name, measure, scores, labels in rows:
            estimate = scoring.estimate(measure, scores, labels, groups, seed=seed)
            if math.isfinite(estimate.value):
                found[name] = estimate
    return TaskResult(
        task=task,
        kind=kind,
        items=len(outcomes),
        scored=len(scored),
        not_applicable=len(outcomes) - len(scored) - failed,
        failed=failed,
        reasons=tuple(dict.fromkeys(one.reason for one in lost))[:5],
        measures=found,
    )


_Rows = list[tuple[str, Measure, scoring.Floats, scoring.Floats]]


def _pointwise_rows(outcomes: Sequence[Outcome]) -> _Rows:
    labels = np.array([outcome.item.label for outcome in outcomes if isinstance(outcome.item, Pointwise)])
    opinions = [one for outcome in outcomes for one in outcome.opinions if isinstance(one, Opinion)]
    strict = np.array([one.strict for one in opinions])
    verdicts = np.array([float(one.verdict) for one in opinions])
    rows: _Rows = []
    if outcomes[0].item.task is EvalTask.STATEMENTS:
        rows.append(("exact", scoring.exact, strict, labels))
    elif set(np.unique(labels)) <= {0.0, 1.0}:
        rows += [
            ("auroc", scoring.auroc, strict, labels),
            ("balanced_accuracy", scoring.balanced_accuracy, verdicts, labels),
            ("f1", scoring.f1_score, verdicts, labels),
            ("brier", scoring.brier, strict, labels),
            ("calibration_error", scoring.calibration_error, strict, labels),
        ]
    rows += [("pearson", scoring.pearson, strict, labels), ("spearman", scoring.spearman, strict, labels)]
    return rows


def _pairwise_rows(outcomes: Sequence[Outcome]) -> _Rows:
    preferences = np.array([outcome.item.preference for outcome in outcomes if isinstance(outcome.item, Pairwise)])
    values = [[one.value for one in outcome.opinions if isinstance(one, Opinion)] for outcome in outcomes]
    differences = np.array([second - first for first, second in values])
    return [
        ("pairwise_accuracy", scoring.pairwise_accuracy, differences, preferences),
        ("pearson", scoring.pearson, differences, preferences),
        ("spearman", scoring.spearman, differences, preferences),
    ]


_Asked = tuple[Opinion | NoOpinion, ...]


async def _by_metric(judge: Judge, item: Item, ledger: Ledger) -> _Asked:
    if isinstance(item, Pointwise):
        return (await opinion(judge, item.task, item.case, item.id, ledger),)
    return (
        await opinion(judge, item.task, item.first, f"{item.id}/first", ledger),
        await opinion(judge, item.task, item.second, f"{item.id}/second", ledger),
    )


async def _by_score(judge: DirectJudge, item: Item, ledger: Ledger) -> _Asked:
    found: list[Opinion | NoOpinion] = []
    for case in (item.case,) if isinstance(item, Pointwise) else (item.first, item.second):
        call = Call(item.id, ledger=ledger)
        try:
            value = await judge.direct_score(item.task.value, case.question, case.answer, case.contexts, call=call)
            found.append(Opinion(value, value, value >= 0.5))
        except JudgementFailed as failure:
            found.append(NoOpinion(True, failure.reason))
    return tuple(found)


async def _by_ranking(judge: DirectJudge, item: Item, ledger: Ledger) -> _Asked:
    if isinstance(item, Pointwise):
        return (NoOpinion(True, "ranking needs pairs, and these are single cases"),)
    # Half of the pairs are shown in reverse order, so that position bias averages out.
    swapped = sum(item.id.encode("utf-8", "surrogatepass")) % 2 == 1
    shown = (item.second, item.first) if swapped else (item.first, item.second)
    call = Call(item.id, ledger=ledger)
    pair = [(case.answer, case.contexts) for case in shown]
    try:
        found = await judge.direct_preference(item.task.value, item.first.question, pair[0], pair[1], call=call)
    except JudgementFailed as failure:
        return (NoOpinion(True, failure.reason),)
    values = {Preference.FIRST: (1.0, 0.0), Preference.SECOND: (0.0, 1.0), Preference.NEITHER: (0.5, 0.5)}[found]
    first, second = reversed(values) if swapped else values
    return Opinion(first, first, first > 0.5), Opinion(second, second, second > 0.5)


_METHODS: dict[str, Callable[[Any, Item, Ledger], Awaitable[_Asked]]] = {
    "metric": _by_metric,
    "score": _by_score,
    "ranking": _by_ranking,
}
METHODS = tuple(_METHODS)
"""Ways to query a judge: Ragstone's metrics, or the RAGAS paper's baselines GPT Score and GPT Ranking."""


SCHEMA_VERSION = 1


async def evaluate_judge(
    settings: Settings,
    dataset: Path,
    *,
    environ: Mapping[str, str],
    method: str = "metric",
    split: str | None = None,
    limit: int | None = None,
) -> MetaEvaluation:
    """How well the judge in `settings` agrees with the people who labelled `dataset`.

    Judgements are cached in ``judgements.sqlite`` in the run directory of `settings`, so that a stopped evaluation can
    be resumed; the budget in `settings` applies. Raises GoldenSetError for a data set that can't be read, ConfigError
    for a judge that doesn't support `method`, JudgeError if the judge fails.
    """
    if method not in METHODS:
        raise ConfigError(f"unknown method '{method}'.", hint=f"Known: {', '.join(METHODS)}.")
    items = load_items(dataset, split=split, limit=limit)
    uncached = provider_of(settings.judge.name).free
    cache = None if uncached else settings.path(settings.run.out) / CACHE
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
    judge = build_judge(settings.judge, golden_set=as_golden_set(items), cache=cache, environ=environ)
    try:
        return await evaluate_with(judge, items, name_of(dataset), method=method, seed=settings.run.seed)
    finally:
        await judge.close()


async def evaluate_with(
    judge: Judge, items: Sequence[Item], dataset: str, *, method: str = "metric", seed: int = 0
) -> MetaEvaluation:
    """How well `judge`, which is not closed, agrees with the people who labelled `items`. Raises as above."""
    ledger = Ledger()
    outcomes = await run_judge(judge, items, method=method, ledger=ledger)
    cases = [(outcome.item.task.value, outcome.item.difficulty or "", outcome.right) for outcome in outcomes]
    grades = grade_tasks(dataset, cases) if method == "metric" else ()
    return MetaEvaluation(dataset, judge.identity, method, summarise(outcomes, seed=seed), grades, ledger)


def as_golden_set(items: Sequence[Item]) -> GoldenSet:
    """The questions and references of `items`, for a judge that is fitted to the golden set."""
    samples: dict[tuple[str, str | None], Sample] = {}
    for item in items:
        case = item.first if isinstance(item, Pairwise) else item.case
        key = (case.question, case.reference)
        samples.setdefault(key, Sample(item.id, case.question, reference=case.reference))
    return GoldenSet(tuple(samples.values()))


def to_json(found: MetaEvaluation) -> str:
    """The machine-readable file: documented in docs/judges.md, schema version 1."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "ragstone_version": __version__,
        "dataset": found.dataset,
        "method": found.method,
        "judge": asdict(found.judge),
        "cost": asdict(found.ledger),
        "grades": [asdict(grade) for grade in found.grades],
        "results": [asdict(result) for result in found.results],
    }
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


@click.command(name="meta-eval")
@click.argument("dataset", type=PATH)
@with_options((CONFIG,), JUDGE[:-2])
@option(
    "--method",
    choices=["metric", "score", "ranking"],
    default="metric",
    help="Ragstone's metrics, or the RAGAS paper's GPT Score and GPT Ranking baselines.",
)
@option("--split", value="NAME", help="Split to use  [default: test, if it exists]")
@option("--limit", value="N", type=click.IntRange(min=1), help="Use only the first N items.")
@setting("seed")
@setting("out", help="Directory of the judgement cache")
@option("-o", "--output", value="FILE", help="Also write the results as JSON.")
@FORMAT
def command(
    dataset: Path, method: str, split: str | None, limit: int | None, output: Path | None, form: str, **flags: object
) -> None:
    """Measure a judge on a human-labelled data set.

    DATASET is "hard-cases", which come with Ragstone: a grade for each task, the weakest kinds of cases, and the cost.
    Or it is JSON Lines (or .jsonl.gz) in the format of docs/judges.md, or WikiEval, BEGIN, WiCE, HaluEval QA, CLAPNQ or
    the RAGChecker meta-evaluation, which are recognised by their fields; intervals are then 95 % bootstrap intervals
    over groups.
    """
    settings = settings_from(flags)
    found = run_to_end(evaluate_judge(settings, dataset, environ=os.environ, method=method, split=split, limit=limit))
    document = to_json(found)
    if output is not None:
        write_text(output, document)
    if form == "json":
        click.echo(document, nl=False)
    else:
        click.echo(terminal(render_text_template("results.txt.j2", "ragstone.tools.judging.metaeval", found=found)))
