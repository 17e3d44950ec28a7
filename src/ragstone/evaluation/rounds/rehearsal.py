"""A dry run: each round asks its system one question, as it would ask all of them, and
judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial

from msgspec import Struct

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.conversation import ask_in_order, with_earlier_turns
from ragstone.evaluation.rounds.base_commit import BaseSystem, blame_base
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.oracle import divisible_metrics, samples_with_contexts
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.llm.cost_estimate import estimate_cost
from ragstone.judge.llm.prices import CostEstimate
from ragstone.metrics.metric import Metric
from ragstone.system.response import Response, System, SystemFailureKind


class Rehearsal(Struct, frozen=True):
    """The dry run of one round.

    - `system`: not yet started.
    - `samples`: the samples of the round, one of which is asked.
    - `check_system`: called with the system when it has answered.
    - `reword_error`: returns the error to raise instead of the system's.
    """

    system: System
    samples: GoldenSet
    metrics: Sequence[Metric]
    check_system: Callable[[System], None] = lambda _system: None
    reword_error: Callable[[SystemUnderTestError], SystemUnderTestError] = (
        lambda error: error
    )


class RehearsalResult(Struct, frozen=True):
    """The response to the one question of a dry run."""

    system: System
    """The system, which is closed."""
    sample: Sample
    response: Response
    cost: CostEstimate
    """What judging the whole round costs at most."""


def rehearsals(
    plan: RunPlan, base: BaseSystem | None, context: RunContext
) -> Iterator[Rehearsal]:
    """The dry run of each round of `plan`, in the order of the rounds. Raises
    ConfigError."""
    metrics = plan.selected_metrics()
    yield Rehearsal(
        plan.system.build(context), plan.golden, metrics, plan.check_started
    )
    if base is not None:
        yield Rehearsal(
            base.make(),
            plan.golden,
            metrics,
            reword_error=partial(blame_base, base=base),
        )
    if plan.oracle:
        generation = plan.system.of_part("generation")
        yield Rehearsal(
            generation.build(context),
            samples_with_contexts(plan.golden),
            divisible_metrics(metrics),
        )


async def rehearse(rehearsal: Rehearsal, plan: RunPlan) -> RehearsalResult:
    """Ask the system one question, of a conversation if there is one. Raises
    SystemUnderTestError if it does not answer."""
    samples = rehearsal.samples
    if plan.system.settings.part == "generation":
        # Only a sample with contexts shows whether the system takes them.
        samples = samples_with_contexts(samples) or samples
    conversations = rehearsal.samples.select(lambda sample: bool(sample.history))
    sample = (conversations or samples)[0]
    try:
        response = await _answer(rehearsal.system, sample)
        rehearsal.check_system(rehearsal.system)
    except SystemUnderTestError as error:
        raise rehearsal.reword_error(error) from None
    cost = estimate_cost(
        plan.judge.settings,
        rehearsal.samples,
        rehearsal.metrics,
        repeats=plan.repeats,
        answers_per_sample=plan.answers_per_sample,
    )
    return RehearsalResult(rehearsal.system, sample, response, cost)


async def _answer(system: System, sample: Sample) -> Response:
    """Start the system, ask it, and close it. Raises SystemUnderTestError if `sample`
    fails, or a turn before it."""
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
    hint = "Fix the system: a run would ask it in the same way for each sample."
    if failure.kind is SystemFailureKind.TIMEOUT:
        hint = "Fix the system, or raise timeout_s in [system] if it needs longer."
    detail = f"\n{failure.detail}" if failure.detail else ""
    raise SystemUnderTestError(
        f"the entrypoint failed on the first question ({response.sample_id}): {failure.kind}: {failure.message}{detail}",
        where=system.entrypoint,
        hint=hint,
    )
