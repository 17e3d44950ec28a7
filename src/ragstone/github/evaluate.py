"""The evaluating half of a job: from checked settings, through the baseline and the user's system, to a verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.errors import BaselineError, ConfigError, RagstoneError, RunDirectoryError
from ragstone.evaluation.archive_members import MEMBER_LIMITS, write_members
from ragstone.evaluation.directory import MANIFEST, SAMPLES, SYSTEM_LOG, RunDirectory
from ragstone.evaluation.lineage import CARRIED, lineage
from ragstone.evaluation.replay import confirm
from ragstone.evaluation.rounds.base_commit import BaseSystem
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_watch import CANARIES
from ragstone.evaluation.rounds.session import RunPlan
from ragstone.files import read_regular
from ragstone.formatting import counted, some
from ragstone.gate.policy import Policy
from ragstone.github.api.base_tree import find_commit
from ragstone.github.api.changed_files import changed_files
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.earlier_runs import find_earlier_run
from ragstone.github.api.event import EventKind
from ragstone.github.api.trusted_runs import TRUSTED_EVENTS
from ragstone.github.base_commit import OWN_SETTINGS, find_base_commit, prepare_base
from ragstone.github.branch_history import merged_pull_request, tagged_commits
from ragstone.github.credentials import asks_a_server
from ragstone.github.job import Job
from ragstone.github.plan import BaselineSource
from ragstone.github.policy_changes import changes_to_the_gate
from ragstone.github.reviewed_templates import reviewed_templates
from ragstone.github.trusted_config import Trusted, restrict_to_base
from ragstone.golden.sample import GoldenSet
from ragstone.judge.llm.account_settings import needs_key
from ragstone.pipeline.baseline import open_baseline
from ragstone.pipeline.baseline_search import TrustedBaseline, find_baseline, history_from
from ragstone.pipeline.gate import GateOutcome, GateRequest, gate
from ragstone.pipeline.gate_request import gate_policy
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.no_key_fallback import NOT_JUDGED, NOT_REVIEWED, without_key
from ragstone.pipeline.role import Role
from ragstone.pipeline.run_plan import read_golden_set, run_plan
from ragstone.printable import shown_name
from ragstone.progress import LineProgress
from ragstone.report.templates import Templates
from ragstone.settings.settings import Settings
from ragstone.system.entrypoint import recognised

_CANARY_EVENTS = (EventKind.PUSH, EventKind.SCHEDULE, EventKind.WORKFLOW_DISPATCH)
_LOG_TAIL = 64 * 1024


@dataclass(frozen=True, slots=True)
class Checkout:
    """What a job evaluates and decides by, read once before any code of the checkout runs.

    Later changes by user code have no effect. `settings` are those that the base branch allows; `base_commit` is the
    commit to ask beside the change, None if there is none.
    """

    settings: Trusted[Settings]
    policy: Policy
    golden: GoldenSet
    templates: Templates | None
    base_commit: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """How a job judges: its `settings`, with what is left of them if there is no key for the judge.

    `unproven` says what is left out, so that the run can't pass. `outcome` is the verdict if nothing can be judged.
    """

    settings: Trusted[Settings]
    unproven: str | None = None
    outcome: GateOutcome | None = None


async def evaluate(job: Job, write: Callable[[str], None]) -> GateOutcome:
    """The verdict. What can be checked without running user code is checked first."""
    context = RunContext(
        environ=job.environ,
        progress=LineProgress(job.out),
        say=lambda line: write(job.redact(line) + "\n"),
        redact=job.redact,
        now=job.now,
        trusts_checkout=False,
    )
    checkout = read_checkout(job)
    judged = choose_judge(job, checkout)
    if judged.outcome is not None:
        return judged.outcome
    request = gate_request(job, checkout, judged, context, write)
    log = job.temporary / SYSTEM_LOG
    if checkout.base_commit is not None:
        # Before any code of the checkout runs, the container's or another.
        known = lineage(request.baseline) if isinstance(request.baseline, RunDirectory) else ()
        plan, base = prepare_base(job, checkout.base_commit, judged.settings, request, known, write)
        request = replace(request, run=plan, base=base)
    if job.container is not None:
        plan, context = job.container.prepare(request.run, context, log, write)
        request = replace(request, run=plan)
    else:
        # In our own error stream, the output of the user's system could act as a command.
        context = replace(context, system_factory=request.run.system.builder(replace(context, system_log=log)))
    try:
        return await gate(request, context)
    finally:
        _show_log(log, write)
        if isinstance(request.base, BaseSystem) and request.base.log is not None:
            _show_log(request.base.log, write, of=f" at {request.base.name}")


# -- read --------------------------------------------------------------------------------------------------------------


def read_checkout(job: Job) -> Checkout:
    """Everything in the checkout that affects the verdict. Raises ConfigError, GitHubError, and what reading raises."""
    _refuse_configured_baseline(job)
    job.check_baseline_inputs()
    commit = job.base_commit = find_base_commit(job)
    allowed = restrict_to_base(
        job.settings,
        reviewed=job.base,
        api=job.api,
        environ=job.environ,
        workspace=job.places.workspace,
        folder=job.temporary / "base",
    )
    settings = job.settings = _blocking(job, allowed.settings.value)
    job.gate_changes = allowed.notes  # taken back for this run, but in force once they are merged
    job.notes += allowed.notes
    policy = job.policy = gate_policy(settings)
    reviewed = reviewed_templates(
        settings,
        reviewed=job.base,
        api=job.api,
        workspace=job.places.workspace,
        folder=job.temporary / "templates",
    )
    job.templates = reviewed.templates
    job.notes += reviewed.notes
    if settings.golden.only or settings.golden.tags:
        raise ConfigError(
            "a job on GitHub evaluates the whole golden set.",
            where="RAGSTONE_ONLY or RAGSTONE_TAG",
            hint="Leave it out; [golden] limit in ragstone.toml shortens a run.",
        )
    golden = read_golden_set(settings)
    return Checkout(Trusted(settings), policy, golden, reviewed.templates, commit)


def choose_judge(job: Job, checkout: Checkout) -> Judged:
    """How to judge with the keys that this job has. Raises ConfigError."""
    settings = checkout.settings
    unproven = job.base.unproven
    lacks_key = job.plan.without_secrets and needs_key(settings.value.judge, job.environ)
    if unproven is not None:
        lacks_key = asks_a_server(settings.value.judge)
    if lacks_key:
        why = NOT_JUDGED if job.plan.without_secrets else NOT_REVIEWED
        narrowed = without_key(settings.value, checkout.golden, checkout.policy, why)
        job.notes += narrowed.notes
        if narrowed.outcome is not None:
            document = job.redact.tree(narrowed.outcome.document)
            return Judged(settings, outcome=replace(narrowed.outcome, document=document))
        settings, unproven = Trusted(narrowed.settings), unproven or narrowed.unproven
    return Judged(_with_canaries(settings, job.event.kind), unproven)


def gate_request(
    job: Job, checkout: Checkout, judged: Judged, context: RunContext, write: Callable[[str], None]
) -> GateRequest:
    """What to ask the gate for: the run, and what it is compared with. Raises ConfigError, BaselineError."""
    settings = judged.settings.value
    plan = run_plan(settings, context, golden=checkout.golden, command="gate").requiring(checkout.policy.named_metrics)
    plan = _comparing_files(plan, job)
    baseline = _baseline(job, write)
    changes = changes_to_the_gate(job, checkout.policy, checkout.golden, baseline)
    job.gate_changes = (*job.gate_changes, *changes)
    first = 0 if job.base.sentence is None else 1
    job.notes[first:first] = changes
    role = _role(job)
    return GateRequest(
        run=plan if job.container is None else job.container.staged(plan),
        policy=checkout.policy,
        fail_on=settings.gate.fail_on,
        baseline=baseline,
        baseline_required=settings.gate.baseline is not None,
        earlier=_earlier_run(job, plan, write),
        past=_past(job, checkout.policy, role),
        templates=checkout.templates,
        links=job.links(),
        role=role,
        warnings=tuple(job.notes),
        folder=_policy_folder(job),
        unproven=judged.unproven or job.unread_baseline or job.moved_must_pass,
    )


def _comparing_files(plan: RunPlan, job: Job) -> RunPlan:
    """`plan` that says which files its commit has, and how many of the checkout differ, before any code of it runs.

    Which ones differ is a note: a step before the gate may have edited them.
    """
    if job.api is None or plan.invocation is None:
        return plan
    changed = changed_files(job.api, job.event.sha, job.places.workspace)
    job.notes += _file_notes(changed, f"commit {job.event.sha[:12]}")
    try:
        commit = find_commit(job.api, job.event.sha)
    except GitHubApiError:
        commit = None
    facts = {
        "changed": None if changed is None else len(changed),
        "tree": None if commit is None else commit.tree.sha,
    }
    return replace(plan, invocation=plan.invocation.model_copy(update=facts))


def _file_notes(changed: Sequence[str] | None, commit: str) -> list[str]:
    """What a reader must know about the files of a checkout that differ from its commit."""
    if changed is None:
        return [f"It is not known whether files of this checkout differ from {commit}."]
    if not changed:
        return []
    names = some([shown_name(name) for name in changed])
    verb = "differs" if len(changed) == 1 else "differ"
    return [f"{counted(len(changed), 'file')} of this checkout {verb} from {commit}: {names}."]


def _earlier_run(job: Job, plan: RunPlan, write: Callable[[str], None]) -> RunDirectory | None:
    """A run that this pull request had before of the same files, if they tell which system answers."""
    pull, tree = job.event.pull_request, None if plan.invocation is None else plan.invocation.tree
    if job.api is None or tree is None or pull is None or pull.is_fork:
        return None
    system = job.settings.system
    entrypoint = recognised(system.entrypoint)
    if entrypoint is not None:
        is_in_files = entrypoint.kind.runs_users_code or system.version is not None
        if not (entrypoint.can_be_asked_again and is_in_files):
            return None
    folder = job.temporary / "earlier"
    return find_earlier_run(job.api, job.event.run_id, job.inputs.artifact_name, tree, folder, write)


def _blocking(job: Job, settings: Settings) -> Settings:
    """`settings` with which a run whose base is not reviewed doesn't end the job with success.

    A commit's checks, that of the job among them, count for every change that it heads.
    """
    if job.base.unreviewed is None or settings.gate.fail_on == "never":
        return settings
    return settings.having("gate.fail_on", "inconclusive")


def _refuse_configured_baseline(job: Job) -> None:
    """A pull request's own config file must not choose the baseline. Raises ConfigError."""
    chosen, named = job.inputs.baseline, job.settings.gate
    found = [key for key in OWN_SETTINGS if key in job.settings.from_file]
    if found and (found != ["gate.baseline"] or chosen != BaselineSource.ARTIFACT):
        value = chosen if found[0] == "gate.baseline" else getattr(named, found[0].partition(".")[2])
        raise ConfigError(
            f"on GitHub the workflow chooses the baseline, not the config file (which has '{value}').",
            where=found[0],
            hint="Remove it from the config file. To use another baseline than the newest run of the base branch, set "
            "the input 'baseline'; on your machine, use --baseline or --baseline-commit.",
        )
    if named.baseline_folder is not None:
        raise ConfigError(
            f"on GitHub the workflow chooses the baseline, not a folder (found '{named.baseline_folder}').",
            where="gate.baseline_folder",
            hint="Remove it from the config file, the environment and the command.",
        )
    if named.baseline_commit is not None:
        raise ConfigError(
            f"on GitHub the base commit follows from the event (found '{named.baseline_commit}').",
            where="gate.baseline_commit",
            hint="Use the input `baseline: commit`, or --baseline commit with --github.",
        )


def _with_canaries(settings: Trusted[Settings], kind: EventKind) -> Trusted[Settings]:
    """Runs of the branch itself check whether the judge changed; a pull request uses their result."""
    if settings.value.judge.canaries is not None or kind not in _CANARY_EVENTS:
        return settings
    return Trusted(settings.value.having("judge.canaries", CANARIES))


def _baseline(job: Job, write: Callable[[str], None]) -> RunDirectory | None:
    """The baseline to compare with, or None and a note with the reason."""
    if job.plan.baseline is BaselineSource.PATH:
        return _baseline_at(job)
    if job.plan.baseline not in (BaselineSource.ARTIFACT, BaselineSource.COMMIT):
        return None
    if job.api is None:
        job.notes.append("No baseline: there is no GitHub token to find earlier runs.")
        return None
    found = find_baseline(job.artifacts(job.api, job.plan.baseline_branch))
    job.history = found.history
    if not isinstance(found, TrustedBaseline):
        if job.base_commit is None:
            job.notes.append(found.reason)
            job.unread_baseline = found.unproven
        return None
    try:
        run = found.materialise(job.temporary / "baseline")
    except RagstoneError as error:
        reason = f"The baseline of run {found.run_id} can't be used: {error.message}"
        job.notes.append(reason)
        if job.base_commit is None:
            job.unread_baseline = f"Not proven. {reason}"
        return None
    job.baseline = found
    carried = f", carried by run {found.carried_by}" if found.carried_by is not None else ""
    write(f"Baseline: run {found.run_id} of '{found.branch}'{carried}, commit {found.sha[:12]}, {found.created_at}.\n")
    return run


def _policy_folder(job: Job) -> str | None:
    """The policy's path for readers of the comment, relative to the root of the repository."""
    file = job.policy.file if job.policy is not None else None
    folder = job.settings.root if file is None else Path(file).parent
    return job.places.within(str(folder.absolute()))


def _role(job: Job) -> Role:
    """The role of this run for later ones: a baseline of its branch, if nobody else can start such a run."""
    event = job.event
    branch = event.merge_base_branch if event.kind is EventKind.MERGE_GROUP else event.branch
    run_id, artifact = None, None
    if job.baseline is not None:
        run_id = job.baseline.run_id
        artifact = (job.baseline.carried_by or run_id, job.inputs.artifact_name)
    refusal = None
    if job.base.unreviewed is not None:
        refusal = f"its base, '{job.base.named}', {job.base.unreviewed}"
    elif event.name not in TRUSTED_EVENTS:
        refusal = f"a run for a {event.name} event can't be one"
    elif branch is None:
        refusal = "it ran on a tag, not on a branch"
    carries = refusal is None and job.baseline is not None and job.baseline.branch == branch
    return Role(refusal, carries, run_id, artifact)


def _baseline_at(job: Job) -> RunDirectory:
    """The baseline in the folder named by the workflow, copied out of reach of user code, with recomputed scores."""
    settings = job.settings
    named = str(settings.gate.baseline)
    source, target = settings.path(named), job.temporary / "baseline"
    try:
        write_members(_members(source, settings.within), target)
        if os.path.lexists(source / CARRIED / MANIFEST):
            write_members(_members(source / CARRIED, settings.within), target / CARRIED)
        return confirm(open_baseline(target))
    except OSError as error:
        raise BaselineError(
            f"the baseline can't be used: {Path(error.filename or source).name} can't be read: {error.strerror}.",
            where=named,
            hint="Use a directory in the workspace that was written by `ragstone run` or `ragstone gate`.",
        ) from None
    except RunDirectoryError as error:
        raise BaselineError(f"the baseline can't be used: {error.message}", where=named, hint=error.hint) from None


def _members(run: Path, within: Path | None) -> dict[str, bytes]:
    return {name: read_regular(run / name, within=within, limit=MEMBER_LIMITS[name]) for name in (MANIFEST, SAMPLES)}


def _past(job: Job, policy: Policy, role: Role) -> RunHistory:
    """The history of the baseline's branch, which only a run that can be its baseline extends."""
    if job.settings.run.history is not None:
        job.notes.append("`[run] history` is ignored: on GitHub the history comes with the baseline.")
    history, damage = history_from(job.history)
    if damage is not None:
        job.notes.append(damage)
    return RunHistory(
        history,
        main=role.refusal is None,
        pull_request=merged_pull_request(job.event.message),
        github_run=job.event.run_id or None,
        event=job.event.kind.value,
        releases=tagged_commits(job.api, policy) if job.api is not None else {},
    )


def _show_log(log: Path, write: Callable[[str], None], of: str = "") -> None:
    try:
        size = log.stat().st_size
        with log.open("rb") as stream:
            stream.seek(max(0, size - _LOG_TAIL))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return
    if text.strip():
        write(f"-- output of the system under test{of}{' (last part)' if size > _LOG_TAIL else ''} --\n{text}\n--\n")
