"""The evaluating half of a job: from checked settings, through the baseline and the
user's system, to a verdict."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from ragstone.errors import ConfigError, RagstoneError
from ragstone.evaluation.directory import SYSTEM_LOG, RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.plan import RunPlan
from ragstone.formatting import join_first
from ragstone.gate.policy import Policy
from ragstone.github.annotations import Places
from ragstone.github.api.base_tree import tree_of
from ragstone.github.api.changed_files import changed_files
from ragstone.github.api.commands import Write
from ragstone.github.api.earlier_runs import find_earlier_run
from ragstone.github.api.event import Event
from ragstone.github.api.trusted_runs import TRUSTED_EVENTS
from ragstone.github.base_commit import find_base_commit, prepare_base
from ragstone.github.checkout import choose_judge, read_checkout
from ragstone.github.commit_files import BaseFiles
from ragstone.github.comparison import find_comparison, refuse_own_baseline
from ragstone.github.container.user_environment import Installed
from ragstone.github.job import Job
from ragstone.github.job_report import Report
from ragstone.github.policy_changes import changes_to_the_gate
from ragstone.github.trusted_config import TrustedSettings, restrict_to_base
from ragstone.pipeline.accept import policy_folder
from ragstone.pipeline.baseline_search import Comparison, TrustedBaseline
from ragstone.pipeline.gate import GatedRun, GateRequest, gate
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.role import Role
from ragstone.pipeline.run_plan import run_plan
from ragstone.printable import shown_name
from ragstone.progress import LineProgress
from ragstone.system.entrypoint import entrypoint_or_none

_LOG_TAIL = 64 * 1024
_MOMENT_S = 0.001
_MERGED = re.compile(r"^Merge pull request #(\d{1,9}) |\(#(\d{1,9})\)\s*$")


async def evaluate(job: Job, write: Write) -> Report:
    """The verdict, or the error in its place. What can be checked without running user
    code is checked first."""
    notes: list[str] = []
    changes: list[str] = []
    try:
        report = await _decided(job, write, notes, changes)
    except RagstoneError as error:
        text = job.redact(str(error))
        report = Report(exit_code=error.exit_code, error=error, error_text=text)
    return replace(
        report,
        notes=tuple(notes),
        changes=tuple(changes),
        pull_request=job.plan.pull_request,
    )


async def _decided(
    job: Job, write: Write, notes: list[str], changes: list[str]
) -> Report:
    """The outcome. Adds what a reader must know to `notes`, and what a pull request
    changes about the gate to `changes`. Raises RagstoneError."""
    event, base_files = job.event, BaseFiles(job)
    _refuse_unreviewed(job)
    refuse_own_baseline(job)
    base_commit = find_base_commit(job)
    allowed = restrict_to_base(job, base_files, notes)
    changes += notes  # taken back for this run, in force once they are merged
    checkout = read_checkout(allowed, base_files, notes)
    judged = choose_judge(job, checkout)
    notes += judged.notes
    policy, templates, settings = checkout.policy, checkout.templates, judged.settings
    if judged.outcome is not None:
        return Report(
            judged.outcome.document,
            judged.outcome.exit_code,
            policy=policy,
            templates=templates,
        )
    context = _context(job, write)
    plan = run_plan(settings, context, golden=checkout.golden, command="gate")
    plan = plan.requiring(policy.named_metrics)
    plan = _comparing_files(plan, job, notes)
    comparison = find_comparison(job, checkout.settings, base_commit, notes, write)
    of_gate: list[str] = []
    unproven = changes_to_the_gate(event.kind, base_files, checkout, of_gate)
    changes += of_gate
    notes[:0] = of_gate
    baseline = comparison.trusted
    role = _role(job, baseline)
    compared = run_id = None
    if base_commit is not None:
        compared = event.address_of("commit", base_commit)
    elif baseline is not None:
        compared, run_id = baseline.url, baseline.run_id
    request = GateRequest(
        run=plan if job.container is None else job.container.staged(plan),
        policy=policy,
        fail_on=settings.gate.fail_on,
        baseline=comparison.run,
        baseline_required=settings.gate.baseline is not None,
        earlier=_earlier_run(job, plan, write),
        past=_past(job.event, comparison, role),
        templates=templates,
        links=job.links(event.report_sha, event.run_url, compared),
        role=role,
        warnings=tuple(notes),
        folder=_policy_folder(policy, job.settings.root, job.places),
        unproven=judged.unproven or comparison.unproven or unproven,
    )
    trusted = TrustedSettings(settings)
    outcome = await _run(job, request, base_commit, trusted, context, write)
    return Report(
        outcome.document,
        outcome.exit_code,
        policy=policy,
        run=outcome.run,
        templates=templates,
        baseline_run_id=run_id,
    )


def _context(job: Job, write: Write) -> RunContext:
    return RunContext(
        environ=job.environ,
        progress=LineProgress(job.out),
        say=lambda line: write(job.redact(line) + "\n"),
        redact=job.redact,
        now=job.now,
        trusts_checkout=False,
    )


def _past(event: Event, comparison: Comparison, role: Role) -> RunHistory:
    """The history that came with the baseline, and what to say of this run in it."""
    return RunHistory(
        comparison.history,
        is_main=role.refusal is None,
        pull_request=merged_pull_request(event.message),
        github_run=event.run_id or None,
        event=event.kind.value,
    )


def _refuse_unreviewed(job: Job) -> None:
    """Raise ConfigError for a change that is proposed for a branch which doesn't count
    as reviewed."""
    if job.base.refusal is not None:
        default = job.event.default_branch or "the default branch"
        raise ConfigError(
            job.base.refusal,
            hint=f"Protect the branch, propose the change for {default}, or leave other branches out of the workflow with "
            f"`branches: [{default}]` under `on: pull_request`.",
        )


async def _run(
    job: Job,
    request: GateRequest,
    base_commit: str | None,
    settings: TrustedSettings,
    context: RunContext,
    write: Write,
) -> GatedRun:
    """Set up the systems, that of the base commit first, before any code of the
    checkout runs; then ask the gate."""
    plan = request.run
    source = plan.system
    # In our own error stream, the output of the user's system could act as a command.
    log = job.temporary / SYSTEM_LOG
    limit_s = plan.time_limit_s
    deadline = None if limit_s is None else monotonic() + limit_s
    base = None
    if base_commit is not None:
        base = prepare_base(job, base_commit, settings, request, deadline, write)
    installed = Installed(source.settings, job.environ)
    if job.container is not None:
        installed = job.container.install(source.settings, job.environ, deadline, write)
        source = replace(source, settings=installed.settings)
        plan = replace(plan, metrics=replace(plan.metrics, system=source))
    if deadline is not None:
        # At least a moment for the run to start and to report that it was stopped.
        plan = replace(plan, time_limit_s=max(_MOMENT_S, deadline - monotonic()))
    factory = partial(
        installed.build, root=source.root, log=log, within=source.allowed_folder
    )
    try:
        return await gate(
            replace(request, run=plan, base=base),
            replace(context, system_factory=factory),
        )
    finally:
        _show_log(log, write)
        if base is not None and base.log is not None:
            _show_log(base.log, write, of=f" at {base.name}")


def _comparing_files(plan: RunPlan, job: Job, notes: list[str]) -> RunPlan:
    """`plan` that says which files its commit has, and how many of the checkout differ,
    before any code of it runs.

    Which ones differ is a note: a step before the gate may have edited them.
    """
    if job.api is None or plan.invocation is None:
        return plan
    sha = job.event.sha
    commit, count = f"commit {sha[:12]}", None
    changed = changed_files(job.api, sha, job.places.workspace)
    if changed is None:
        notes.append(
            f"It is not known whether files of this checkout differ from {commit}."
        )
    else:
        count = len(changed)
        if changed:
            names = join_first(list(map(shown_name, changed)))
            notes.append(f"Files of this checkout differ from {commit}: {names}.")
    facts = {"changed": count, "tree": tree_of(job.api, sha)}
    return replace(plan, invocation=plan.invocation.model_copy(update=facts))


def _earlier_run(job: Job, plan: RunPlan, write: Write) -> RunDirectory | None:
    """A run that this pull request had before of the same files, if they tell which
    system answers."""
    pull = job.event.pull_request
    tree = None if plan.invocation is None else plan.invocation.tree
    if job.api is None or tree is None or pull is None or pull.is_fork:
        return None
    system = job.settings.system
    entrypoint = entrypoint_or_none(system.entrypoint)
    if entrypoint is not None:
        is_in_files = entrypoint.kind.runs_users_code or system.version is not None
        if not (entrypoint.kind.can_be_asked_again and is_in_files):
            return None
    folder = job.temporary / "earlier"
    return find_earlier_run(
        job.api,
        job.event.run_id,
        job.inputs.artifact_name,
        tree=tree,
        folder=folder,
        write=write,
    )


def _policy_folder(policy: Policy, root: Path, places: Places) -> str | None:
    """The policy's path for readers of the comment, relative to the root of the
    repository."""
    return places.within(str(policy_folder(policy, root).absolute()))


def merged_pull_request(message: str | None) -> int | None:
    """The pull request merged by a commit with this `message`, in GitHub's wording;
    None if there is none."""
    merge = _MERGED.search((message or "").partition("\n")[0])
    if merge is None:
        return None
    return int(merge[1] or merge[2]) or None


def _role(job: Job, baseline: TrustedBaseline | None) -> Role:
    """The role of this run for later ones: a baseline of its branch, if nobody else can
    start such a run."""
    event = job.event
    branch = event.merge_base_branch or event.branch
    refusal = None
    if event.name not in TRUSTED_EVENTS:
        refusal = f"a run for a {event.name} event can't be one"
    elif branch is None:
        refusal = "it ran on a tag, not on a branch"
    if baseline is None:
        return Role(refusal)
    carries = refusal is None and baseline.branch == branch
    return Role(
        refusal,
        carries,
        baseline.run_id,
        (baseline.carried_by or baseline.run_id, job.inputs.artifact_name),
    )


def _show_log(log: Path, write: Write, of: str = "") -> None:
    try:
        output = log.read_bytes()
    except OSError:
        return
    text = output[-_LOG_TAIL:].decode("utf-8", "replace")
    part = ""
    if len(output) > _LOG_TAIL:
        part = " (last part)"
    if text.strip():
        write(f"-- output of the system under test{of}{part} --\n{text}\n--\n")
