"""Fallback for a pull request without secrets, if the judge needs a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ragstone.config import JudgeSettings, Settings
from ragstone.gate.policy import Policy
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.account import PROVIDER_KEYS, has_credentials
from ragstone.judge.llm.federation import has_job_identity
from ragstone.judge.llm.platforms import PLATFORMS
from ragstone.judge.names import split_name
from ragstone.metrics.registry import select_metrics
from ragstone.report.parts import ReportView
from ragstone.report.view import build_view
from ragstone.run.scores import RunScores, SampleFacts

NOT_JUDGED = "Not judged: no key on pull requests from forks."


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What can be done without a key: `settings` to run with, or a finished `view` if there is nothing to run."""

    settings: Settings
    notes: tuple[str, ...]
    view: ReportView | None = None
    partial: bool = False
    """Metrics were left out, so that the run can fail but not pass."""


def judge_needs_key(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether the judge is a hosted one, and there is neither a key nor a job identity.

    Your own server may not need a key.
    """
    provider, _ = split_name(settings.judge.name)
    if settings.judge.api_key is not None:
        return False
    if provider in PLATFORMS:
        return not has_credentials(provider, environ) and not has_job_identity(provider, environ)
    if provider not in PROVIDER_KEYS:
        return False
    has_key = settings.judge.auth != "oidc" and has_credentials(provider, environ)
    return not has_key and (settings.judge.auth == "key" or not has_job_identity(provider, environ))


def without_key(settings: Settings, golden: GoldenSet, policy: Policy) -> Narrowed:
    """Use the offline judge if the config allows it, else the metrics that need no judge, else none. Pure."""
    offline = settings.model_copy(
        update={"judge": JudgeSettings(name="offline", concurrency=settings.judge.concurrency)}
    )
    if settings.gate.without_key == "offline":
        return Narrowed(offline, (f"{NOT_JUDGED} The offline judge is used instead, as set in the config.",))
    free = tuple(
        metric.info.name
        for metric in select_metrics(settings.run.metrics)
        if not any(metric.needs(sample) for sample in golden)
    )
    if free:
        run = offline.run.model_copy(update={"metrics": free})
        note = f"{NOT_JUDGED} Only metrics that need no judge were scored: {', '.join(free)}."
        wanted = select_metrics(settings.run.metrics)
        return Narrowed(offline.model_copy(update={"run": run}), (note,), partial=len(free) < len(wanted))
    return Narrowed(settings, (NOT_JUDGED,), _nothing_judged(golden, policy))


def at_best_inconclusive(verdict: GateVerdict, policy: Policy) -> GateVerdict:
    """The verdict of a run that left metrics out: metrics that were not judged have not passed."""
    if verdict.status is not Status.PASS:
        return verdict
    blocks = policy.gate.inconclusive == "fail"
    reason = f"{NOT_JUDGED} For the rest, {verdict.reason}"
    return replace(verdict, status=Status.INCONCLUSIVE, reason=reason, inconclusive_blocks=blocks)


def _nothing_judged(golden: GoldenSet, policy: Policy) -> ReportView:
    facts = {
        sample.id: SampleFacts(sample.question, sample.tags, sample.group, sample.origin, sample.content_hash())
        for sample in golden
    }
    verdict = GateVerdict(
        status=Status.INCONCLUSIVE,
        reason=f"{NOT_JUDGED} Config, policy and golden set ({len(golden)} samples) are valid.",
        checks=(),
        inconclusive_blocks=policy.gate.inconclusive == "fail",
    )
    return build_view(verdict, RunScores(label="not judged", metrics={}, samples=facts))
