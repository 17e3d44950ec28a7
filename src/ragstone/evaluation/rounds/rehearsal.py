"""A dry run of the rounds of a run: each asks its system one question, as it would ask
them all, and judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial

from msgspec import Struct

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.conversation import ask_in_order, with_earlier_turns
from ragstone.evaluation.rounds.base_commit import BaseSystem, at_base
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.oracle import asked_again, divided
from ragstone.evaluation.rounds.plan import RunPlan
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.llm.estimate import estimate_cost
from ragstone.judge.llm.prices import CostEstimate
from ragstone.metrics.metric import Metric
from ragstone.system.response import Response, System, SystemFailureKind


class Rehearsal(Struct, frozen=True):
    """One question of a round: which samples it asks of which system (not yet started),
    for which metrics.

    `accepts` is called with the system when it has answered, and `blames` words its
    error.
    """

    system: System
    samples: GoldenSet
    metrics: Sequence[Metric]
    accepts: Callable[[System], None] = lambda _system: None
    blames: Callable[[SystemUnderTestError], SystemUnderTestError] = lambda error: error


class Rehearsed(Struct, frozen=True):
    """The question and its answer, the system, closed again, and what judging the round
    costs at most."""

    system: System
    sample: Sample
    response: Response
    cost: CostEstimate


def rehearsals(
    plan: RunPlan, base: BaseSystem | None, context: RunContext
) -> Iterator[Rehearsal]:
    """What each round of `plan` asks, the first one first. Raises ConfigError."""
    metrics = plan.selected_metrics()
    yield Rehearsal(
        plan.system.build(context), plan.golden, metrics, plan.check_started
    )
    if base is not None:
        yield Rehearsal(
            base.make(), plan.golden, metrics, blames=partial(at_base, base=base)
        )
    if plan.oracle:
        generation = plan.system.of_part("generation")
        yield Rehearsal(
            generation.build(context), asked_again(plan.golden), divided(metrics)
        )


async def rehearse(this: Rehearsal, plan: RunPlan) -> Rehearsed:
    """Ask the system one question, of a conversation if there is one. Raises
    SystemUnderTestError without an answer."""
    samples = this.samples
    if plan.system.settings.part == "generation":
        # Where contexts are given, a sample without any shows nothing.
        samples = asked_again(samples) or samples
    conversations = this.samples.select(lambda sample: bool(sample.history))
    sample = (conversations or samples)[0]
    try:
        response = await _answer(this.system, sample)
        this.accepts(this.system)
    except SystemUnderTestError as error:
        raise this.blames(error) from None
    cost = estimate_cost(
        plan.judge.settings,
        this.samples,
        this.metrics,
        repeats=plan.repeats,
        answers_per_sample=plan.answers_per_sample,
    )
    return Rehearsed(this.system, sample, response, cost)


async def _answer(system: System, sample: Sample) -> Response:
    """The response to `sample`. Raises SystemUnderTestError for one that failed, or for
    the first turn before it that did."""
    turns = [sample] if sample.turn is None else with_earlier_turns([sample])
    try:
        await system.start()
        conversation = ask_in_order(
            system, turns, lambda session, turn: session.ask(turn), keeps_contexts=True
        )
        async with aclosing(conversation):
            async for _, response in conversation:
                if response.failure is not None:
                    break
    finally:
        await system.close()
    failure = response.failure
    if failure is None:
        return response
    hint = "Fix the system; it is asked like this for each sample."
    if failure.kind is SystemFailureKind.TIMEOUT:
        hint = "Fix the system, or raise timeout_s in [system] if it needs longer."
    detail = ""
    if failure.detail:
        detail = f"\n{failure.detail}"
    name = response.sample_id
    raise SystemUnderTestError(
        f"the entrypoint failed on the first question ({name}): {failure.kind}: {failure.message}{detail}",
        where=system.entrypoint,
        hint=hint,
    )
