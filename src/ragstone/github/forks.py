"""Reports the result of an untrusted run in a trusted job: its data is read, checked,
decided on and rendered again.

Nothing in the run is trusted except its records: no verdict, no rendered text, no pull
request number. The pull request is found from the run's head commit, which comes from
GitHub.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ragstone.archive import ArchiveRefused
from ragstone.errors import RagstoneError
from ragstone.evaluation.archive_members import RUN_LIMITS, unpack_run
from ragstone.evaluation.replay import confirm, vouch
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.plan import RunPlan
from ragstone.evaluation.rounds.round import judging_identity
from ragstone.evaluation.rounds.session import Session
from ragstone.evaluation.rounds.sources import JudgeSource
from ragstone.gate.findings import ACCEPT
from ragstone.gate.policy import Policy
from ragstone.github.api.artifacts import newest_artifact, read_artifact
from ragstone.github.api.client import GitHubApi, GitHubApiError
from ragstone.github.api.commands import Write
from ragstone.github.api.reported_run import NothingToPost, head_and_pull
from ragstone.github.api.reviewed import base_of_change
from ragstone.github.commit_files import CommitFiles
from ragstone.github.comparison import find_comparison
from ragstone.github.job import Job
from ragstone.github.job_report import Report
from ragstone.github.plan import BaselineSource
from ragstone.github.policy_changes import changes_by_a_fork
from ragstone.golden.sample import GoldenSet
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


async def fork_report(job: Job, api: GitHubApi, write: Write) -> Report:
    """Read the run that this workflow_run job follows, and decide on it with the policy
    of this checkout.

    Data missing from GitHub or the run results in an empty report, with a note. Raises
    RagstoneError for errors in this checkout's config.
    """
    golden = read_golden_set(job.settings)
    policy, undrawn = policy_for(read_policy(job.settings), golden)
    try:
        return await _decided(job, api, golden, policy, undrawn, write)
    except (NothingToPost, GitHubApiError, ArchiveRefused, RagstoneError) as reason:
        return Report(notes=(f"The run is not reported: {reason}",))


async def _decided(
    job: Job,
    api: GitHubApi,
    golden: GoldenSet,
    policy: Policy,
    undrawn: Sequence[str],
    write: Write,
) -> Report:
    settings = job.settings
    head, pull = head_and_pull(api, job.event)
    base = base_of_change(api, job.event, pull.base.ref, pull.base.sha)
    if base.refusal is not None:
        raise NothingToPost(base.refusal)
    custom = project_metrics(settings).custom_metrics()
    artifact = newest_artifact(api, head.id, job.inputs.artifact_name)
    if artifact is None:
        raise NothingToPost(
            f"run {head.id} left no artifact called '{job.inputs.artifact_name}'"
        )
    # Without its cache, which can't prove that its judgements are true.
    members = read_artifact(api, artifact, RUN_LIMITS, max_bytes=MAX_UNTRUSTED_BYTES)
    run = confirm(unpack_run(members, job.temporary / "untrusted"), custom)
    vouched = vouch(run, golden, custom)
    current = ComparedRun(vouched.scores, run)
    notes: list[str] = []
    comparison, past = Comparison(), None
    if job.plan.baseline is BaselineSource.ARTIFACT:
        of_pull = replace(job, base=base)
        comparison = find_comparison(of_pull, settings, None, notes, write)
        past = RunHistory(comparison.history, is_main=False)
    # From this checkout, not the fork's: drops accepted by a fork don't count here.
    terms = Terms(
        policy,
        ComparedRun.baseline(comparison.run),
        job.now().date(),
        uses_level=True,
    )
    changes = changes_by_a_fork(CommitFiles(job, api, head.head_sha), settings, policy)
    rejudged = await _judged_offline(job, terms.baseline, current, golden, policy)
    terms = replace(terms, baseline=rejudged.baseline)
    warnings = (
        *undrawn,
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
    url = run_id = None
    if comparison.trusted is not None:
        url, run_id = comparison.trusted.url, comparison.trusted.run_id
    links = job.links(head.head_sha, head.html_url, url)
    document = run_document(
        current, verdict.without_kind(ACCEPT), terms.baseline, links
    )
    return Report(
        job.redact.tree(document),
        preface=PREFACE,
        changes=changes,
        pull_request=pull.number,
        baseline_run_id=run_id,
    )


async def _judged_offline(
    job: Job,
    baseline: ComparedRun | None,
    current: ComparedRun,
    golden: GoldenSet,
    policy: Policy,
) -> Rejudged:
    """The baseline as the offline judge scores it, if that judged the fork's run. No
    other judge is asked here."""
    # Functions of the project are code, and this job runs none: their baseline scores
    # stay as they are.
    rubrics = {
        name: metric
        for name, metric in job.settings.metrics.items()
        if metric.python is None
    }
    run, folder = job.settings.run, job.temporary / "rejudged"
    plan = RunPlan(
        golden,
        JudgeSource(JudgeSettings(name="offline")),
        replace(project_metrics(job.settings), custom=rubrics),
        folder,
        repeats=run.repeats,
        cached=False,
    )
    session = Session(plan, RunContext(environ={}, redact=job.redact, now=job.now))
    try:
        judge = judging_identity(session.judge, plan)
        if current.run is None or current.run.manifest.judge != judge:
            return Rejudged(baseline)
        return await rejudge(baseline, current, policy, session, folder=folder)
    finally:
        await session.close()
