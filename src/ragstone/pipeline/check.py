"""Validates everything a run needs, asks the system one question, and estimates the cost
of judging."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import SystemUnderTestError
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.project_metrics import Measures
from ragstone.evaluation.rounds.rehearsal import RehearsalResult, rehearsals, rehearse
from ragstone.evaluation.rounds.round import refuse_missing_contexts
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.writer import refuse_foreign
from ragstone.formatting import counted, join_first, most_common
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.question_changes import remark_on_few_questions
from ragstone.gate.rehearsal import perfect_run
from ragstone.gate.rules import Rule, resolve_rules
from ragstone.gate.sensitivity import describe_losses, detectable_losses, expected_rules
from ragstone.gate.verdict import Action, GateVerdict, Status
from ragstone.gate.warnings import FLOORS_WARN, unknown_tools
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.prices import CostEstimate
from ragstone.judge.protocol import Call, Judge, JudgeIdentity, JudgementFailed
from ragstone.metrics.metric import BaseMetric, Metric
from ragstone.pipeline.decide import ComparedRun, decide
from ragstone.pipeline.gate import GateInputs, GateRequest, read
from ragstone.pipeline.judge_agreement import agreement_with_people
from ragstone.pipeline.run import refuse_impossible
from ragstone.report.escape import clean_line
from ragstone.report.templates import render_lines
from ragstone.system.response import Response, System, called_tools


class MetricScope(Struct, frozen=True):
    """How many samples a metric applies to."""

    metric: str
    samples: int
    excuse: str | None = None
    """The most frequent reason why it does not apply to the others, if there are
    any."""


class CheckResult(Struct, frozen=True):
    """The setup of a run, and the answer to one question."""

    golden: GoldenSet
    policy: Policy
    judge: JudgeIdentity
    first: RehearsalResult
    """The first round: its system, the question and the answer."""
    estimate: CostEstimate
    """What judging all rounds costs."""
    baseline: str | None
    resolution: str | None
    """A sentence on the drop that the golden set detects."""
    agreement: str
    """How far the judge agrees with people, in words."""
    rehearsal: GateVerdict
    """The verdict on a run with the best possible scores."""
    scopes: tuple[MetricScope, ...]
    rules: tuple[Rule, ...] = ()
    warnings: tuple[str, ...] = ()
    part: str | None = None
    """The half of the system that is evaluated; None for the whole."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences on what keeps any run from a verdict."""
        return tuple(
            check.reason
            for check in self.rehearsal.checks
            if check.status is Status.ERROR and check.action is Action.BLOCK
        )


async def check(request: GateRequest, context: RunContext) -> CheckResult:
    """Take the steps of `gate` with one question for each round, and describe the run.
    Raises the errors that `gate` would raise.

    Makes no judge call and writes nothing. The gate decides on the best scores that a
    run could have: what it can't decide then, it never can.
    """
    plan = request.run
    refuse_impossible(plan, request.base)
    refuse_foreign(plan.out)
    metrics = plan.selected_metrics()
    refuse_missing_contexts(plan.golden, plan.system.settings.part)
    inputs = read(request, context)
    session = Session(replace(plan, cached=False, resume=False), context)
    try:
        rehearsed = [
            await rehearse(rehearsal, plan)
            for rehearsal in rehearsals(plan, request.base, context)
        ]
        measures = plan.metrics.measures(metrics, context)
        await _call_functions(measures, session.judge, rehearsed[0])
        system = plan.system.build(context)
        warnings = await _check_recorded_answers(system, plan.golden)
        return _describe(inputs, session, rehearsed, warnings)
    finally:
        await session.close()


def _describe(
    inputs: GateInputs,
    session: Session,
    rehearsed: Sequence[RehearsalResult],
    warnings: Sequence[str],
) -> CheckResult:
    """The result of the check, by what each round `rehearsed`."""
    plan, request, first = session.plan, inputs.request, rehearsed[0]
    policy, judge = inputs.terms.policy, session.judge.identity
    golden, metrics = plan.golden, plan.selected_metrics()
    part, base = plan.system.settings.part, request.base
    round_ = session.round(
        golden, first.system, metrics, plan.out, policy_hash=policy_hash(policy)
    )
    manifest = round_.describe(session.context)
    best = ComparedRun(perfect_run(golden, metrics, manifest, first.response))
    names = [metric.info.name for metric in metrics]
    estimate = first.cost
    for later in rehearsed[1:]:
        estimate = estimate.plus(later.cost)
    scopes = []
    for metric in metrics:
        excuses = list(map(metric.why_not_applicable, golden))
        reasons = [excuse.reason for excuse in excuses if excuse is not None]
        excuse = most_common(reasons) if reasons else None
        scopes.append(MetricScope(metric.info.name, len(golden) - len(reasons), excuse))
    # The best possible run of the base commit has the same scores.
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
        scopes=tuple(scopes),
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
            *warnings,
        ),
        agreement=agreement_with_people(judge, policy.calibration, names),
        resolution=_resolution(inputs, names, judge),
    )


async def _check_recorded_answers(system: System, golden: GoldenSet) -> tuple[str, ...]:
    """Warnings about samples without a recorded answer, and about tools that no answer
    calls; none for a system that is not a recording.

    Reading recorded answers costs nothing, so all of them are read.
    """
    if system.can_be_asked_again:
        return ()
    unanswered: list[str] = []
    called: set[str] = set()
    try:
        await system.start()
        for sample in golden:
            response = await system.ask(sample)
            called |= called_tools(response)
            if response.failure is not None:
                unanswered.append(sample.id)
    finally:
        await system.close()
    expected_calls = chain.from_iterable(sample.tools for sample in golden)
    expected = {" or ".join(call.names) for call in expected_calls}
    warnings = list(unknown_tools(expected, called))
    if unanswered:
        samples = counted(len(golden), "sample")
        warning = f"{len(unanswered)} of {samples} have no usable recorded answer: {join_first(unanswered)}."
        warnings.insert(0, warning)
    return tuple(warnings)


def remarks(
    response: Response,
    metrics: Sequence[Metric],
    part: str | None,
    *,
    golden: GoldenSet,
    **values: object,
) -> list[str]:
    """Sentences about a golden set, a policy and a response that are valid, but unlikely
    to be what was meant. `part` is the half of the system that responded. Pure."""
    answer, contexts = response.answer.strip(), response.contexts
    ids = [clean_line(context.id) for context in contexts if context.id is not None]
    relevant: dict[str, None] = {}
    for sample in golden:
        relevant |= dict.fromkeys(map(clean_line, sample.relevant_ids))
    return render_lines(
        "remarks.txt.j2",
        "ragstone.pipeline",
        **values,
        part=part,
        mappings=golden.mappings,
        answer=answer,
        contexts=contexts,
        names=ids if response.lacks_texts else [],
        unmeasured=[
            metric.info.name
            for metric in metrics
            if isinstance(metric, BaseMetric) and metric.reads_texts
        ],
        returned=list(dict.fromkeys(ids)) if relevant.keys().isdisjoint(ids) else [],
        relevant=list(relevant),
    )


async def _call_functions(
    measures: Measures, judge: Judge, first: RehearsalResult
) -> None:
    """Call the function of each custom metric once. Raises SystemUnderTestError if one
    fails."""
    sample, response = first.sample, first.response
    try:
        await measures.start()
        for name in measures.callers:
            try:
                await measures.by_name[name](judge, sample, response, Call(sample.id))
            except JudgementFailed as failure:
                raise SystemUnderTestError(
                    f"the function of a metric failed on the first answer ({sample.id}): {failure.reason}",
                    where=f"metrics.{name}",
                    hint="It must return True, False, a number from 0 to 1, or None if the metric does not apply.",
                ) from None
    finally:
        await measures.close()


def _resolution(
    inputs: GateInputs, metrics: Sequence[str], judge: JudgeIdentity
) -> str | None:
    """A sentence on the drop that the golden set detects, by the variances of the
    baseline's scores or else typical ones; None if nothing can be said."""
    policy, baseline = inputs.terms.policy, inputs.terms.baseline
    size = inputs.request.run.golden.size()
    if policy.gate.decision != "evidence" or not size.sample_count:
        return None
    scores = None if baseline is None else baseline.scores
    rules = expected_rules(policy, scores, offline=judge.offline)
    measured = tuple(rule for rule in rules if rule.metric in metrics)
    sentence, _ = describe_losses(
        detectable_losses(measured, policy, scores, size=size)
    )
    sentences = filter(None, (sentence, remark_on_few_questions(size.sample_count)))
    return " ".join(sentences) or None
