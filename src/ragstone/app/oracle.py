"""The oracle half of a run: the same questions once more, with the reference contexts given to the system.

It is a run of generation alone, in the folder `oracle/` of the run directory. It comes last, so that neither its load
on the system nor its cost can touch what the gate decides: whatever keeps it from its end is a line in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ragstone.app.context import RunContext
from ragstone.app.custom import metrics_of
from ragstone.app.evaluate import evaluate_golden_set
from ragstone.app.inputs import make_system, read_golden_set
from ragstone.app.run import evaluate_run
from ragstone.config import Settings
from ragstone.errors import ConfigError, GoldenSetError, RagstoneError, TimeLimitReached
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.protocol import Judge
from ragstone.metrics.metric import Metric
from ragstone.run.directory import CACHE, MANIFEST, ORACLE, RunDirectory, read_manifest
from ragstone.run.lineage import drop_carried
from ragstone.run.manifest import Manifest, OracleFact
from ragstone.run.writer import write_manifest
from ragstone.system.entrypoint import recognised
from ragstone.system.given import ignores
from ragstone.system.response import GENERATION, System

MakeSystem = Callable[[Settings, RunContext], System]


async def run_with_oracle(settings: Settings, context: RunContext) -> RunDirectory:
    """`evaluate_run`, and its oracle half if the settings ask for one."""
    golden = read_golden_set(settings)
    if settings.run.oracle:
        refuse_oracle(golden, metrics_of(settings, golden), settings)
    run = await evaluate_run(settings, context, golden=golden)
    return await add_oracle(run, golden, settings, context) if settings.run.oracle else run


def refuse_oracle(golden: GoldenSet, metrics: Sequence[Metric], settings: Settings) -> None:
    """Raise ConfigError or GoldenSetError if there is nothing that an oracle half could tell."""
    where, entrypoint = "run.oracle", recognised(settings.system.entrypoint)
    if settings.system.part is not None:
        raise ConfigError(
            f'an oracle half compares the whole system with its generation, and part = "{settings.system.part}".',
            where=where,
            hint="Leave out --oracle, or part under [system].",
        )
    if entrypoint is not None and not entrypoint.can_be_asked_again:
        raise ConfigError(
            "recorded answers can't be asked for again with other contexts.",
            where=where,
            hint="Leave out --oracle, or use an entrypoint that can be asked.",
        )
    if not any(metric.info.divides for metric in metrics):
        raise ConfigError(
            f"none of the metrics is of the answer ({', '.join(metric.info.name for metric in metrics)}).",
            where=where,
            hint="Add one, best of all answer_correctness.",
        )
    if not any(sample.reference_contexts for sample in golden):
        raise GoldenSetError(
            "no sample has reference_contexts, which --oracle gives to the system.",
            hint="Add the passages that contain the answer, or leave out --oracle.",
        )


def asked_again(golden: GoldenSet) -> GoldenSet:
    """The samples that have contexts to give."""
    return GoldenSet(tuple(sample for sample in golden if sample.reference_contexts), golden.mappings, golden.limited)


def oracle_settings(settings: Settings, metrics: Sequence[Metric]) -> Settings:
    """The settings of the oracle half: generation alone, by the metrics that can be divided."""
    names = tuple(metric.info.name for metric in metrics if metric.info.divides)
    run = settings.run.model_copy(update={"oracle": False, "perturb": (), "metrics": names, "stop_early": False})
    system = settings.system.model_copy(update={"part": GENERATION})
    return settings.model_copy(update={"run": run, "system": system})


async def add_oracle(
    run: RunDirectory,
    golden: GoldenSet,
    settings: Settings,
    context: RunContext,
    *,
    make: MakeSystem = make_system,
    judge: Judge | None = None,
    elapsed_s: float = 0.0,
) -> RunDirectory:
    """Ask, judge and score the oracle half of `run`, which is finished; with --resume, what is left of it.

    Only samples with reference contexts are asked, and only if the system has answered them without. `make` builds the
    system, `judge` is one to use instead of building it (not closed), `elapsed_s` is what was used of the time limit.
    What it costs counts as this run's. An error of the system or the judge, a budget or a time limit that is used up
    end it, and are recorded: the run itself is not touched.
    """
    scores, out = run.scores(), run.path / ORACLE
    evaluated = [sample for sample in golden if sample.id in scores.samples]
    given = [sample for sample in evaluated if sample.reference_contexts]
    asked = [sample for sample in given if sample.id not in scores.system.failures]
    fact = OracleFact(asked=len(asked), without=len(evaluated) - len(given), unanswered=len(given) - len(asked))
    if not asked:
        return with_half(run, fact)
    context.say(f"asking {counted(len(asked), 'sample')} again with the reference contexts (oracle)")
    log = context.system_log.with_name(f"oracle-{context.system_log.name}") if context.system_log else None
    quiet = replace(context, invocation=None, say=lambda _line: None, system_log=log)
    mine, error = judge, None
    try:
        if not settings.run.resume or not (out / MANIFEST).is_file():
            drop_carried(run.path, ORACLE)
        again = _left(oracle_settings(settings, metrics_of(settings, golden)), run.manifest, elapsed_s)
        if mine is None:
            mine = build_judge(
                again.judge,
                golden_set=golden,
                cache=run.path / CACHE,
                environ=context.environ,
                tell_secret=context.redact.add,
                within=settings.within,
            )
        again = again.model_copy(update={"run": again.run.model_copy(update={"out": str(out.absolute())})})
        part = GoldenSet(tuple(asked), golden.mappings)
        await evaluate_golden_set(part, make(again, quiet), mine, again, quiet, whole=golden)
    except RagstoneError as raised:
        error = context.redact(raised.message.split("\n", 1)[0])
        context.say(f"the oracle half ended early: {error}")
    finally:
        if mine is not None and judge is None:
            await mine.close()
    half = _claimed(run)
    if half is not None:
        strangers = sum(
            ignores(record.sample.reference_contexts, record.response)
            for record in half.records()
            if record.response.failure is None
        )
        fact = fact.model_copy(update={"strangers": strangers})
    return with_half(run, fact.model_copy(update={"incomplete": error}))


def with_half(run: RunDirectory, fact: OracleFact) -> RunDirectory:
    """`run` with the oracle half in its folder, if there is one, described by `fact`; its cost is that of both."""
    half = _claimed(run)
    cost = run.manifest.cost if half is None else run.manifest.cost.plus(half.manifest.cost)
    manifest = run.manifest.model_copy(update={"oracle": fact, "cost": cost})
    write_manifest(run.path, manifest)
    return run.with_manifest(manifest)


def _left(settings: Settings, spent: Manifest, elapsed_s: float) -> Settings:
    """`settings` with what is left of the budget and the time limit. Raises ConfigError, TimeLimitReached."""
    judge, limit = settings.judge, settings.run.time_limit_s
    if judge.max_cost_usd is not None:
        usd = spent.cost.usd
        if usd is None or usd >= judge.max_cost_usd:
            raise ConfigError("the judge's budget is used up.", where="judge.max_cost_usd")
        judge = judge.model_copy(update={"max_cost_usd": judge.max_cost_usd - usd})
    if limit is not None and (limit := limit - elapsed_s) <= 0:
        raise TimeLimitReached
    # What was judged in this run is in its cache, also if the run was to judge everything anew.
    judge = judge.model_copy(update={"refresh": False})
    run = settings.run.model_copy(update={"time_limit_s": limit})
    return settings.model_copy(update={"judge": judge, "run": run})


def _claimed(run: RunDirectory) -> RunDirectory | None:
    """The oracle half of `run`, marked as such; None if nothing was written."""
    folder = run.path / ORACLE
    if not (folder / MANIFEST).is_file():
        return None
    manifest = read_manifest(folder).model_copy(update={"oracle_of": run.manifest.created_at})
    write_manifest(folder, manifest)
    return RunDirectory(folder, manifest)
