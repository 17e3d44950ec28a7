"""Validate everything a run needs, ask the system one question, and estimate the cost
of judging."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.oracle import divided
from ragstone.evaluation.rounds.project_metrics import Measures, ungraded
from ragstone.evaluation.rounds.rehearsal import Rehearsed, rehearsals, rehearse
from ragstone.evaluation.rounds.round import refuse_without_given
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.writer import refuse_foreign
from ragstone.formatting import counted, most_common, some
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.question_changes import needed_questions
from ragstone.gate.rehearsal import perfect_run
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.sensitivity import as_judged, imagined_run, resolution, sights
from ragstone.gate.verdict import Action, GateVerdict, Status
from ragstone.gate.warnings import FLOORS_WARN
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.estimate import CostEstimate, estimate_cost
from ragstone.judge.names import split_name
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed
from ragstone.judge.rubric import NO_MODEL
from ragstone.metrics.custom import FunctionMetric, RubricMetric
from ragstone.metrics.metric import BaseMetric, Metric
from ragstone.pipeline.baseline import NamedRun
from ragstone.pipeline.decide import ComparedRun, decide, model_name_warnings
from ragstone.pipeline.gate import GateInputs, GateRequest, read, refuse_impossible
from ragstone.pipeline.judge_agreement import agreement_with_people
from ragstone.report.escape import one_line
from ragstone.report.templates import render_lines
from ragstone.system.response import (
    NO_TEXTS,
    Response,
    System,
    takes_contexts,
    takes_history,
)

GIANT_CONTEXT = 8_000
"""Characters. A single context that is longer is probably all passages in one."""


@dataclass(frozen=True, slots=True)
class MetricSize:
    """One metric: the samples that it applies to, what it needs in words, and its cost
    if it were the only one.

    `excuse` is the most frequent reason why it does not apply to the others, if there
    are any.
    """

    name: str
    applies: int
    needs: str
    estimate: CostEstimate
    excuse: str | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The setup of a run, and the answer to one question."""

    golden: GoldenSet
    policy: Policy
    judge: JudgeIdentity
    first: Rehearsed
    """The question of the first round."""
    estimate: CostEstimate
    """What judging all rounds costs."""
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
    takes_contexts: bool | None = None
    """Whether the entrypoint takes contexts that it is given; None if that can't be
    known."""
    divided: tuple[str, ...] | None = None
    """The metrics that an oracle half divides; None without one."""

    @property
    def takes_history(self) -> bool | None:
        """Whether the entrypoint takes earlier turns; None if that can't be known."""
        return takes_history(self.first.system)

    @property
    def problems(self) -> tuple[str, ...]:
        """What keeps every run from a verdict, a sentence each."""
        return tuple(
            check.reason
            for check in self.rehearsal.checks
            if check.status is Status.ERROR and check.action is Action.BLOCK
        )


async def check(request: GateRequest, context: RunContext) -> CheckResult:
    """Raise the error that `gate` would raise, or describe the run: the same steps,
    with one question a round.

    Makes no judge call and writes nothing. The gate is rehearsed with the best scores
    that a run could have: what it can't decide then, it never can.
    """
    refuse_impossible(request)
    plan = request.run
    refuse_foreign(plan.out)
    metrics = plan.selected_metrics()
    refuse_without_given(plan.golden, plan.system.settings.part)
    with ExitStack() as stack:
        inputs = read(request, context, stack, writes=False)
        session = Session(replace(plan, cached=False, resume=False), context)
        try:
            rehearsed = [
                await rehearse(rehearsal, plan)
                for rehearsal in rehearsals(plan, inputs.base, context)
            ]
            first = rehearsed[0]
            await _call_functions(
                plan.metrics.measures(metrics, context), session.judge, first
            )
            unrecorded = await _unrecorded(plan.system.build(context), plan.golden)
            return _described(inputs, session, rehearsed, unrecorded)
        finally:
            await session.close()


def _described(
    inputs: GateInputs,
    session: Session,
    rehearsed: Sequence[Rehearsed],
    unrecorded: Sequence[str],
) -> CheckResult:
    plan, policy = session.plan, inputs.terms.policy
    golden, part, metrics = (
        plan.golden,
        plan.system.settings.part,
        plan.selected_metrics(),
    )
    first = rehearsed[0]
    round_ = session.round(
        golden, first.system, metrics, plan.out, policy_hash=policy_hash(policy)
    )
    best = perfect_run(
        golden, metrics, round_.describe(session.context), first.response
    )
    estimate = first.cost
    for later in rehearsed[1:]:
        estimate = estimate.plus(later.cost)
    names = [metric.info.name for metric in metrics]
    return CheckResult(
        golden=golden,
        policy=policy,
        judge=session.judge.identity,
        first=first,
        estimate=estimate,
        baseline=_baseline_name(inputs, rehearsed),
        sizes=tuple(
            _size(metric, session, first.response, versions=_versions(inputs))
            for metric in metrics
        ),
        rehearsal=_decided(inputs, best),
        rules=tuple(_in_force(policy, best)),
        part=part,
        takes_contexts=takes_contexts(first.system),
        divided=tuple(metric.info.name for metric in divided(metrics))
        if plan.oracle
        else None,
        warnings=(
            *_warnings(inputs, session, first),
            *unrecorded,
            *_name_warnings(session),
        ),
        agreement=agreement_with_people(
            session.judge.identity, policy.calibration, names
        ),
        resolution=_resolution(inputs, names, session.judge.identity),
    )


def _decided(inputs: GateInputs, best: RunScores) -> GateVerdict:
    """The verdict on the perfect run `best`; the base commit's would be as good."""
    current = ComparedRun(best)
    baseline = inputs.terms.baseline if inputs.base is None else current
    return decide(
        current,
        replace(
            inputs.terms,
            baseline=baseline,
            baseline_required=inputs.baseline is not None,
        ),
    )


def _baseline_name(inputs: GateInputs, rehearsed: Sequence[Rehearsed]) -> str | None:
    if inputs.base is not None:
        beside = rehearsed[1]
        contexts = counted(len(beside.response.contexts), "context")
        return f"{inputs.base.name}, asked in the same job: answered '{beside.sample.id}' with {contexts}"
    named = inputs.request.baseline
    return named.name if isinstance(named, NamedRun) else None


def _versions(inputs: GateInputs) -> int:
    """How many versions of the system are asked."""
    return 1 if inputs.base is None else 2


def _warnings(inputs: GateInputs, session: Session, first: Rehearsed) -> Iterator[str]:
    plan = session.plan
    yield from inputs.warnings
    for mapping in plan.golden.mappings:
        for note in mapping.notes:
            yield f"{mapping.file}: {note}."
    yield from remarks(
        first.response, plan.selected_metrics(), plan.system.settings.part
    )
    yield from _unknown_ids(first.response, plan.golden)
    yield from _default_rules(inputs.terms.policy, session.judge.identity)


def _name_warnings(session: Session) -> Iterator[str]:
    provider, model = split_name(session.plan.judge.settings.name)
    for lines in model_name_warnings(provider, model, session.context.now().date()):
        yield from lines


def _in_force(policy: Policy, best: RunScores) -> Iterator[Rule]:
    """The rules for `best`. Of the default ones, those for metrics that apply to a
    sample."""
    for rule in resolve_rules(policy, best).rules:
        scores = best.metrics.get(rule.metric)
        if rule.written or (scores is not None and scores.values):
            yield rule


def _size(
    metric: Metric, session: Session, response: Response, *, versions: int
) -> MetricSize:
    """The size of `metric`, whose answers come from so many versions of the system."""
    plan, judge = session.plan, session.judge
    name, golden = metric.info.name, plan.golden
    excuses = [
        excuse.reason
        for sample in golden
        if (excuse := metric.excuse(sample)) is not None
    ]
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
    answers = versions * plan.answers
    cost = estimate_cost(
        plan.judge.settings, golden, [metric], repeats=plan.repeats, answers=answers
    )
    why = most_common(excuses) if excuses else None
    return MetricSize(name, len(golden) - len(excuses), needs, cost, why)


async def _unrecorded(system: System, golden: GoldenSet) -> tuple[str, ...]:
    """Warnings about samples without a recorded answer, and tools that no answer calls,
    if answers are recorded.

    Asking for them costs nothing.
    """
    if system.can_be_asked_again:
        return ()
    lacking: list[str] = []
    try:
        await system.start()
        for sample in golden:
            response = await system.ask(sample)
            if response.failure is not None:
                lacking.append(sample.id)
    finally:
        await system.close()
    if not lacking:
        return ()
    samples = counted(len(golden), "sample")
    return (
        f"{len(lacking)} of {samples} have no usable recorded answer: {some(lacking)}.",
    )


def remarks(
    response: Response, metrics: Sequence[Metric], part: str | None = None
) -> list[str]:
    """Sentences on a response that is valid, and unlikely to be what was meant. `part`:
    of that half alone. Pure."""
    answer = response.answer.strip()
    return render_lines(
        "remarks.txt.j2",
        "ragstone.pipeline",
        part=part,
        answer=answer,
        is_json=answer[:1] in ("[", "{") and _is_json(answer),
        sizes=[len(context.text) for context in response.contexts],
        giant=GIANT_CONTEXT,
        names=[one_line(str(context.id)) for context in response.contexts]
        if response.without_texts
        else [],
        scored=[
            metric.info.name for metric in metrics if metric.info.blames != "generation"
        ],
        unmeasured=[
            metric.info.name
            for metric in metrics
            if isinstance(metric, BaseMetric) and metric.reads_texts
        ],
    )


def _default_rules(policy: Policy, judge: JudgeIdentity) -> Iterator[str]:
    """A sentence if the policy, such as the one that `ragstone init` writes, leaves all
    rules to the defaults."""
    if policy.file is not None and not policy.named:
        floors = f", and {FLOORS_WARN}" if judge.offline else ""
        yield f"{policy.file} names no metric: the default rules apply{floors}."


def _unknown_ids(response: Response, golden: GoldenSet) -> Iterator[str]:
    """A sentence if the contexts have ids, and the golden set names others only."""
    returned = {
        context.id: None for context in response.contexts if context.id is not None
    }
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


async def _call_functions(measures: Measures, judge: Judge, first: Rehearsed) -> None:
    """Call the functions of custom metrics once. Raises SystemUnderTestError for one
    that fails."""
    sample, response = first.sample, first.response
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


def _resolution(
    inputs: GateInputs, metrics: Sequence[str], judge: JudgeIdentity
) -> str | None:
    """The drop that this number of samples detects, using the baseline's scores or else
    typical variances."""
    policy, baseline = inputs.terms.policy, inputs.terms.baseline
    size = inputs.request.run.golden.size()
    if not size.samples:
        return None
    before = None if baseline is None else baseline.scores
    rules = resolve_rules(policy, before or imagined_run(policy)).rules
    judged_rules = as_judged(rules, policy, offline=judge.offline)
    measured = tuple(rule for rule in judged_rules if rule.metric in metrics)
    sentences = (
        resolution(sights(measured, policy, before, size=size)),
        needed_questions(size.samples),
    )
    return " ".join(sentence for sentence in sentences if sentence) or None
