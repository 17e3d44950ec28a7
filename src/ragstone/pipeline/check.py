"""Validate everything a run needs, ask the system one question, and estimate the cost
of judging."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.project_metrics import Measures
from ragstone.evaluation.rounds.rehearsal import Rehearsed, rehearsals, rehearse
from ragstone.evaluation.rounds.round import refuse_without_given
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.writer import refuse_foreign
from ragstone.formatting import counted, most_common, some
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.question_changes import needed_questions
from ragstone.gate.rehearsal import perfect_run
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.sensitivity import expected_rules, resolution, sights
from ragstone.gate.verdict import Action, GateVerdict, Status
from ragstone.gate.warnings import FLOORS_WARN, unknown_tools
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.prices import CostEstimate
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed
from ragstone.metrics.metric import BaseMetric, Metric
from ragstone.pipeline.decide import ComparedRun, decide
from ragstone.pipeline.gate import GateInputs, GateRequest, read, refuse_impossible
from ragstone.pipeline.judge_agreement import agreement_with_people
from ragstone.report.escape import one_line
from ragstone.report.templates import render_lines
from ragstone.system.response import Response, System, called_tools


class MetricSize(Struct, frozen=True):
    """How many samples a metric applies to."""

    name: str
    applies: int
    excuse: str | None = None
    """The most frequent reason why it does not apply to the others, if there are
    any."""


class CheckResult(Struct, frozen=True):
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
    inputs = read(request, context)
    session = Session(replace(plan, cached=False, resume=False), context)
    try:
        rehearsed = [
            await rehearse(rehearsal, plan)
            for rehearsal in rehearsals(plan, request.base, context)
        ]
        measures = plan.metrics.measures(metrics, context)
        await _call_functions(measures, session.judge, rehearsed[0])
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
    plan, policy, judge = session.plan, inputs.terms.policy, session.judge.identity
    golden, metrics, first = plan.golden, plan.selected_metrics(), rehearsed[0]
    part, request = plan.system.settings.part, inputs.request
    base = request.base
    round_ = session.round(
        golden, first.system, metrics, plan.out, policy_hash=policy_hash(policy)
    )
    manifest = round_.describe(session.context)
    best = ComparedRun(perfect_run(golden, metrics, manifest, first.response))
    names = [metric.info.name for metric in metrics]
    estimate = first.cost
    for later in rehearsed[1:]:
        estimate = estimate.plus(later.cost)
    sizes = []
    for metric in metrics:
        excuses = list(map(metric.excuse, golden))
        reasons = [excuse.reason for excuse in excuses if excuse is not None]
        why = most_common(reasons) if reasons else None
        sizes.append(MetricSize(metric.info.name, len(golden) - len(reasons), why))
    # The base commit's perfect run would be as good.
    terms = replace(
        inputs.terms,
        baseline=inputs.terms.baseline if base is None else best,
        required=inputs.terms.baseline_run is not None,
    )
    baseline = None
    if request.baseline is not None:
        baseline = request.links.baseline_name or str(request.baseline.path)
    if base is not None:
        baseline = f"{base.name}, asked in the same job"
    return CheckResult(
        golden=golden,
        policy=policy,
        judge=judge,
        first=first,
        estimate=estimate,
        baseline=baseline,
        sizes=tuple(sizes),
        rehearsal=decide(best, terms),
        rules=resolve_rules(policy, best.scores),
        part=part,
        warnings=(
            *inputs.warnings,
            *remarks(
                first.response,
                metrics,
                part,
                golden=golden,
                policy=policy,
                floors_warn=FLOORS_WARN if judge.offline else "",
            ),
            *unrecorded,
        ),
        agreement=agreement_with_people(judge, policy.calibration, names),
        resolution=_resolution(inputs, names, judge),
    )


async def _unrecorded(system: System, golden: GoldenSet) -> tuple[str, ...]:
    """A warning about samples without a recorded answer, if answers are recorded.

    Asking for them costs nothing.
    """
    if system.can_be_asked_again:
        return ()
    lacking: list[str] = []
    called: set[str] = set()
    try:
        await system.start()
        for sample in golden:
            response = await system.ask(sample)
            called |= called_tools(response)
            if response.failure is not None:
                lacking.append(sample.id)
    finally:
        await system.close()
    expected_calls = chain.from_iterable(sample.tools for sample in golden)
    expected = {" or ".join(call.names) for call in expected_calls}
    warnings = list(unknown_tools(expected, called))
    if lacking:
        samples = counted(len(golden), "sample")
        missing = f"{len(lacking)} of {samples} have no usable recorded answer: {some(lacking)}."
        warnings.insert(0, missing)
    return tuple(warnings)


def remarks(
    response: Response,
    metrics: Sequence[Metric],
    part: str | None,
    *,
    golden: GoldenSet,
    **values: object,
) -> list[str]:
    """Sentences on a golden set, a policy and a response that are valid, and unlikely to
    be what was meant. `part`: the response is of that half alone. Pure."""
    answer, contexts = response.answer.strip(), response.contexts
    ids = [one_line(context.id) for context in contexts if context.id is not None]
    relevant: dict[str, None] = {}
    for sample in golden:
        relevant |= dict.fromkeys(map(one_line, sample.relevant_ids))
    return render_lines(
        "remarks.txt.j2",
        "ragstone.pipeline",
        **values,
        part=part,
        mappings=golden.mappings,
        answer=answer,
        contexts=contexts,
        names=ids if response.without_texts else [],
        unmeasured=[
            metric.info.name
            for metric in metrics
            if isinstance(metric, BaseMetric) and metric.reads_texts
        ],
        returned=list(dict.fromkeys(ids)) if relevant.keys().isdisjoint(ids) else [],
        relevant=list(relevant),
    )


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
    if policy.gate.decision != "evidence" or not size.samples:
        return None
    before = None if baseline is None else baseline.scores
    rules = expected_rules(policy, before, offline=judge.offline)
    measured = tuple(rule for rule in rules if rule.metric in metrics)
    drop, _ = resolution(sights(measured, policy, before, size=size))
    return " ".join(filter(None, (drop, needed_questions(size.samples)))) or None
