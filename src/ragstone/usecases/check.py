"""Validate everything a run needs, ask the system one question, and estimate the cost of judging."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragstone.config import Settings
from ragstone.errors import SystemUnderTestError
from ragstone.gate.policy import Policy
from ragstone.gate.resolution import imagined_run, resolution, sights
from ragstone.gate.rules import resolve_rules
from ragstone.gate.verdict import CheckKind
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.llm.estimate import CostEstimate, estimate_cost
from ragstone.judge.names import split_name
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.metric import Metric
from ragstone.metrics.registry import select_metrics
from ragstone.run.scores import RunScores
from ragstone.system.response import Response, System, SystemFailureKind
from ragstone.usecases.base_commit import at_base, base_from_git, with_one_baseline
from ragstone.usecases.baseline import open_baseline
from ragstone.usecases.decide import ComparedRun, model_name_warnings, read_policy
from ragstone.usecases.run import RunContext, make_system, read_golden_set


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
    warnings: tuple[str, ...] = ()


async def check(settings: Settings, context: RunContext) -> CheckResult:
    """Raise the error that a run would raise, or describe the run. Makes no judge call."""
    settings = with_one_baseline(settings)
    policy = read_policy(settings)
    metrics = select_metrics(settings.run.metrics)
    golden = read_golden_set(settings)
    baseline = settings.gate.baseline
    before = None
    if baseline is not None:
        found = open_baseline(settings.path(baseline), any_run=settings.gate.baseline_any)
        compared = ComparedRun.baseline(found)
        before = compared.scores if compared is not None else None
    judge = build_judge(
        settings.judge, golden_set=golden, cache=None, environ=context.environ, tell_secret=context.redact.add
    )
    try:
        system = make_system(settings, context)
        first = next(iter(golden))
        response = await _ask(system, first)
        versions = 1
        if settings.gate.baseline_commit is not None:
            baseline, versions = await _ask_base(settings, context, policy, first), 2
        return CheckResult(
            golden=golden,
            policy=policy,
            metrics=metrics,
            judge=judge.identity,
            entrypoint=system.entrypoint,
            asked=first,
            response=response,
            estimate=estimate_cost(
                settings.judge,
                golden,
                metrics,
                repeats=settings.run.repeats,
                answers=versions * settings.run.answers,
            ),
            baseline=baseline,
            warnings=tuple(
                line
                for lines in model_name_warnings(*split_name(settings.judge.name), context.now().date())
                for line in lines
            ),
            resolution=_resolution(policy, before, metrics, len(golden), judge.identity),
        )
    finally:
        await judge.close()


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


async def _ask_base(settings: Settings, context: RunContext, policy: Policy, sample: Sample) -> str:
    """The base commit in words, after asking its system too."""
    with base_from_git(settings, context, policy) as base:
        try:
            response = await _ask(base.make(), sample)
        except SystemUnderTestError as error:
            raise at_base(error, base) from None
    return f"{base.name}, asked in the same job: answered '{sample.id}' with {len(response.contexts)} contexts"


def _resolution(
    policy: Policy, before: RunScores | None, metrics: tuple[Metric, ...], samples: int, judge: JudgeIdentity
) -> str | None:
    """The drop that this number of samples detects, using the baseline's scores or else typical variances."""
    if policy.gate.decision != "evidence":
        return None
    rules = resolve_rules(policy, before or imagined_run(policy)).rules
    measured = {metric.info.name for metric in metrics}
    offline = judge.offline
    rules = tuple(
        replace(rule, drop_action=policy.action_for(rule.key, CheckKind.DROP, offline_judge=offline))
        if rule.slice is None and rule.key in policy.metrics
        else rule
        for rule in rules
        if rule.metric in measured
    )
    found = sights(rules, policy.alpha, before, samples=samples)
    return resolution(found)[0]
