"""Evaluates the user's system in a job, and decides: from checked settings, through the
baseline, to a verdict."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from ragstone.errors import ConfigError, RagstoneError
from ragstone.evaluation.directory import SYSTEM_LOG, RunDirectory
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.rounds_plan import RunPlan
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

_MAX_SHOWN_LOG_BYTES = 64 * 1024
# Enough for a run to start, and to report that its time is up.
_MIN_TIME_LIMIT_S = 0.001
_MERGE_MESSAGE = re.compile(r"^Merge pull request #(\d{1,9}) |\(#(\d{1,9})\)\s*$")


async def evaluate(job: Job, write: Write) -> Report:
    """Evaluate and decide. An error becomes a report without a verdict."""
    notes: list[str] = []
    changes: list[str] = []
    try:
        report = await _decide(job, write, notes, changes)
    except RagstoneError as error:
        text = job.redact(str(error))
        report = Report(exit_code=error.exit_code, error=error, error_text=text)
    return replace(
        report,
        notes=tuple(notes),
        changes=tuple(changes),
        pull_request=job.plan.pull_request,
    )


async def _decide(
    job: Job, write: Write, notes: list[str], changes: list[str]
) -> Report:
    """Evaluate and decide. Adds what a reader must know to `notes`, and what a pull
    request changes about the gate to `changes`. Raises RagstoneError."""
    # Everything that can be checked without running the user's code comes first.
    event = job.event
    base_files = BaseFiles(job)
    _refuse_unreviewed(job)
    refuse_own_baseline(job)
    base_commit = find_base_commit(job)
    trusted_settings = restrict_to_base(job, base_files, notes)
    # So far, the notes are values of the checkout that don't count in this run, but
    # will once they are merged.
    changes += notes
    checkout = read_checkout(trusted_settings, base_files, notes)
    judge_choice = choose_judge(job, checkout)
    notes += judge_choice.notes
    policy = checkout.policy
    templates = checkout.templates
    settings = judge_choice.settings
    if judge_choice.outcome is not None:
        return Report(
            judge_choice.outcome.document,
            judge_choice.outcome.exit_code,
            policy=policy,
            templates=templates,
        )
    context = _context(job, write)
    plan = run_plan(settings, context, golden=checkout.golden, command="gate")
    plan = plan.requiring(policy.named_metrics)
    plan = _with_file_facts(plan, job, notes)
    comparison = find_comparison(job, checkout.settings, base_commit, notes, write)
    gate_changes: list[str] = []
    unproven = changes_to_the_gate(event.kind, base_files, checkout, gate_changes)
    changes += gate_changes
    notes[:0] = gate_changes
    baseline = comparison.trusted
    role = _role(job, baseline)
    compared_url = None
    baseline_run_id = None
    if base_commit is not None:
        compared_url = event.address_of("commit", base_commit)
    elif baseline is not None:
        compared_url = baseline.url
        baseline_run_id = baseline.run_id
    request = GateRequest(
        run=plan if job.container is None else job.container.staged(plan),
        policy=policy,
        fail_on=settings.gate.fail_on,
        baseline=comparison.run,
        baseline_required=settings.gate.baseline is not None,
        earlier=_earlier_run(job, plan, write),
        past=_history(job.event, comparison, role),
        templates=templates,
        links=job.links(event.report_sha, event.run_url, compared_url),
        role=role,
        warnings=tuple(notes),
        folder=_policy_folder(policy, job.settings.root, job.places),
        unproven=judge_choice.unproven or comparison.unproven or unproven,
    )
    trusted = TrustedSettings(settings)
    outcome = await _run(job, request, base_commit, trusted, context, write)
    return Report(
        outcome.document,
        outcome.exit_code,
        policy=policy,
        run=outcome.run,
        templates=templates,
        baseline_run_id=baseline_run_id,
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


def _history(event: Event, comparison: Comparison, role: Role) -> RunHistory:
    """The history that came with the baseline, and the facts of this run for it."""
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
            hint=f"Protect the branch, or propose the change for {default}. `branches: [{default}]` under "
            "`on: pull_request` leaves changes for other branches out of the workflow.",
        )


async def _run(
    job: Job,
    request: GateRequest,
    base_commit: str | None,
    settings: TrustedSettings,
    context: RunContext,
    write: Write,
) -> GatedRun:
    """Set up the systems, and run the gate. The system of the base commit is set up
    first, before any code of the checkout runs."""
    plan = request.run
    source = plan.system
    # The output of the user's system goes to a file: in the log of the job, it could
    # act as a command.
    log = job.temporary / SYSTEM_LOG
    limit_s = plan.time_limit_s
    deadline_s = None if limit_s is None else monotonic() + limit_s
    base = None
    if base_commit is not None:
        base = prepare_base(job, base_commit, settings, request, deadline_s, write)
    installed = Installed(source.settings, job.environ)
    if job.container is not None:
        installed = job.container.install(
            source.settings, job.environ, deadline_s, write
        )
        source = replace(source, settings=installed.settings)
        plan = replace(plan, metrics=replace(plan.metrics, system=source))
    if deadline_s is not None:
        remaining_s = max(_MIN_TIME_LIMIT_S, deadline_s - monotonic())
        plan = replace(plan, time_limit_s=remaining_s)
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
            _show_log(base.log, write, version=f" at {base.name}")


def _with_file_facts(plan: RunPlan, job: Job, notes: list[str]) -> RunPlan:
    """Add to `plan` which tree its commit has, and how many files of the checkout
    differ from it, before any code of the checkout runs.

    Files can differ because a step before the gate edited them. Adds their names to
    `notes`.
    """
    if job.api is None or plan.invocation is None:
        return plan
    sha = job.event.sha
    commit = f"commit {sha[:12]}"
    changed_count = None
    changed = changed_files(job.api, sha, job.places.workspace)
    if changed is None:
        notes.append(
            f"It is not known whether files of this checkout differ from {commit}."
        )
    else:
        changed_count = len(changed)
        if changed:
            names = join_first(list(map(shown_name, changed)))
            notes.append(f"Files of this checkout differ from {commit}: {names}.")
    facts = {"changed": changed_count, "tree": tree_of(job.api, sha)}
    return replace(plan, invocation=plan.invocation.model_copy(update=facts))


def _earlier_run(job: Job, plan: RunPlan, write: Write) -> RunDirectory | None:
    """Find an earlier run of this pull request with the same files. Returns None if
    there is none, or if its system may have been another one."""
    pull = job.event.pull_request
    tree = None if plan.invocation is None else plan.invocation.tree
    if job.api is None or tree is None or pull is None or pull.is_fork:
        return None
    system = job.settings.system
    entrypoint = entrypoint_or_none(system.entrypoint)
    if entrypoint is not None:
        # A system that runs elsewhere is the same only if it has the same version.
        is_in_files = entrypoint.kind.runs_users_code or system.version is not None
        if not is_in_files or not entrypoint.kind.can_be_asked_again:
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
    """The folder of the policy, relative to the root of the repository; None if it is
    outside."""
    return places.within(str(policy_folder(policy, root).absolute()))


def merged_pull_request(message: str | None) -> int | None:
    """The number of the pull request that a commit with this `message` merged; None if
    it is not worded as GitHub words merges."""
    first_line = (message or "").partition("\n")[0]
    match = _MERGE_MESSAGE.search(first_line)
    if match is None:
        return None
    # A number 0 is none.
    return int(match[1] or match[2]) or None


def _role(job: Job, baseline: TrustedBaseline | None) -> Role:
    """The role of this run for later runs: it can be a baseline of its branch if only
    people with write access can start such a run."""
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
    # The baseline was read from its run's artifact, or from that of a run that carried
    # it.
    artifact_run_id = baseline.carried_by or baseline.run_id
    return Role(
        refusal,
        carries=carries,
        run_id=baseline.run_id,
        artifact=(artifact_run_id, job.inputs.artifact_name),
    )


def _show_log(log: Path, write: Write, version: str = "") -> None:
    """Write the end of a system's log to that of the job, if there is any output."""
    try:
        output = log.read_bytes()
    except OSError:
        return
    text = output[-_MAX_SHOWN_LOG_BYTES:].decode("utf-8", "replace")
    part = ""
    if len(output) > _MAX_SHOWN_LOG_BYTES:
        part = " (last part)"
    if text.strip():
        write(f"-- output of the system under test{version}{part} --\n{text}\n--\n")
