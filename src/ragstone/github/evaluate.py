"""The evaluating half of a job: from checked settings, through the baseline and the user's system, to a verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from ragstone.github.annotations import Places
from ragstone.github.api.base_tree import tree_of
from ragstone.github.api.changed_files import changed_files
from ragstone.github.api.client import GitHubApiError
from ragstone.github.api.earlier_runs import find_earlier_run
from ragstone.github.api.event import EventKind
from ragstone.github.api.trusted_runs import TRUSTED_EVENTS
from ragstone.github.base_commit import NO_BASE_COMMIT, OWN_SETTINGS, find_base_commit, prepare_base
from ragstone.github.branch_history import merged_pull_request, tagged_commits
from ragstone.github.commit_files import BaseFiles
from ragstone.github.credentials import asks_a_server
from ragstone.github.job import Job
from ragstone.github.plan import BaselineSource
from ragstone.github.policy_changes import changes_to_the_gate
from ragstone.github.reviewed_templates import reviewed_templates
from ragstone.github.trusted_config import Trusted, restrict_to_base
from ragstone.golden.sample import GoldenSet
from ragstone.history.file import History
from ragstone.judge.llm.account_settings import needs_key
from ragstone.pipeline.baseline import open_baseline
from ragstone.pipeline.baseline_search import TrustedBaseline, find_baseline, history_from
from ragstone.pipeline.gate import GateOutcome, GateRequest, gate
from ragstone.pipeline.gate_request import gate_policy
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.no_key_fallback import NOT_JUDGED, NOT_REVIEWED, Narrowed, without_key
from ragstone.pipeline.role import Role
from ragstone.pipeline.run_plan import read_golden_set, run_plan
from ragstone.printable import shown_name
from ragstone.progress import LineProgress
from ragstone.report.parts import Links
from ragstone.report.templates import Templates
from ragstone.settings.settings import Settings
from ragstone.system.entrypoint import recognised

_CANARY_EVENTS = (EventKind.PUSH, EventKind.SCHEDULE, EventKind.WORKFLOW_DISPATCH)
_LOG_TAIL = 64 * 1024


Write = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Checkout:
    """What a job evaluates and decides by, read once before any code of the checkout runs.

    Later changes by user code have no effect.
    """

    settings: Trusted[Settings]
    policy: Policy
    golden: GoldenSet
    templates: Templates | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a run is compared with: the baseline's `run`, and `trusted`, how GitHub has it.

    `history` is that of the branch. `unproven` says why the run can't pass without the baseline.
    """

    run: RunDirectory | None = None
    trusted: TrustedBaseline | None = None
    history: History = field(default_factory=History)
    unproven: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The `outcome` of the gate, or the `error` in its place, with what is known by then.

    `changes` are what a pull request changes about the gate.
    """

    outcome: GateOutcome | None
    error: RagstoneError | None
    checkout: Checkout | None
    changes: tuple[str, ...]
    notes: tuple[str, ...]
    baseline_run_id: int | None


async def evaluate(job: Job, write: Write) -> Evaluation:
    """The verdict. What can be checked without running user code is checked first."""
    context = RunContext(
        environ=job.environ,
        progress=LineProgress(job.out),
        say=lambda line: write(job.redact(line) + "\n"),
        redact=job.redact,
        now=job.now,
        trusts_checkout=False,
    )
    base_files = BaseFiles(job.api, job.base, job.settings, job.places.workspace, job.temporary)
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
        restricted = restrict_to_base(job.settings, base_files, environ=job.environ, workspace=job.places.workspace)
        changes, notes = restricted.notes, restricted.notes  # taken back for this run, in force once they are merged
        checkout = read_checkout(job, restricted.settings, base_files)
        notes += checkout.notes
        judged = choose_judge(job, checkout)
        notes += judged.notes
        outcome = judged.outcome
        if outcome is None:
            plan = run_plan(judged.settings, context, golden=checkout.golden, command="gate")
            plan, file_notes = comparing_files(plan.requiring(checkout.policy.named_metrics), job)
            notes += file_notes
            comparison = find_comparison(job, checkout.settings.value, base_commit, write)
            changed = changes_to_the_gate(
                job.event.kind,
                base_files,
                checkout.settings.value,
                checkout.policy,
                checkout.golden,
                comparison.run,
            )
            changes += changed.sentences
            notes = changed.sentences + notes + comparison.notes
            request = GateRequest(
                run=plan if job.container is None else job.container.staged(plan),
                policy=checkout.policy,
                fail_on=judged.settings.gate.fail_on,
                baseline=comparison.run,
                baseline_required=judged.settings.gate.baseline is not None,
                earlier=_earlier_run(job, plan, write),
                past=_past(job, checkout.policy, comparison),
                templates=checkout.templates,
                links=_links(job, base_commit, comparison.trusted),
                role=_role(job, comparison.trusted),
                warnings=_with_base(job, notes),
                folder=_policy_folder(checkout.policy, job.settings.root, job.places),
                unproven=judged.unproven or comparison.unproven or changed.unproven,
            )
            outcome = await _run(job, request, base_commit, Trusted(judged.settings), context, write)
    except RagstoneError as caught:
        error = caught
    baseline = comparison.trusted if base_commit is None else None
    return Evaluation(
        outcome=outcome,
        error=error,
        checkout=checkout,
        changes=changes,
        notes=_with_base(job, notes),
        baseline_run_id=None if baseline is None else baseline.run_id,
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
    """Set up the systems, that of the base commit first, before any code of the checkout runs; then ask the gate."""
    log = job.temporary / SYSTEM_LOG
    if base_commit is not None:
        fingerprints = lineage(request.baseline) if isinstance(request.baseline, RunDirectory) else ()
        plan, base = prepare_base(job, base_commit, settings, request, fingerprints, write)
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


def read_checkout(job: Job, allowed: Trusted[Settings], base_files: BaseFiles) -> Checkout:
    """Everything in the checkout that affects the verdict. Raises ConfigError, and what reading raises."""
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
        notes = (*notes, "`[run] history` is ignored: on GitHub the history comes with the baseline.")
    return Checkout(Trusted(settings), policy, read_golden_set(settings), reviewed.templates, notes)


def choose_judge(job: Job, checkout: Checkout) -> Narrowed:
    """How to judge with the keys that this job has, and what the run then leaves out. Raises ConfigError."""
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


def comparing_files(plan: RunPlan, job: Job) -> tuple[RunPlan, tuple[str, ...]]:
    """`plan` that says which files its commit has, and how many of the checkout differ, before any code of it runs.

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
    """What a reader must know about the files of a checkout that differ from its commit."""
    if changed is None:
        return (f"It is not known whether files of this checkout differ from {commit}.",)
    if not changed:
        return ()
    names = some([shown_name(name) for name in changed])
    verb = "differs" if len(changed) == 1 else "differ"
    return (f"{counted(len(changed), 'file')} of this checkout {verb} from {commit}: {names}.",)


def _earlier_run(job: Job, plan: RunPlan, write: Write) -> RunDirectory | None:
    """A run that this pull request had before of the same files, if they tell which system answers."""
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
    return find_earlier_run(job.api, job.event.run_id, job.inputs.artifact_name, tree, folder, write)


def _blocking(job: Job, settings: Settings) -> Settings:
    """`settings` with which a run whose base is not reviewed doesn't end the job with success.

    A commit's checks, that of the job among them, count for every change that it heads.
    """
    if job.base.unreviewed is None or settings.gate.fail_on == "never":
        return settings
    return settings.having("gate.fail_on", "inconclusive")


def refuse_own_baseline(job: Job) -> None:
    """A pull request's own config file must not choose the baseline, nor an input one that nobody reviews.

    Raises ConfigError.
    """
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
    job.check_baseline_inputs()


def _with_canaries(settings: Settings, kind: EventKind) -> Settings:
    """Runs of the branch itself check whether the judge changed; a pull request uses their result."""
    if settings.judge.canaries is not None or kind not in _CANARY_EVENTS:
        return settings
    return settings.having("judge.canaries", CANARIES)


def find_comparison(job: Job, settings: Settings, base_commit: str | None, write: Write) -> Comparison:
    """The baseline to compare with, or none and a note with the reason. Raises BaselineError.

    With a `base_commit`, the run is compared with that, and the baseline only gives judgements and lineage.
    """
    if job.plan.baseline is BaselineSource.PATH:
        return Comparison(_baseline_at(settings, job.temporary / "baseline"))
    if job.plan.baseline is BaselineSource.NONE:
        return Comparison()
    if job.api is None:
        return Comparison(notes=("No baseline: there is no GitHub token to find earlier runs.",))
    notes: tuple[str, ...] = ()
    if base_commit is None and job.plan.baseline is BaselineSource.COMMIT:
        notes = (NO_BASE_COMMIT,)
    found = find_baseline(job.artifacts(job.api, job.plan.baseline_branch))
    history, damage = history_from(found.history)
    without_run = Comparison(history=history, notes=notes if damage is None else (*notes, damage))
    if not isinstance(found, TrustedBaseline):
        if base_commit is not None:
            return without_run
        return replace(without_run, unproven=found.unproven, notes=(found.reason, *without_run.notes))
    try:
        run = found.materialise(job.temporary / "baseline")
    except RagstoneError as error:
        reason = f"The baseline of run {found.run_id} can't be used: {error.message}"
        unproven = f"Not proven. {reason}" if base_commit is None else None
        return replace(without_run, unproven=unproven, notes=(reason, *without_run.notes))
    carried = f", carried by run {found.carried_by}" if found.carried_by is not None else ""
    write(f"Baseline: run {found.run_id} of '{found.branch}'{carried}, commit {found.sha[:12]}, {found.created_at}.\n")
    return replace(without_run, run=run, trusted=found)


def _links(job: Job, base_commit: str | None, baseline: TrustedBaseline | None) -> Links:
    event = job.event
    compared = baseline.url if baseline is not None else None
    if base_commit is not None:
        compared = f"{event.server_url}/{event.repository}/commit/{base_commit}"
    return job.links(event.report_sha, event.run_url, compared)


def _policy_folder(policy: Policy, root: Path, places: Places) -> str | None:
    """The policy's path for readers of the comment, relative to the root of the repository."""
    folder = root if policy.file is None else Path(policy.file).parent
    return places.within(str(folder.absolute()))


def _role(job: Job, baseline: TrustedBaseline | None) -> Role:
    """The role of this run for later ones: a baseline of its branch, if nobody else can start such a run."""
    event = job.event
    branch = event.merge_base_branch if event.kind is EventKind.MERGE_GROUP else event.branch
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
    return Role(refusal, carries, baseline.run_id, (baseline.carried_by or baseline.run_id, job.inputs.artifact_name))


def _baseline_at(settings: Settings, target: Path) -> RunDirectory:
    """The baseline in the folder named by the workflow, copied out of reach of user code, with recomputed scores."""
    named = str(settings.gate.baseline)
    source = settings.path(named)
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


def _past(job: Job, policy: Policy, comparison: Comparison) -> RunHistory:
    """The history of the baseline's branch, which only a run that can be its baseline extends."""
    return RunHistory(
        comparison.history,
        main=_role(job, comparison.trusted).refusal is None,
        pull_request=merged_pull_request(job.event.message),
        github_run=job.event.run_id or None,
        event=job.event.kind.value,
        releases=tagged_commits(job.api, policy) if job.api is not None else {},
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
        write(f"-- output of the system under test{of}{' (last part)' if size > _LOG_TAIL else ''} --\n{text}\n--\n")
