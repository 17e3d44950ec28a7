"""Reports the run of a pull request from a fork, in a trusted job: its records are
read, checked, decided on and rendered again.

Nothing but the records is taken from the run: no verdict, no rendered text, no number
of a pull request. The pull request is found by the run's head commit, as GitHub knows
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragstone.archive import ArchiveRefused
from ragstone.errors import RagstoneError
from ragstone.evaluation.archive_members import RUN_LIMITS, unpack_run
from ragstone.evaluation.replay import confirm, vouch
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.round import judging_identity
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.rounds.sources import JudgeSource
from ragstone.gate.findings import ACCEPT
from ragstone.gate.policy import Policy
from ragstone.github.api.artifacts import newest_artifact, read_artifact
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.github.api.commands import Write
from ragstone.github.api.reported_run import NothingToPost, reported_run_and_pull
from ragstone.github.api.reviewed import base_of_change
from ragstone.github.commit_files import CommitFiles
from ragstone.github.comparison import find_comparison
from ragstone.github.job import Job
from ragstone.github.job_plan import BaselineSource
from ragstone.github.job_report import Report
from ragstone.github.policy_changes import changes_by_a_fork
from ragstone.golden.sample import GoldenSet
from ragstone.metrics.metric import Metric
from ragstone.pipeline.baseline_search import Comparison
from ragstone.pipeline.decide import (
    ComparedRun,
    Terms,
    decide,
    policy_for,
    run_document,
)
from ragstone.pipeline.gate_request import read_policy
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.rejudge import Rejudged, rejudge
from ragstone.pipeline.run_plan import project_metrics, read_golden_set
from ragstone.settings.settings import JudgeSettings

PREFACE = (
    "> [!NOTE]\n> These results come from the pull request's own run. Each score was checked against its recorded "
    "judgements, but nothing was run again here: review the answers before you rely on them.\n\n"
)

UNVERIFIED = "Unverified: parts of this run can't be verified."
MAX_UNTRUSTED_BYTES = 64 * 1024 * 1024


class _Gate(Struct, frozen=True):
    """What the run is decided by, read from this checkout."""

    golden: GoldenSet
    policy: Policy
    custom_metrics: tuple[Metric, ...]
    warnings: Sequence[str]


async def fork_report(job: Job, api: GitHubApi, write: Write) -> Report:
    """Read the run that this workflow_run job follows, and decide on it with the policy
    of this checkout.

    If the run, its pull request or its artifact is not found or not valid, the report
    is empty, with a note that says why. Raises RagstoneError if the golden set, the
    policy or a metric of this checkout is not valid.
    """
    golden = read_golden_set(job.settings)
    policy, warnings = policy_for(read_policy(job.settings), golden)
    custom_metrics = project_metrics(job.settings).custom_metrics()
    gate = _Gate(golden, policy, custom_metrics, warnings)
    try:
        return await _decide(job, api, gate, write)
    except (NothingToPost, GitHubApiError, ArchiveRefused, RagstoneError) as reason:
        return Report(notes=(f"The run is not reported: {reason}",))


async def _decide(job: Job, api: GitHubApi, gate: _Gate, write: Write) -> Report:
    settings = job.settings
    workflow_run, pull = reported_run_and_pull(api, job.event)
    base = base_of_change(api, job.event, pull.base.ref, pull.base.sha)
    if base.refusal is not None:
        raise NothingToPost(base.refusal)
    artifact = newest_artifact(api, workflow_run.id, job.inputs.artifact_name)
    if artifact is None:
        raise NothingToPost(
            f"run {workflow_run.id} left no artifact called '{job.inputs.artifact_name}'"
        )
    # RUN_LIMITS leaves out the cache of judgements, which the fork may have forged.
    members = read_artifact(api, artifact, RUN_LIMITS, max_bytes=MAX_UNTRUSTED_BYTES)
    unpacked = unpack_run(members, job.temporary / "untrusted")
    run = confirm(unpacked, gate.custom_metrics)
    vouched = vouch(run, gate.golden, gate.custom_metrics)
    current = ComparedRun(vouched.scores, run)
    notes: list[str] = []
    comparison = Comparison()
    past = None
    if job.plan.baseline is BaselineSource.ARTIFACT:
        job_of_pull = replace(job, base=base)
        comparison = find_comparison(job_of_pull, settings, None, notes, write)
        past = RunHistory(comparison.history, is_main=False)
    # The policy has this checkout's accepted drops: those of the fork don't count.
    terms = Terms(
        gate.policy,
        ComparedRun.baseline(comparison.run),
        job.now().date(),
        uses_level=True,
    )
    fork_files = CommitFiles(job, api, workflow_run.head_sha)
    changes = changes_by_a_fork(fork_files, settings, gate.policy)
    rejudged = await _rejudge_baseline(job, terms.baseline, current, gate)
    terms = replace(terms, baseline=rejudged.baseline)
    warnings = (
        *gate.warnings,
        *vouched.doubts,
        *changes,
        *notes,
        *rejudged.warnings,
    )
    verdict = decide(
        current,
        terms,
        past=past,
        warnings=warnings,
        unproven=UNVERIFIED if vouched.doubts else comparison.unproven,
    )
    baseline_url = None
    baseline_run_id = None
    if comparison.trusted is not None:
        baseline_url = comparison.trusted.url
        baseline_run_id = comparison.trusted.run_id
    links = job.links(workflow_run.head_sha, workflow_run.html_url, baseline_url)
    # Without the command that accepts drops: a fork's files don't count here.
    document = run_document(
        current, verdict.without_kind(ACCEPT), terms.baseline, links
    )
    return Report(
        job.redact.tree(document),
        preface=PREFACE,
        changes=changes,
        pull_request=pull.number,
        baseline_run_id=baseline_run_id,
    )


async def _rejudge_baseline(
    job: Job, baseline: ComparedRun | None, current: ComparedRun, gate: _Gate
) -> Rejudged:
    """Judge the baseline's answers with the offline judge if it judged the fork's run.
    If another judge did, the baseline stays as it is: this job asks no other judge."""
    # Functions of the project are code, and this job runs none: the baseline's scores
    # by them stay as they are.
    rubrics = {
        name: metric
        for name, metric in job.settings.metrics.items()
        if metric.python is None
    }
    folder = job.temporary / "rejudged"
    plan = RunPlan(
        gate.golden,
        JudgeSource(JudgeSettings(name="offline")),
        replace(project_metrics(job.settings), custom=rubrics),
        folder,
        repeats=job.settings.run.repeats,
        cached=False,
    )
    session = Session(plan, RunContext(environ={}, redact=job.redact, now=job.now))
    try:
        judge = judging_identity(session.judge, plan)
        if current.run is None or current.run.manifest.judge != judge:
            return Rejudged(baseline)
        return await rejudge(baseline, current, gate.policy, session, folder=folder)
    finally:
        await session.close()
