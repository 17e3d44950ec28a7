"""Validate everything a run needs, ask the system one question, and estimate the cost of judging."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.rounds.base_commit import BaseSystem, at_base
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.needs import refuse_conflicts
from ragstone.evaluation.rounds.oracle import asked_again, divided, refuse_oracle
from ragstone.evaluation.rounds.project_metrics import Measures, ungraded
from ragstone.evaluation.rounds.round import Round, refuse_without_given
from ragstone.evaluation.rounds.session import RunPlan
from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.writer import refuse_foreign
from ragstone.formatting import counted, most_common, some
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.question_changes import needed_questions
from ragstone.gate.rehearsal import perfect_run
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.sensitivity import as_judged, imagined_run, resolution, sights
from ragstone.gate.verdict import Action, GateVerdict, Status
from ragstone.gate.warnings import FLOORS_WARN
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.llm.estimate import CostEstimate, estimate_cost
from ragstone.judge.names import split_name
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed
from ragstone.judge.rubric import NO_MODEL
from ragstone.metrics.custom import FunctionMetric, RubricMetric
from ragstone.metrics.metric import BaseMetric, Metric
from ragstone.pipeline.baseline import NamedRun, open_baseline, refuse_nested
from ragstone.pipeline.decide import ComparedRun, Terms, model_name_warnings, policy_for
from ragstone.pipeline.gate import GateRequest
from ragstone.pipeline.judge_agreement import agreement_with_people
from ragstone.report.escape import one_line
from ragstone.report.templates import render_lines
from ragstone.system.given import refuse_without_contexts
from ragstone.system.response import (
    GENERATION,
    NO_TEXTS,
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
    agreement: str
    """How far the judge agrees with people."""
    rehearsal: GateVerdict
    sizes: tuple[MetricSize, ...]
    rules: tuple[Rule, ...] = ()
    warnings: tuple[str, ...] = ()
    part: str | None = None
    """Which half of the system is evaluated; None for the whole."""
    asks: bool = True
    """Whether the system is asked; False for recorded answers."""
    takes_history: bool | None = None
    takes_contexts: bool | None = None
    """Whether the entrypoint takes earlier turns, and contexts that it is given; None if that can't be known."""
    divided: tuple[str, ...] | None = None
    """The metrics that an oracle half divides; None without one."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps every run from a verdict, a sentence each."""
        return tuple(
            check.reason
            for check in self.rehearsal.checks
            if check.status is Status.ERROR and check.action is Action.BLOCK
        )


async def check(request: GateRequest, context: RunContext) -> CheckResult:
    """Raise the error that a run would raise, or describe the run. Makes no judge call.

    The gate is rehearsed with the best scores that a run could have: what it can't decide then, it never can.
    """
    refuse_conflicts(request.parts())
    plan = request.run
    golden, part, told = plan.golden, plan.system.settings.part, plan.system.settings.takes_contexts
    policy, undrawn = policy_for(request.policy, golden)
    metrics = plan.selected_metrics()
    refuse_without_given(golden, part)
    if plan.oracle:
        refuse_oracle(golden, metrics)
    _refuse_places(request)
    baseline, compared = None, None
    if isinstance(request.baseline, NamedRun):
        baseline = request.baseline.name
        compared = ComparedRun.baseline(open_baseline(request.baseline.path))
    before = compared.scores if compared is not None else None
    judge = plan.judge.build(golden, None, context)
    versions = 1 if request.base is None else 2
    try:
        system = plan.system.build(context)
        first = next((sample for sample in golden if sample.history), None) or _first(golden, part)
        response = await _ask(system, first)
        estimate = _cost(plan, golden, metrics, versions)
        if plan.oracle:
            estimate = estimate.plus(await _try_oracle(system, metrics, plan, context))
        await _call_functions(plan.metrics.measures(metrics, context), judge, first, response)
        if request.base is not None:
            baseline = await _ask_base(request, first)
        unrecorded = await _unrecorded(plan.system.build(context), golden)
        described = Round(
            golden,
            system,
            judge,
            metrics,
            plan.metrics,
            plan.out,
            answers=plan.answers,
            repeats=plan.repeats,
            policy_hash=policy_hash(policy),
        )
        manifest = described.describe(context)
        terms = Terms.of(policy, compared, context.now().date(), required=compared is not None, seed=plan.seed)
        best = perfect_run(golden, metrics, manifest, response)
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
            sizes=tuple(_size(metric, judge, plan, response, versions) for metric in metrics),
            rehearsal=decide_gate(
                best, best if versions == 2 else before, terms.in_force, baseline_required=terms.baseline_required
            ),
            rules=tuple(_in_force(policy, best)),
            part=part,
            asks=system.can_be_asked_again,
            takes_history=takes_history(system),
            takes_contexts=takes_contexts(system) if told is None else told,
            divided=tuple(one.info.name for one in divided(metrics)) if plan.oracle else None,
            warnings=(
                *undrawn,
                *(f"{mapping.file}: {note}." for mapping in golden.mappings for note in mapping.notes),
                *remarks(response, metrics, part),
                *_unknown_ids(response, golden),
                *_default_rules(policy, judge.identity),
                *unrecorded,
                *(
                    line
                    for lines in model_name_warnings(*split_name(plan.judge.settings.name), context.now().date())
                    for line in lines
                ),
            ),
            agreement=agreement_with_people(
                judge.identity, policy.calibration, [metric.info.name for metric in metrics]
            ),
            resolution=_resolution(policy, before, metrics, sum(1 for _ in golden.counting()), judge.identity),
        )
    finally:
        await judge.close()


def _cost(plan: RunPlan, golden: GoldenSet, metrics: Sequence[Metric], versions: int = 1) -> CostEstimate:
    """What judging costs, if the system is asked in so many `versions`."""
    answers = versions * plan.answers
    return estimate_cost(plan.judge.settings, golden, metrics, repeats=plan.repeats, answers=answers)


def _in_force(policy: Policy, best: RunScores) -> Iterator[Rule]:
    """The rules for `best`. Of the default ones, those for metrics that apply to a sample."""
    for rule in resolve_rules(policy, best).rules:
        scores = best.metrics.get(rule.metric)
        if rule.written or (scores is not None and scores.values):
            yield rule


def _size(metric: Metric, judge: Judge, plan: RunPlan, response: Response, versions: int) -> MetricSize:
    name, golden = metric.info.name, plan.golden
    excuses = [found.reason for sample in golden if (found := metric.excuse(sample)) is not None]
    kinds = sorted({kind for sample in golden for kind in metric.needs(sample)})
    needs = ", ".join(str(kind).replace("_", " ") for kind in kinds) or "no judge"
    if isinstance(metric, FunctionMetric):
        needs = f"function {plan.metrics.custom[name].python}"
    if isinstance(metric, RubricMetric):
        needs = f"rubric: {', '.join(metric.rubric.sees)}"
    if name in ungraded([metric], judge):
        excuses = [NO_MODEL.format(judge.identity.label())] * len(golden)
    if response.without_texts and isinstance(metric, BaseMetric) and metric.reads_texts:
        excuses = [NO_TEXTS] * len(golden)
    excuse = most_common(excuses) if excuses else None
    return MetricSize(name, len(golden) - len(excuses), needs, _cost(plan, golden, [metric], versions), excuse)


def _first(golden: GoldenSet, part: str | None) -> Sample:
    """The first sample; for generation alone, the first with contexts to give."""
    given = (sample for sample in golden if sample.reference_contexts)
    return (next(given, None) if part == GENERATION else None) or next(iter(golden))


async def _try_oracle(system: System, metrics: Sequence[Metric], plan: RunPlan, context: RunContext) -> CostEstimate:
    """What judging an oracle half costs; `system`, which was started, takes contexts, and answers one question so."""
    refuse_without_contexts(system, plan.system.settings.takes_contexts, "--oracle")
    given = asked_again(plan.golden)
    await _ask(plan.system.of_part("generation").build(context), next(iter(given)))
    return _cost(plan, given, divided(metrics))


def _refuse_places(request: GateRequest) -> None:
    """Raise the error of a run that can't write its directory, or use it and the baseline together."""
    out = request.run.out
    refuse_foreign(out)
    if isinstance(request.baseline, NamedRun):
        refuse_nested(request.baseline.path, out)


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


def remarks(response: Response, metrics: Sequence[Metric], part: str | None = None) -> list[str]:
    """Sentences on a response that is valid, and unlikely to be what was meant. `part`: of that half alone. Pure."""
    answer = response.answer.strip()
    return render_lines(
        "remarks.txt.j2",
        "ragstone.pipeline",
        part=part,
        answer=answer,
        is_json=answer[:1] in ("[", "{") and _is_json(answer),
        sizes=[len(context.text) for context in response.contexts],
        giant=GIANT_CONTEXT,
        names=[one_line(str(context.id)) for context in response.contexts] if response.without_texts else [],
        scored=[metric.info.name for metric in metrics if metric.info.blames != "generation"],
        unmeasured=[one.info.name for one in metrics if isinstance(one, BaseMetric) and one.reads_texts],
    )


def _default_rules(policy: Policy, judge: JudgeIdentity) -> Iterator[str]:
    """A sentence if the policy, such as the one that `ragstone init` writes, leaves all rules to the defaults."""
    if policy.file is not None and not policy.named:
        floors = f", and {FLOORS_WARN}" if judge.offline else ""
        yield f"{policy.file} names no metric: the default rules apply{floors}."


def _unknown_ids(response: Response, golden: GoldenSet) -> Iterator[str]:
    """A sentence if the contexts have ids, and the golden set names others only."""
    returned = {context.id: None for context in response.contexts if context.id is not None}
    relevant = {name: None for sample in golden for name in sample.relevant_ids}
    if returned and relevant and not returned.keys() & relevant.keys():
        yield (
            f"None of the ids that were returned ({some(list(returned), 3)}) is among the relevant_ids of the golden "
            f"set ({some(list(relevant), 3)}): ids are compared as they are written."
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
            hint="Fix the system, or raise timeout_s in [system] if it needs longer."
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


async def _ask_base(request: GateRequest, sample: Sample) -> str:
    """The base commit in words, after asking its system too."""
    with ExitStack() as stack:
        base = request.base
        assert base is not None  # noqa: S101 - for the type checker
        base = base if isinstance(base, BaseSystem) else stack.enter_context(base())
        try:
            response = await _ask(base.make(), sample)
        except SystemUnderTestError as error:
            raise at_base(error, base) from None
        contexts = counted(len(response.contexts), "context")
        return f"{base.name}, asked in the same job: answered '{sample.id}' with {contexts}"


def _resolution(
    policy: Policy, before: RunScores | None, metrics: tuple[Metric, ...], samples: int, judge: JudgeIdentity
) -> str | None:
    """The drop that this number of samples detects, using the baseline's scores or else typical variances."""
    if policy.gate.decision != "evidence" or not samples:
        return None
    rules = resolve_rules(policy, before or imagined_run(policy)).rules
    measured = {metric.info.name for metric in metrics}
    rules = tuple(rule for rule in as_judged(rules, policy, offline=judge.offline) if rule.metric in measured)
    found = sights(rules, policy, before, samples=samples)
    sentences = (resolution(found), needed_questions(samples))
    return " ".join(sentence for sentence in sentences if sentence) or None
