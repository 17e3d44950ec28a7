"""The oracle half of a run: the same questions once more, with the reference contexts
given to the system.

It is a run of generation alone, in the folder `oracle/` of the run directory. It comes
last, so that neither its load on the system nor its cost can touch what the gate
decides: whatever keeps it from its end is a line in the report.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ragstone.errors import ConfigError, GoldenSetError, RagstoneError
from ragstone.evaluation.directory import MANIFEST, ORACLE, RunDirectory
from ragstone.evaluation.lineage import drop_carried
from ragstone.evaluation.round_facts import OracleFacts
from ragstone.evaluation.rounds.round import add_cost, run_round
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.writer import update_manifest, update_rounds
from ragstone.formatting import counted
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric
from ragstone.system.given import has_other_contexts


def refuse_oracle(golden: GoldenSet, metrics: Sequence[Metric]) -> None:
    """Raise ConfigError or GoldenSetError if there is nothing that an oracle half could
    tell."""
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
    """Ask, judge and score the oracle half of `run`, which is finished; with --resume,
    what is left of it.

    Only samples with reference contexts are asked, and only if the system has answered
    them without. What it costs counts as this run's. An error of the system or the
    judge, a budget or a time limit that is used up end it, and are recorded: the run
    itself is not touched.
    """
    plan, golden, context = session.plan, session.plan.golden, session.context
    scores, out = run.scores(), run.path / ORACLE
    evaluated = golden.select(lambda sample: sample.id in scores.samples)
    with_contexts = asked_again(evaluated)
    samples = with_contexts.select(
        lambda sample: sample.id not in scores.system.failures
    )
    fact = OracleFacts(
        asked=len(samples),
        without=len(evaluated) - len(with_contexts),
        unanswered=len(with_contexts) - len(samples),
    )
    if not samples:
        return with_half(run, fact)
    context.say(
        f"asking {counted(len(samples), 'sample')} again with the reference contexts (oracle)"
    )
    quiet = replace(context.quiet("oracle"), progress=context.progress)
    error = None
    try:
        if not plan.resume or not (out / MANIFEST).is_file():
            drop_carried(run.path, ORACLE)
        if session.budget_spent(run.manifest.cost):
            raise ConfigError("the judge's budget is used up.")
        metrics = divided(plan.selected_metrics())
        own = replace(
            plan.metrics,
            system=plan.system.of_part("generation"),
            selected=tuple(metric.info.name for metric in metrics),
        )
        half = session.round(
            samples,
            own.system.build(quiet),
            metrics,
            out.absolute(),
            plan=replace(plan, metrics=own),
            resume=plan.resume,
            whole=golden,
        )
        await run_round(half, quiet)
    except RagstoneError as raised:
        error = context.redact(raised.message.split("\n", 1)[0])
        context.say(f"the oracle half ended early: {error}")
    strangers = 0
    if (out / MANIFEST).is_file():
        for record in RunDirectory.open(out).records():
            if record.response.failure is None:
                strangers += has_other_contexts(
                    record.response, record.sample.reference_contexts
                )
    return with_half(
        run, fact.model_copy(update={"strangers": strangers, "incomplete": error})
    )


def divided(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics whose missing share can be divided into retrieval and generation."""
    return tuple(metric for metric in metrics if metric.info.is_in_oracle_round)


def asked_again(golden: GoldenSet) -> GoldenSet:
    """The samples that have contexts to give."""
    return golden.select(lambda sample: bool(sample.reference_contexts))


def with_half(run: RunDirectory, fact: OracleFacts) -> RunDirectory:
    """`run` with the oracle half in its folder, if there is one, described by `fact`;
    its cost is that of both."""
    run = update_rounds(run, oracle=fact)
    folder = run.path / ORACLE
    if not (folder / MANIFEST).is_file():
        return run
    half = update_manifest(RunDirectory.open(folder), oracle_of=run.manifest.created_at)
    return add_cost(run, half.manifest.cost)
