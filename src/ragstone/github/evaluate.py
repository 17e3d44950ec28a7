"""The evaluating half of a job: from checked settings, through the baseline and the
user's system, to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ragstone.errors import EXIT_PASS, RagstoneError
from ragstone.evaluation.directory import SYSTEM_LOG, RunDirectory
from ragstone.evaluation.lineage import lineage
from ragstone.evaluation.rounds.base_commit import BaseSystem
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.session import RunPlan
from ragstone.formatting import counted, some
from ragstone.gate.policy import Policy
from ragstone.github.annotations import Places
from ragstone.github.api.base_tree import tree_of
from ragstone.github.api.changed_files import changed_files
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.earlier_runs import find_earlier_run
from ragstone.github.api.event import EventKind
from ragstone.github.api.trusted_runs import TRUSTED_EVENTS
from ragstone.github.base_commit import find_base_commit, prepare_base
from ragstone.github.branch_history import merged_pull_request
from ragstone.github.checkout import Checkout, choose_judge, read_checkout
from ragstone.github.commit_files import BaseFiles
from ragstone.github.comparison import Comparison, find_comparison, refuse_own_baseline
from ragstone.github.job import Job
from ragstone.github.job_report import Report, warning_of
from ragstone.github.policy_changes import changes_to_the_gate
from ragstone.github.trusted_config import Trusted, restrict_to_base
from ragstone.pipeline.baseline_search import TrustedBaseline
from ragstone.pipeline.gate import GateOutcome, GateRequest, gate
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.role import Role
from ragstone.pipeline.run_plan import run_plan
from ragstone.printable import shown_name
from ragstone.progress import LineProgress
from ragstone.report.parts import Links
from ragstone.settings.settings import Settings
from ragstone.system.entrypoint import recognised

_LOG_TAIL = 64 * 1024


Write = Callable[[str], None]


async def evaluate(job: Job, write: Write) -> Report:
    """The verdict, or the error in its place. What can be checked without running user
    code is checked first."""
    context = RunContext(
        environ=job.environ,
        progress=LineProgress(job.out),
        say=lambda line: write(job.redact(line) + "\n"),
        redact=job.redact,
        now=job.now,
        trusts_checkout=False,
    )
    base_files = BaseFiles(
        job.api, job.base, job.settings, job.places.workspace, job.temporary
    )
    checkout: Checkout | None = None
    base_commit: str | None = None
    comparison = Comparison()
    outcome: GateOutcome | None = None
    error: RagstoneError | None = None
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    try:
        refuse_own_baseline(job)
        base_commit = find_base_commit(job)
        restricted = restrict_to_base(
            job.settings,
            base_files,
            environ=job.environ,
            workspace=job.places.workspace,
        )
        changes, notes = (
            restricted.notes,
            restricted.notes,
        )  # taken back for this run, in force once they are merged
        checkout = read_checkout(job, restricted.settings, base_files)
        notes += checkout.notes
        judged = choose_judge(job, checkout)
        notes += judged.notes
        outcome = judged.outcome
        if outcome is None:
            plan = run_plan(
                judged.settings, context, golden=checkout.golden, command="gate"
            )
            plan, file_notes = comparing_files(
                plan.requiring(checkout.policy.named_metrics), job
            )
            notes += file_notes
            comparison = find_comparison(
                job, checkout.settings.value, base_commit, write
            )
            changed = changes_to_the_gate(job.event.kind, base_files, checkout)
            changes += changed.sentences
            notes = changed.sentences + notes + comparison.notes
            request = GateRequest(
                run=plan if job.container is None else job.container.staged(plan),
                policy=checkout.policy,
                fail_on=judged.settings.gate.fail_on,
                baseline=comparison.run,
                baseline_required=judged.settings.gate.baseline is not None,
                earlier=_earlier_run(job, plan, write),
                past=_past(job, comparison),
                templates=checkout.templates,
                links=_links(job, base_commit, comparison.trusted),
                role=_role(job, comparison.trusted),
                warnings=_with_base(job, notes),
                folder=_policy_folder(checkout.policy, job.settings.root, job.places),
                unproven=judged.unproven or comparison.unproven or changed.unproven,
            )
            outcome = await _run(
                job, request, base_commit, Trusted(judged.settings), context, write
            )
    except RagstoneError as caught:
        error = caught
    baseline = comparison.trusted if base_commit is None else None
    report = Report(
        error=error,
        error_text="" if error is None else job.redact(str(error)),
        exit_code=EXIT_PASS if error is None else error.exit_code,
        preface=warning_of(job.base),
        notes=_with_base(job, notes),
        changes=changes,
        pull_request=job.plan.pull_request,
        baseline_run_id=None if baseline is None else baseline.run_id,
    )
    if outcome is None or checkout is None:
        return report
    document = outcome.document
    return replace(
        report,
        document=document,
        exit_code=outcome.exit_code,
        preface="" if job.base.sentence in document.warnings else report.preface,
        policy=checkout.policy,
        templates=checkout.templates,
        run=outcome.run,
        reports=outcome.reports,
    )


def _with_base(job: Job, notes: tuple[str, ...]) -> tuple[str, ...]:
    return notes if job.base.sentence is None else (job.base.sentence, *notes)


async def _run(
    job: Job,
    request: GateRequest,
    base_commit: str | None,
    settings: Trusted[Settings],
    context: RunContext,
    write: Write,
) -> GateOutcome:
    """Set up the systems, that of the base commit first, before any code of the
    checkout runs; then ask the gate."""
    log = job.temporary / SYSTEM_LOG
    if base_commit is not None:
        fingerprints = (
            lineage(request.baseline)
            if isinstance(request.baseline, RunDirectory)
            else ()
        )
        plan, base = prepare_base(
            job, base_commit, settings, request, fingerprints, write
        )
        request = replace(request, run=plan, base=base)
    if job.container is not None:
        plan, context = job.container.prepare(request.run, context, log, write)
        request = replace(request, run=plan)
    else:
        # In our own error stream, the output of the user's system could act as a
        # command.
        context = replace(
            context,
            system_factory=request.run.system.builder(replace(context, system_log=log)),
        )
    try:
        return await gate(request, context)
    finally:
        _show_log(log, write)
        if isinstance(request.base, BaseSystem) and request.base.log is not None:
            _show_log(request.base.log, write, of=f" at {request.base.name}")


def comparing_files(plan: RunPlan, job: Job) -> tuple[RunPlan, tuple[str, ...]]:
    """`plan` that says which files its commit has, and how many of the checkout differ,
    before any code of it runs.

    Which ones differ is a note: a step before the gate may have edited them.
    """
    if job.api is None or plan.invocation is None:
        return plan, ()
    changed = changed_files(job.api, job.event.sha, job.places.workspace)
    try:
        tree = tree_of(job.api, job.event.sha)
    except GitHubApiError:
        tree = None
    facts = {"changed": None if changed is None else len(changed), "tree": tree}
    plan = replace(plan, invocation=plan.invocation.model_copy(update=facts))
    return plan, _file_notes(changed, f"commit {job.event.sha[:12]}")


def _file_notes(changed: Sequence[str] | None, commit: str) -> tuple[str, ...]:
    """What a reader must know about the files of a checkout that differ from its
    commit."""
    if changed is None:
        return (
            f"It is not known whether files of this checkout differ from {commit}.",
        )
    if not changed:
        return ()
    names = some([shown_name(name) for name in changed])
    verb = "differs" if len(changed) == 1 else "differ"
    return (
        f"{counted(len(changed), 'file')} of this checkout {verb} from {commit}: {names}.",
    )


def _earlier_run(job: Job, plan: RunPlan, write: Write) -> RunDirectory | None:
    """A run that this pull request had before of the same files, if they tell which
    system answers."""
    pull = job.event.pull_request
    tree = None if plan.invocation is None else plan.invocation.tree
    if job.api is None or tree is None or pull is None or pull.is_fork:
        return None
    system = job.settings.system
    entrypoint = recognised(system.entrypoint)
    if entrypoint is not None:
        is_in_files = entrypoint.kind.runs_users_code or system.version is not None
        if not (entrypoint.can_be_asked_again and is_in_files):
            return None
    folder = job.temporary / "earlier"
    return find_earlier_run(
        job.api, job.event.run_id, job.inputs.artifact_name, tree, folder, write
    )


def _links(
    job: Job, base_commit: str | None, baseline: TrustedBaseline | None
) -> Links:
    event = job.event
    compared = baseline.url if baseline is not None else None
    if base_commit is not None:
        compared = f"{event.server_url}/{event.repository}/commit/{base_commit}"
    return job.links(event.report_sha, event.run_url, compared)


def _policy_folder(policy: Policy, root: Path, places: Places) -> str | None:
    """The policy's path for readers of the comment, relative to the root of the
    repository."""
    folder = root if policy.file is None else Path(policy.file).parent
    return places.within(str(folder.absolute()))


def _role(job: Job, baseline: TrustedBaseline | None) -> Role:
    """The role of this run for later ones: a baseline of its branch, if nobody else can
    start such a run."""
    event = job.event
    branch = (
        event.merge_base_branch if event.kind is EventKind.MERGE_GROUP else event.branch
    )
    refusal = None
    if job.base.unreviewed is not None:
        refusal = f"its base, '{job.base.named}', {job.base.unreviewed}"
    elif event.name not in TRUSTED_EVENTS:
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


def _past(job: Job, comparison: Comparison) -> RunHistory:
    """The history of the baseline's branch, which only a run that can be its baseline
    extends."""
    return RunHistory(
        comparison.history,
        main=_role(job, comparison.trusted).refusal is None,
        pull_request=merged_pull_request(job.event.message),
        github_run=job.event.run_id or None,
        event=job.event.kind.value,
    )


def _show_log(log: Path, write: Write, of: str = "") -> None:
    try:
        size = log.stat().st_size
        with log.open("rb") as stream:
            stream.seek(max(0, size - _LOG_TAIL))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return
    if text.strip():
        write(
            f"-- output of the system under test{of}{' (last part)' if size > _LOG_TAIL else ''} --\n{text}\n--\n"
        )
