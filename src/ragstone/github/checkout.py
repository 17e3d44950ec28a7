"""Reads what a job evaluates and decides by, before any code of the checkout runs."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.evaluation.rounds.judge_watch import DEFAULT_CANARY_COUNT
from ragstone.gate.policy import Policy
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.event import EventKind
from ragstone.github.commit_files import BaseFiles
from ragstone.github.job import Job
from ragstone.github.trusted_config import TrustedSettings
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.account_settings import needs_key
from ragstone.pipeline.gate_request import gate_policy
from ragstone.pipeline.no_key_fallback import Narrowed, without_key
from ragstone.pipeline.run_plan import read_golden_set
from ragstone.report.templates import ENDING, FOLDER, Templates, own_templates
from ragstone.settings.settings import Settings

_CANARY_EVENTS = (EventKind.PUSH, EventKind.SCHEDULE, EventKind.WORKFLOW_DISPATCH)
_TEMPLATES_DIFFER = "The report templates in this checkout differ from those of the base branch: they count after the merge."


class Checkout(Struct, frozen=True):
    """What a job evaluates and decides by. Read once, so that the user's code, which
    runs later, can't change it."""

    settings: TrustedSettings
    policy: Policy
    golden: GoldenSet
    templates: Templates | None
    """The report templates of the reviewed base; None for the built-in ones."""


def read_checkout(
    settings: TrustedSettings, base_files: BaseFiles, notes: list[str]
) -> Checkout:
    """Read everything in the checkout that affects the verdict. Adds to `notes` what
    does not count. Raises ConfigError and GoldenSetError."""
    policy = gate_policy(settings)
    templates = _reviewed_templates(settings, base_files, notes)
    if settings.golden.only or settings.golden.tags:
        raise ConfigError(
            "a job on GitHub evaluates the whole golden set.",
            where="RAGSTONE_ONLY or RAGSTONE_TAG",
            hint="Unset the variable. To evaluate fewer samples, set limit in [golden].",
        )
    if settings.run.history is not None:
        notes.append(
            "`[run] history` is ignored: on GitHub the history comes with the baseline."
        )
    return Checkout(settings, policy, read_golden_set(settings), templates)


def _reviewed_templates(
    settings: Settings, base_files: BaseFiles, notes: list[str]
) -> Templates | None:
    """The report templates of the reviewed base, if the checkout has any; None for the
    built-in ones. Raises ConfigError."""
    own = own_templates(settings.root, settings.within)
    if own is None:
        return None
    try:
        commit = base_files.commit
        if commit is None:  # the checkout is the base itself
            return own
        place = f"{(commit.place / FOLDER).as_posix()}/"
        names = [
            name
            for name in commit.list()
            if name.startswith(place) and name.endswith(ENDING)
        ]
        folder = commit.new_folder()
        commit.read(names, folder)
    except GitHubApiError as unreadable:
        notes.append(
            f"The report templates are not used, because the base branch can't be read: {unreadable}."
        )
        return None
    base = own_templates(folder / commit.place, folder)
    if base is None or base.sources != own.sources:
        notes.append(_TEMPLATES_DIFFER)
    return base


def choose_judge(job: Job, checkout: Checkout) -> Narrowed:
    """Narrow the run to what can be judged without a key, if this job gets no secrets
    and the judge needs one. Raises ConfigError."""
    settings = checkout.settings
    narrowed = Narrowed(settings, ())
    if job.event.without_secrets and needs_key(settings.judge, job.environ):
        narrowed = without_key(settings, checkout.golden, checkout.policy)
    if narrowed.outcome is not None:
        document = job.redact.tree(narrowed.outcome.document)
        return replace(narrowed, outcome=replace(narrowed.outcome, document=document))
    with_canaries = _with_canaries(narrowed.settings, job.event.kind)
    return replace(narrowed, settings=with_canaries)


def _with_canaries(settings: Settings, kind: EventKind) -> Settings:
    """Make runs of a branch check whether the judge changed, unless the settings say
    otherwise. Pull requests use the results of these runs."""
    if settings.judge.canaries is not None or kind not in _CANARY_EVENTS:
        return settings
    return settings.with_value("judge.canaries", DEFAULT_CANARY_COUNT)
