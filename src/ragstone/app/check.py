"""Validate everything a run needs, ask the system one question, and estimate the cost of judging."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragstone.app.base_commit import at_base, base_from_git, with_one_baseline
from ragstone.app.baseline import open_baseline, refuse_nested
from ragstone.app.context import RunContext
from ragstone.app.custom import Measures, measures_of, metrics_of, ungraded
from ragstone.app.decide import ComparedRun, Terms, gate_policy, model_name_warnings, policy_for
from ragstone.app.evaluate import describe_run
from ragstone.app.gate import refuse_groups
from ragstone.app.history import local_book
from ragstone.app.inputs import make_system, read_golden_set, refuse_without_given, shard_of
from ragstone.app.oracle import asked_again, oracle_settings, refuse_oracle
from ragstone.app.perturb import expected_partners, refuse_recorded, refuse_unwritten, written_questions
from ragstone.config import Settings
from ragstone.errors import SystemUnderTestError
from ragstone.formatting import counted, most_common, some
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.rehearsal import perfect_run
from ragstone.gate.resolution import as_judged, imagined_run, resolution, sights
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.verdict import Action, GateVerdict, Status
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.llm.estimate import CostEstimate, estimate_cost, estimate_rewording
from ragstone.judge.names import split_name
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed
from ragstone.judge.rubric import NO_MODEL
from ragstone.metrics.custom import FunctionMetric, RubricMetric
from ragstone.metrics.metric import Metric
from ragstone.report.templates import own_templates
from ragstone.run.scores import RunScores
from ragstone.run.writer import refuse_foreign
from ragstone.system.given import refuse_without_contexts
from ragstone.system.response import (
    GENERATION,
    RETRIEVAL,
    Response,
    System,
    SystemFailureKind,
    takes_contexts,
    takes_history,
)

GIANT_CONTEXT = 8_000
"""Characters. A single context that is longer is probably all passages in one."""


@dataclass(frozen=True, slots=True)
class MetricSize:
    """One metric: the samples that it applies to, what it needs in words, and its cost if it were the only one.

    `excuse` is the most frequent reason why it does not apply to the others, if there are any.
    """

    name: str
    applies: int
    needs: str
    estimate: CostEstimate
    excuse: str | None = None


@dataclass(frozen=True, slots=True)
class PerturbedSize:
    """Perturbed questions: how many samples are drawn, how many questions they make, and what these add to the cost."""

    samples: int
    kinds: tuple[str, ...]
    questions: int
    estimate: CostEstimate


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The setup of a run, and the response to one question."""

    golden: GoldenSet
    policy: Policy
    metrics: tuple[Metric, ...]
    judge: JudgeIdentity
    entrypoint: str
    asked: Sample
    response: Response
    estimate: CostEstimate
    baseline: str | None
    resolution: str | None
    rehearsal: GateVerdict
    sizes: tuple[MetricSize, ...]
    rules: tuple[Rule, ...] = ()
    warnings: tuple[str, ...] = ()
    history: str | None = None
    """What becomes of the earlier turns of conversations; None if the golden set has none."""
    part: str | None = None
    """Which half of the system is evaluated, and how; None for the whole."""
    oracle: str | None = None
    """What an oracle half asks, or whether there could be one; None for half of a system and recorded answers."""
    perturbed: PerturbedSize | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps every run from a verdict, a sentence each."""
        return tuple(
            check.reason
            for check in self.rehearsal.checks
            if check.status is Status.ERROR and check.action is Action.BLOCK
        )


async def check(settings: Settings, context: RunContext) -> CheckResult:
    """Raise the error that a run would raise, or describe the run. Makes no judge call.

    The gate is rehearsed with the best scores that a run could have: what it can't decide then, it never can.
    """
    settings = with_one_baseline(settings)
    shard_of(settings)
    refuse_recorded(settings)
    golden = read_golden_set(settings)
    policy, undrawn = policy_for(gate_policy(settings), golden)
    metrics = metrics_of(settings, golden)
    refuse_without_given(golden, settings)
    if settings.run.oracle:
        refuse_oracle(golden, metrics, settings)
    _refuse_places(settings, golden)
    baseline = settings.gate.baseline
    compared = None
    if baseline is not None:
        compared = ComparedRun.baseline(open_baseline(settings.path(baseline), any_run=settings.gate.baseline_any))
    before = compared.scores if compared is not None else None
    judge = build_judge(
        settings.judge, golden_set=golden, cache=None, environ=context.environ, tell_secret=context.redact.add
    )
    versions = 1 if settings.gate.baseline_commit is None else 2
    try:
        refuse_unwritten(settings, judge, judge.identity)
        system = make_system(settings, context)
        first = next((sample for sample in golden if sample.history), None) or _first(golden, settings)
        response = await _ask(system, first)
        estimate = estimate_cost(
            settings.judge, golden, metrics, repeats=settings.run.repeats, answers=versions * settings.run.answers
        )
        if settings.run.oracle:
            estimate = estimate.plus(await _try_oracle(system, golden, metrics, settings, context))
        measures = measures_of(metrics, settings, context.environ, context.system_factory, context.system_log)
        await _call_functions(measures, judge, first, response)
        if settings.gate.baseline_commit is not None:
            baseline = await _ask_base(settings, context, policy, first)
        unrecorded = await _unrecorded(make_system(settings, context), golden)
        manifest = describe_run(settings, context, golden, metrics, judge, system, policy_hash(policy))
        required = settings.gate.baseline is not None
        terms = Terms.of(policy, compared, context.now().date(), required=required, seed=settings.run.seed)
        best = perfect_run(golden, metrics, manifest)
        return CheckResult(
            golden=golden,
            policy=policy,
            metrics=metrics,
            judge=judge.identity,
            entrypoint=system.entrypoint,
            asked=first,
            response=response,
            estimate=estimate,
            baseline=baseline,
            sizes=tuple(_size(metric, golden, settings, judge, versions) for metric in metrics),
            rehearsal=decide_gate(
                best, best if versions == 2 else before, terms.in_force, baseline_required=terms.baseline_required
            ),
            rules=tuple(_in_force(policy, best)),
            history=_history(golden, system),
            part=_part(settings, system),
            oracle=_oracle(settings, golden, metrics, system),
            perturbed=_perturbed(settings, golden, metrics),
            warnings=(
                *undrawn,
                *remarks(response, metrics, settings.system.part),
                *unrecorded,
                *(
                    line
                    for lines in model_name_warnings(*split_name(settings.judge.name), context.now().date())
                    for line in lines
                ),
            ),
            resolution=_resolution(policy, before, metrics, sum(not sample.draft for sample in golden), judge.identity),
        )
    finally:
        await judge.close()


def _in_force(policy: Policy, best: RunScores) -> Iterator[Rule]:
    """The rules for `best`. Of the default ones, those for metrics that apply to a sample."""
    for rule in resolve_rules(policy, best).rules:
        scores = best.metrics.get(rule.metric)
        if policy.names_metrics or (scores is not None and scores.values):
            yield rule


def _size(metric: Metric, golden: GoldenSet, settings: Settings, judge: Judge, versions: int) -> MetricSize:
    name = metric.info.name
    excuses = [found.reason for sample in golden if (found := metric.excuse(sample)) is not None]
    kinds = sorted({kind for sample in golden for kind in metric.needs(sample)})
    needs = ", ".join(str(kind).replace("_", " ") for kind in kinds) or "no judge"
    if isinstance(metric, FunctionMetric):
        needs = f"function {settings.metrics[name].python}"
    if isinstance(metric, RubricMetric):
        needs = f"rubric: {', '.join(metric.rubric.sees)}"
    if name in ungraded([metric], judge):
        excuses = [NO_MODEL.format(judge.identity.label())] * len(golden)
    estimate = estimate_cost(
        settings.judge, golden, [metric], repeats=settings.run.repeats, answers=versions * settings.run.answers
    )
    return MetricSize(name, len(golden) - len(excuses), needs, estimate, most_common(excuses) if excuses else None)


def _perturbed(settings: Settings, golden: GoldenSet, metrics: Sequence[Metric]) -> PerturbedSize | None:
    if not settings.run.perturb:
        return None
    found = expected_partners(settings, golden)
    asked = [metric for metric in metrics if not metric.info.relative]
    own = estimate_cost(settings.judge, found, asked, repeats=settings.run.repeats, answers=settings.run.answers).plus(
        estimate_rewording(settings.judge, written_questions(found))
    )
    samples = {sample.perturbation.of for sample in found if sample.perturbation is not None}
    return PerturbedSize(len(samples), settings.run.perturb, len(found), own)


def _history(golden: GoldenSet, system: System) -> str | None:
    count = sum(bool(sample.history) for sample in golden)
    if not count:
        return None
    taken = {
        True: "passed to the entrypoint",
        False: "NOT passed: the entrypoint has no parameter or field `history`, so it gets the last question alone",
        None: "sent with the question; whether the system reads them can't be known",
    }[takes_history(system)]
    return f"{counted(count, 'sample')} with earlier turns, {taken}"


def _first(golden: GoldenSet, settings: Settings) -> Sample:
    """The first sample; for generation alone, the first with contexts to give."""
    given = (sample for sample in golden if sample.reference_contexts)
    return (next(given, None) if settings.system.part == GENERATION else None) or next(iter(golden))


def _part(settings: Settings, system: System) -> str | None:
    if settings.system.part == RETRIEVAL:
        return "retrieval alone: contexts are scored, and no answer is expected"
    if settings.system.part != GENERATION:
        return None
    if not system.can_be_asked_again:
        return "generation alone: recorded answers, judged by the reference contexts"
    said = "takes" if takes_contexts(system) or settings.system.takes_contexts else "is sent"
    unknown = "" if said == "takes" else "; whether the system reads them can't be known"
    return f"generation alone: the entrypoint {said} the reference contexts of each sample{unknown}"


async def _try_oracle(
    system: System, golden: GoldenSet, metrics: Sequence[Metric], settings: Settings, context: RunContext
) -> CostEstimate:
    """What judging an oracle half costs; `system`, which was started, takes contexts, and answers one question so."""
    refuse_without_contexts(system, settings.system.takes_contexts, "--oracle")
    given, again = asked_again(golden), oracle_settings(settings, metrics)
    await _ask(make_system(again, context), next(iter(given)))
    divided = [metric for metric in metrics if metric.info.divides]
    run = settings.run
    return estimate_cost(settings.judge, given, divided, repeats=run.repeats, answers=run.answers)


def _oracle(settings: Settings, golden: GoldenSet, metrics: Sequence[Metric], system: System) -> str | None:
    if settings.system.part is not None or not system.can_be_asked_again:
        return None
    taken = settings.system.takes_contexts
    taken = takes_contexts(system) if taken is None else taken
    says = {
        True: "the entrypoint takes contexts",
        False: "the entrypoint takes no contexts",
        None: "contexts are sent with the question; whether the system reads them can't be known",
    }[taken]
    if not settings.run.oracle:
        return f"not asked for; {says}"
    n = f"{len(asked_again(golden)):,} of {counted(len(golden), 'sample')}"
    names = [metric.info.name for metric in metrics if metric.info.divides]
    best = "" if "answer_correctness" in names else "; answer_correctness would tell most"
    return f"{n} asked again with the reference contexts; {says}; {', '.join(names)}{best}"


def _refuse_places(settings: Settings, golden: GoldenSet) -> None:
    """Raise the error of a run that can't read or write one of its other places, or use them together."""
    out = settings.path(settings.run.out)
    refuse_foreign(out)
    if settings.gate.baseline is not None:
        refuse_nested(settings.path(settings.gate.baseline), out)
    if settings.run.stop_early:
        refuse_groups(golden)
    local_book(settings)
    own_templates(settings.root)


async def _unrecorded(system: System, golden: GoldenSet) -> tuple[str, ...]:
    """A warning about samples without a recorded answer, if answers are recorded: asking for them costs nothing."""
    if system.can_be_asked_again:
        return ()
    try:
        await system.start()
        lacking = [sample.id for sample in golden if (await system.ask(sample)).failure is not None]
    finally:
        await system.close()
    if not lacking:
        return ()
    return (f"{len(lacking)} of {counted(len(golden), 'sample')} have no usable recorded answer: {some(lacking)}.",)


def remarks(response: Response, metrics: Sequence[Metric], part: str | None = None) -> Iterator[str]:
    """Sentences on a response that is valid, and unlikely to be what was meant. `part`: of that half alone. Pure."""
    answer = response.answer.strip()
    if part == RETRIEVAL:
        pass
    elif not answer:
        yield "The answer is empty."
    elif answer[0] in "[{" and _is_json(answer):
        yield (
            "The answer is JSON text. If it contains the answer, return the object instead of a string, or name its "
            "field in system.answer_field."
        )
    sizes = [len(context.text) for context in response.contexts]
    if not sizes and part == RETRIEVAL:
        yield "No contexts were returned: an empty list is a retriever that found nothing."
    elif not sizes:
        scored = [metric.info.name for metric in metrics if metric.info.blames != "generation"]
        wanted = ", ".join(dict.fromkeys(["faithfulness", *scored]))
        yield (
            f"No contexts were returned, so nothing can be said of retrieval ({wanted}): return a mapping with answer "
            "and contexts, or a pair of them, or name their field in system.contexts_field."
        )
    elif len(sizes) == 1 and sizes[0] > GIANT_CONTEXT:
        yield (
            f"There is one context of {sizes[0]:,} characters. If it is several passages, return them as a list: "
            "metrics judge each context by itself."
        )


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


async def _ask(system: System, sample: Sample) -> Response:
    """The answer of `system`, which is started and closed. Raises SystemUnderTestError if there is none."""
    try:
        await system.start()
        response = await system.ask(sample)
    finally:
        await system.close()
    if response.failure is not None:
        raise SystemUnderTestError(
            f"the entrypoint failed on the first question ({sample.id}): "
            f"{response.failure.kind}: {response.failure.message}"
            + (f"\n{response.failure.detail}" if response.failure.detail else ""),
            where=system.entrypoint,
            hint="Fix the system, or raise --timeout if it needs longer."
            if response.failure.kind is SystemFailureKind.TIMEOUT
            else "Fix the system; it is asked like this for each sample.",
        )
    return response


async def _call_functions(measures: Measures, judge: Judge, sample: Sample, response: Response) -> None:
    """Call the functions of custom metrics once. Raises SystemUnderTestError for one that fails."""
    try:
        await measures.start()
        for name in measures.functions:
            try:
                await measures.by_name[name](judge, sample, response, Call(sample.id))
            except JudgementFailed as failure:
                raise SystemUnderTestError(
                    f"the function of a metric failed on the first answer ({sample.id}): {failure.reason}",
                    where=f"metrics.{name}",
                    hint="Return True, False, a number from 0 to 1, or None if it does not apply.",
                ) from None
    finally:
        await measures.close()


async def _ask_base(settings: Settings, context: RunContext, policy: Policy, sample: Sample) -> str:
    """The base commit in words, after asking its system too."""
    with base_from_git(settings, context, policy) as base:
        try:
            response = await _ask(base.make(), sample)
        except SystemUnderTestError as error:
            raise at_base(error, base) from None
    return (
        f"{base.name}, asked in the same job: answered '{sample.id}' with {counted(len(response.contexts), 'context')}"
    )


def _resolution(
    policy: Policy, before: RunScores | None, metrics: tuple[Metric, ...], samples: int, judge: JudgeIdentity
) -> str | None:
    """The drop that this number of samples detects, using the baseline's scores or else typical variances."""
    if policy.gate.decision != "evidence" or not samples:
        return None
    rules = resolve_rules(policy, before or imagined_run(policy)).rules
    measured = {metric.info.name for metric in metrics}
    rules = tuple(rule for rule in as_judged(rules, policy, offline=judge.offline) if rule.metric in measured)
    found = sights(rules, policy.alpha, before, samples=samples)
    return resolution(found)[0]
