"""What a job evaluates and decides by: read once, before any code of the checkout
runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragstone.errors import ConfigError
from ragstone.evaluation.rounds.judge_watch import CANARIES
from ragstone.gate.policy import Policy
from ragstone.github.api.event import EventKind
from ragstone.github.commit_files import BaseFiles
from ragstone.github.credentials import asks_a_server
from ragstone.github.job import Job
from ragstone.github.reviewed_templates import reviewed_templates
from ragstone.github.trusted_config import Trusted
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.account_settings import needs_key
from ragstone.pipeline.gate_request import gate_policy
from ragstone.pipeline.no_key_fallback import (
    NOT_JUDGED,
    NOT_REVIEWED,
    Narrowed,
    without_key,
)
from ragstone.pipeline.run_plan import read_golden_set
from ragstone.report.templates import Templates
from ragstone.settings.settings import Settings

_CANARY_EVENTS = (EventKind.PUSH, EventKind.SCHEDULE, EventKind.WORKFLOW_DISPATCH)


@dataclass(frozen=True, slots=True)
class Checkout:
    """What a job evaluates and decides by, read once before any code of the checkout
    runs.

    Later changes by user code have no effect.
    """

    settings: Trusted[Settings]
    policy: Policy
    golden: GoldenSet
    templates: Templates | None
    notes: tuple[str, ...] = ()


def read_checkout(
    job: Job, allowed: Trusted[Settings], base_files: BaseFiles
) -> Checkout:
    """Everything in the checkout that affects the verdict. Raises ConfigError, and what
    reading raises."""
    settings = _blocking(job, allowed.value)
    policy = gate_policy(settings)
    reviewed = reviewed_templates(settings, base_files)
    if settings.golden.only or settings.golden.tags:
        raise ConfigError(
            "a job on GitHub evaluates the whole golden set.",
            where="RAGSTONE_ONLY or RAGSTONE_TAG",
            hint="Leave it out; [golden] limit in ragstone.toml shortens a run.",
        )
    notes = reviewed.notes
    if settings.run.history is not None:
        notes = (
            *notes,
            "`[run] history` is ignored: on GitHub the history comes with the baseline.",
        )
    return Checkout(
        Trusted(settings), policy, read_golden_set(settings), reviewed.templates, notes
    )


def _blocking(job: Job, settings: Settings) -> Settings:
    """`settings` with which a run whose base is not reviewed doesn't end the job with
    success.

    A commit's checks, that of the job among them, count for every change that it heads.
    """
    if job.base.unreviewed is None or settings.gate.fail_on == "never":
        return settings
    return settings.having("gate.fail_on", "inconclusive")


def choose_judge(job: Job, checkout: Checkout) -> Narrowed:
    """How to judge with the keys that this job has, and what the run then leaves out.
    Raises ConfigError."""
    settings = checkout.settings.value
    lacks_key = job.plan.without_secrets and needs_key(settings.judge, job.environ)
    if job.base.unproven is not None:
        lacks_key = asks_a_server(settings.judge)
    narrowed = Narrowed(settings, ())
    if lacks_key:
        why = NOT_JUDGED if job.plan.without_secrets else NOT_REVIEWED
        narrowed = without_key(settings, checkout.golden, checkout.policy, why)
    if narrowed.outcome is not None:
        document = job.redact.tree(narrowed.outcome.document)
        return replace(narrowed, outcome=replace(narrowed.outcome, document=document))
    return replace(
        narrowed,
        settings=_with_canaries(narrowed.settings, job.event.kind),
        unproven=job.base.unproven or narrowed.unproven,
    )


def _with_canaries(settings: Settings, kind: EventKind) -> Settings:
    """Runs of the branch itself check whether the judge changed; a pull request uses
    their result."""
    if settings.judge.canaries is not None or kind not in _CANARY_EVENTS:
        return settings
    return settings.having("judge.canaries", CANARIES)
