"""The oracle half of a run: the system is asked the same questions again, and given the
reference contexts.

It is a run of generation alone, in the folder `oracle/` of the run directory. It comes
last, so that neither its load on the system nor its cost can affect what the gate
decides. If it can't be finished, the report says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ragstone.errors import ConfigError, GoldenSetError, RagstoneError
from ragstone.evaluation.directory import MANIFEST, ORACLE, RunDirectory
from ragstone.evaluation.lineage import remove_inner_run
from ragstone.evaluation.round_facts import OracleFacts
from ragstone.evaluation.rounds.round import add_cost, run_round
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.writer import update_manifest, update_rounds
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric
from ragstone.system.given import has_other_contexts


def refuse_oracle(golden: GoldenSet, metrics: Sequence[Metric]) -> None:
    """Raise ConfigError or GoldenSetError if an oracle half would show nothing: without
    a metric of the answer, or without reference contexts."""
    if not any(metric.info.is_in_oracle_round for metric in metrics):
        raise ConfigError(
            f"--oracle needs a metric of the answer, found {', '.join(metric.info.name for metric in metrics)}.",
            where="run.oracle",
            hint="Add one, preferably answer_correctness.",
        )
    if not any(sample.reference_contexts for sample in golden):
        raise GoldenSetError(
            "no sample has reference_contexts, which --oracle gives to the system.",
            hint="Add the passages that contain the answer, or leave out --oracle.",
        )


async def follow_with_oracle(run: RunDirectory, session: Session) -> RunDirectory:
    """Ask, judge and score the oracle half of the finished `run`; with --resume, the
    rest of it.

    It has the samples with reference contexts that the system could answer without
    them. Its cost is added to that of `run`. An error of the system or the judge, or a
    budget or time limit that is used up, ends it and is recorded; `run` itself is not
    affected.
    """
    plan, golden, context = session.plan, session.plan.golden, session.context
    scores = run.scores()
    out = run.path / ORACLE
    evaluated = golden.select(lambda sample: sample.id in scores.samples)
    with_contexts = samples_with_contexts(evaluated)
    samples = with_contexts.select(
        lambda sample: sample.id not in scores.system.failures
    )
    facts = OracleFacts(
        asked=len(samples),
        without=len(evaluated) - len(with_contexts),
        unanswered=len(with_contexts) - len(samples),
    )
    if not samples:
        return add_oracle_half(run, facts)
    context.say(
        f"asking {counted(len(samples), 'sample')} again with the reference contexts (oracle)"
    )
    quiet = replace(context.quiet("oracle"), progress=context.progress)
    reason = None
    try:
        if not plan.resume or not (out / MANIFEST).is_file():
            remove_inner_run(run.path, ORACLE)
        if session.is_budget_spent(run.manifest.cost):
            raise ConfigError("the judge's budget is used up.")
        metrics = divisible_metrics(plan.selected_metrics())
        half_metrics = replace(
            plan.metrics,
            system=plan.system.of_part("generation"),
            selected=tuple(metric.info.name for metric in metrics),
        )
        half = session.round(
            samples,
            half_metrics.system.build(quiet),
            metrics,
            out.absolute(),
            plan=replace(plan, metrics=half_metrics),
            resume=plan.resume,
            whole_golden=golden,
        )
        await run_round(half, quiet)
    except RagstoneError as error:
        reason = context.redact(error.message.split("\n", 1)[0])
        context.say(f"the oracle half ended early: {reason}")
    strangers = 0
    if (out / MANIFEST).is_file():
        for record in RunDirectory.open(out).records():
            if record.response.failure is None:
                strangers += has_other_contexts(
                    record.response, record.sample.reference_contexts
                )
    facts = facts.model_copy(update={"strangers": strangers, "incomplete": reason})
    return add_oracle_half(run, facts)


def divisible_metrics(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics whose distance from a perfect score can be divided into the shares of
    retrieval and generation."""
    return tuple(metric for metric in metrics if metric.info.is_in_oracle_round)


def samples_with_contexts(golden: GoldenSet) -> GoldenSet:
    """The samples that have reference contexts to give to the system."""
    return golden.select(lambda sample: bool(sample.reference_contexts))


def add_oracle_half(run: RunDirectory, facts: OracleFacts) -> RunDirectory:
    """Record `facts` in `run`, claim the oracle half in its folder, if there is one, as
    its own, and add the cost of that."""
    run = update_rounds(run, oracle=facts)
    folder = run.path / ORACLE
    if not (folder / MANIFEST).is_file():
        return run
    half = update_manifest(RunDirectory.open(folder), oracle_of=run.manifest.created_at)
    return add_cost(run, half.manifest.cost)
