"""The gate: evaluate, compare with thresholds and baseline, decide, write the reports."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ragstone.config import Settings
from ragstone.errors import EXIT_PASS, BaselineError, ConfigError, RagstoneError, RunDirectoryError
from ragstone.gate.accepted import InForce, accepted_in, offers
from ragstone.gate.decide import decide_gate
from ragstone.gate.early import EarlyStop, random_order
from ragstone.gate.eligibility import eligibility
from ragstone.gate.policy import Policy, default_policy, load_policy, policy_hash
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import GoldenSet
from ragstone.history.drift import Drift
from ragstone.history.trend import trends
from ragstone.judge.llm.lifecycle import moving_name, near_end
from ragstone.judge.names import split_name
from ragstone.report.parts import Links, ReportView
from ragstone.report.render import Format, render
from ragstone.report.templates import Templates, own_templates
from ragstone.report.view import build_view
from ragstone.run.directory import RunDirectory, read_manifest
from ragstone.run.files import replace_text
from ragstone.run.lineage import (
    CARRIED,
    cache_of,
    carried_run,
    carry,
    drop_carried,
    eligible_run,
    lineage,
    used,
)
from ragstone.run.lock import run_lock
from ragstone.run.manifest import AcceptedDrop, BaselineFact, Manifest
from ragstone.run.record import SampleRecord
from ragstone.run.scores import RunScores, SampleFacts
from ragstone.run.writer import write_manifest
from ragstone.usecases.history import Book, enter, hold, keep, local_book
from ragstone.usecases.run import RunContext, evaluate_run

THRESHOLDS_FILE = "thresholds.toml"
REPORT_FILES: dict[Format, str] = {
    "md": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "html": "report.html",
}
MAX_DETAILS = 50
"""Maximum number of samples shown in full in the reports."""

MAX_SPENT = 200
"""Maximum number of spent accepted drops that are remembered, newest first."""

FailOn = Literal["fail", "inconclusive", "never"]


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The result of a gate run. `reports` are the files written to the run directory."""

    verdict: GateVerdict
    view: ReportView
    run: RunDirectory
    exit_code: int
    reports: tuple[Path, ...] = ()


def read_policy(settings: Settings) -> Policy:
    """The policy file in `settings`, else thresholds.toml if it exists, else the defaults."""
    if settings.gate.thresholds is not None:
        return load_policy(settings.path(settings.gate.thresholds), within=settings.within)
    beside = settings.path(THRESHOLDS_FILE)
    # A folder or a dangling link with that name is a policy that can't be read, not a missing one.
    if os.path.lexists(beside):
        return load_policy(beside, within=settings.within)
    return default_policy(settings.root, within=settings.within)


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a run for later ones.

    `refusal` says why it can't be a baseline whatever its verdict, without a full stop. `carries`: if it can't, it
    carries the baseline that it used. `run_id` is the id of that baseline, on GitHub. `accepted` are the drops in force
    during the run.
    """

    refusal: str | None = None
    carries: bool = False
    run_id: int | None = None
    accepted: InForce = field(default_factory=InForce)


LOCAL = Role()


def open_baseline(path: Path, *, any_run: bool = False) -> RunDirectory:
    """The run in `path` to compare with: itself, or the baseline that it carries if it can't be one.

    With `any_run`, a finished run is used whatever its verdict. Raises BaselineError if there is none.
    """
    try:
        run = RunDirectory.open(path)
        found = run if any_run and run.manifest.state == "finished" else eligible_run(run)
    except RunDirectoryError as error:
        raise BaselineError(
            f"the baseline can't be used: {error.message}", where=error.where, hint=error.hint
        ) from None
    if found is not None:
        return found
    if run.manifest.state != "finished":
        raise BaselineError(
            f"the baseline run was {run.manifest.state}, not finished.",
            where=str(path),
            hint="Use a finished run as the baseline.",
        )
    raise BaselineError(
        f"this run can't be a baseline: {run.manifest.standing.reason}.",
        where=str(path),
        hint="Use a run that did not fail, or add --baseline-any to compare with this one anyway.",
    )


@dataclass(frozen=True, slots=True)
class NamedBaseline:
    """The run to compare with, from a named directory.

    `is_kept`: it is in the run directory that is about to be written. `stands_in`: the named run can't be a baseline,
    and this is the one that it carries.
    """

    run: RunDirectory
    is_kept: bool = False
    stands_in: bool = False


_STANDS_IN = "The run in {} can't be a baseline; compared with the baseline that it was compared with."


def baseline_beside(path: Path, out: Path, *, resume: bool, any_run: bool = False) -> NamedBaseline:
    """The baseline in `path` for a run that is about to be written to `out`.

    If both are the same directory, the baseline is moved to its folder `baseline` before anything is written. Raises
    BaselineError if there is none, ConfigError if one is inside the other.
    """
    theirs, ours = Path(os.path.realpath(path)), Path(os.path.realpath(out))
    if theirs != ours and theirs != ours / CARRIED and (theirs.is_relative_to(ours) or ours.is_relative_to(theirs)):
        raise ConfigError(
            f"one of the run directory ({out}) and its baseline ({path}) is inside the other.",
            hint="Use a separate directory for --out.",
        )
    found = open_baseline(path, any_run=any_run)
    itself = found.path == path
    if theirs != ours:
        return NamedBaseline(found, is_kept=theirs == ours / CARRIED, stands_in=not itself)
    if itself and resume:
        # The existing run is the one being resumed: only the baseline it carries is older.
        carried = carried_run(found)
        if carried is None:
            raise BaselineError(
                "a resumed run can't be its own baseline.",
                where=str(path),
                hint="Use another --baseline, or start over without --resume.",
            )
        return NamedBaseline(carried, is_kept=True)
    return NamedBaseline(carry(found, out), is_kept=True, stands_in=not itself)


async def gate(
    settings: Settings,
    context: RunContext,
    *,
    policy: Policy | None = None,
    baseline: RunDirectory | None = None,
    golden: GoldenSet | None = None,
    links: Links | None = None,
    templates: Templates | None = None,
    formats: Iterable[Format] = tuple(REPORT_FILES),
    notes: Iterable[str] = (),
    warnings: Iterable[str] = (),
    role: Role = LOCAL,
    folder: str | None = None,
    book: Book | None = None,
) -> GateOutcome:
    """Evaluate and decide. `baseline` (already trusted by the caller) overrides the one in `settings`.

    `policy`, `golden` and `templates` are used if the caller has read them already; otherwise they come from the
    settings.

    `book` is the trusted history to compare the run with; without one, the history in `settings` is used if `around`
    trusts the checkout. The same applies to judgements of the baseline in `settings`.

    `notes` and `warnings` are plain sentences from the caller, shown before those of the verdict. `folder` is the
    folder in which to run the commands that a report shows; None: any.

    Raises RagstoneError if there can be no verdict; any verdict is returned.
    """
    policy = policy or read_policy(settings)
    if settings.gate.fail_on in {"fail", "inconclusive"}:
        policy = policy.with_inconclusive("fail" if settings.gate.fail_on == "inconclusive" else "warn")
    required = settings.gate.baseline is not None
    trusted = context.trusts_checkout or baseline is not None
    if book is None and context.trusts_checkout:
        book = local_book(settings)
    with run_lock(settings.path(settings.run.out)):
        if baseline is None and settings.gate.baseline is not None:
            named = baseline_beside(
                settings.path(settings.gate.baseline),
                settings.path(settings.run.out),
                resume=settings.run.resume,
                any_run=settings.gate.baseline_any,
            )
            baseline, role = named.run, replace(role, carries=role.carries or named.is_kept)
            if named.stands_in:
                notes = (*notes, _STANDS_IN.format(settings.gate.baseline))
        before = baseline_scores(baseline)
        role = replace(role, accepted=accepted_in(policy.accepted, baseline, context.now().date()))
        in_force = policy.with_accepted(role.accepted)
        early: list[EarlyStop] = []

        def watcher(golden: GoldenSet, manifest: Manifest) -> EarlyStop:
            early.append(watch_run(golden, manifest, in_force, before, settings.run.seed))
            return early[-1]

        try:
            run = await evaluate_run(
                settings,
                context,
                golden=golden,
                policy_hash=policy_hash(policy),
                judgements_from=cache_of(baseline) if baseline is not None and trusted else None,
                baseline=baseline,
                watcher=watcher if settings.run.stop_early else None,
            )
        except BaseException:
            with suppress(RagstoneError):
                hand_on(settings.path(settings.run.out), baseline, role, book)
            raise
        scores = run.scores()
        drift = hold(book, run, scores, policy, role.accepted.entries) if book is not None else Drift()
        verdict = decide_gate(
            scores,
            before,
            in_force,
            baseline_required=required,
            seed=settings.run.seed,
            looked_in_order=early[0].order if early else None,
            drift=drift.checks,
        )
        if early:
            verdict = replace(verdict, notes=(*verdict.notes, spared_note(run)))
        ending, moving = model_name_warnings(settings, context)
        verdict = replace(
            verdict,
            notes=(*notes, *verdict.notes, *drift.notes, *moving),
            warnings=(*warnings, *role.accepted.warnings, *ending, *drift.warnings, *verdict.warnings),
        )
        if baseline is not None:
            verdict = replace(verdict, accept=accept_commands(verdict, policy, run, baseline, folder))
        templates = templates or (own_templates(settings.root) if context.trusts_checkout else None)
        kept = None if book is None else (book, policy)
        return conclude(run, verdict, baseline, settings.gate.fail_on, links, templates, formats, context, role, kept)


def hand_on(out: Path, baseline: RunDirectory | None, role: Role, book: Book | None) -> None:
    """Put baseline and history into a run that was stopped: its artifact may be the newest one."""
    manifest = read_manifest(out)
    if manifest.state != "stopped":
        return
    fact = BaselineFact(
        eligible=False,
        reason="the run was stopped, not finished",
        used=None if baseline is None else used(baseline, run_id=role.run_id),
        lineage=() if baseline is None else lineage(baseline),
    )
    if role.carries and baseline is not None:
        carry(baseline, out)
    write_manifest(out, manifest.model_copy(update={"baseline": fact}))
    if book is not None and book.file is None:
        keep(book, RunDirectory(out, manifest), book.history)


def model_name_warnings(settings: Settings, context: RunContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences about the judge's name: a warning if the model will be retired soon, a note if the name can move."""
    provider, model = split_name(settings.judge.name)
    found = (near_end(provider, model, context.now().date()), moving_name(provider, model))
    ending, moving = ((one[:1].upper() + one[1:],) if one else () for one in found)
    return ending, moving


def accept_commands(
    verdict: GateVerdict, policy: Policy, run: RunDirectory, baseline: RunDirectory, folder: str | None
) -> tuple[str, ...]:
    """The shell commands that accept the drops that failed this run."""
    thresholds = policy.file
    if thresholds is not None and folder is not None:
        thresholds = Path(thresholds).name
    now, then = run.fingerprint, baseline.fingerprint
    return tuple(
        offer.command(run=now, baseline=then, folder=folder, thresholds=thresholds)
        for offer in offers(verdict.checks, policy.gate)
    )


def watch_run(
    golden: GoldenSet, manifest: Manifest, policy: Policy, baseline: RunScores | None, seed: int
) -> EarlyStop:
    """Stops a run as soon as its blocking checks are decided. Raises ConfigError if samples are grouped."""
    if any(sample.group is not None for sample in golden):
        raise ConfigError(
            "--stop-early needs independent samples; this golden set has groups.",
            hint="Remove --stop-early, or the groups if they are not needed.",
        )
    facts = {
        sample.id: SampleFacts(sample.question, sample.tags, None, sample.origin, sample.content_hash())
        for sample in golden
    }
    return EarlyStop(random_order(tuple(facts), seed), facts, policy, manifest, baseline)


def spared_note(run: RunDirectory) -> str:
    """A sentence on how many samples early stopping saved."""
    counts = run.manifest.counts
    evaluated = counts.scored + counts.partly_failed + counts.system_failed
    total = run.manifest.golden.samples
    if evaluated == total:
        return f"Early stopping saved nothing: all {total} samples were needed."
    return f"Stopped early: {evaluated} of {total} samples were evaluated, {total - evaluated} saved."


def baseline_scores(baseline: RunDirectory | None) -> RunScores | None:
    """The baseline's scores. A baseline that can't be read is a BaselineError, not an error of this run."""
    if baseline is None:
        return None
    try:
        return baseline.scores()
    except RunDirectoryError as error:
        raise BaselineError(error.message, where=error.where, hint=error.hint) from None


def conclude(
    run: RunDirectory,
    verdict: GateVerdict,
    baseline: RunDirectory | None,
    fail_on: FailOn | None,
    links: Links | None,
    templates: Templates | None,
    formats: Iterable[Format],
    context: RunContext,
    role: Role,
    kept: tuple[Book, Policy] | None = None,
) -> GateOutcome:
    """Write the verdict and the reports into the run, and the baseline too if the run must carry it.

    `kept` is the history to add the run to, and the policy with the slices to add.
    """
    fact = baseline_fact(verdict, baseline, role)
    manifest = run.manifest.model_copy(update={"verdict": verdict.status.value, "baseline": fact})
    view = view_of(run, verdict, baseline, links)
    if kept is not None:
        history = enter(kept[0], run, manifest, run.scores(), kept[1])
        view = replace(view, trends=trends(history.runs, view.sample_metrics))
    view = context.redact.view(view)
    carried = baseline if role.carries and not fact.eligible else None
    written = []
    with run_lock(run.path):
        if carried is not None:
            carry(carried, run.path)
        write_manifest(run.path, manifest)
        if carried is None and (fact.eligible or baseline is not None or not context.trusts_checkout):
            drop_carried(run.path)
        if kept is not None:
            keep(kept[0], run, history)
        for name in formats:
            path = run.path / REPORT_FILES[name]
            replace_text(path, context.redact(render(view, name, templates=templates)))
            written.append(path)
    return GateOutcome(verdict, view, run.with_manifest(manifest), exit_code_of(verdict, fail_on), tuple(written))


def baseline_fact(verdict: GateVerdict, baseline: RunDirectory | None, role: Role) -> BaselineFact:
    """Whether the run with this verdict can be a baseline, and what it was compared with."""
    eligible, reason = eligibility(verdict)
    if eligible and role.refusal is not None:
        eligible, reason = False, role.refusal
    held = role.accepted.entries
    before = baseline.manifest.baseline if baseline is not None else None
    spent = dict.fromkeys((*(entry.id for entry in held), *(before.spent if before is not None else ())))
    return BaselineFact(
        eligible=eligible,
        reason=reason,
        used=None if baseline is None else used(baseline, run_id=role.run_id),
        lineage=() if baseline is None else lineage(baseline),
        accepted=tuple(
            AcceptedDrop(id=entry.id, metric=entry.metric, slice=entry.slice, drop=entry.drop) for entry in held
        ),
        spent=tuple(spent)[:MAX_SPENT],
    )


def view_of(
    run: RunDirectory,
    verdict: GateVerdict,
    baseline: RunDirectory | None,
    links: Links | None = None,
    scores: RunScores | None = None,
) -> ReportView:
    """The view model of a run, with the samples named in the verdict in full. `scores`: the run's scores that count."""
    current = scores or run.scores()
    ids = samples_to_show(verdict, current)
    before: dict[str, SampleRecord] = baseline.find(ids) if baseline is not None else {}
    return build_view(
        verdict,
        current,
        baseline_scores(baseline),
        run.find(ids),
        baseline_details=before,
        links=links,
    )


def samples_to_show(verdict: GateVerdict, scores: RunScores) -> tuple[str, ...]:
    """The ids worth showing in full: regressions first, then what failed, at most MAX_DETAILS."""
    ids = dict.fromkeys(regression.sample_id for regression in verdict.regressions)
    ids.update(dict.fromkeys(scores.system.failures))
    for metric in scores.metrics.values():
        ids.update(dict.fromkeys(metric.failed))
    return tuple(ids)[:MAX_DETAILS]


def exit_code_of(verdict: GateVerdict, fail_on: FailOn | None) -> int:
    """The verdict's exit code; with ``never``, only errors remain."""
    if fail_on == "never" and verdict.status in {Status.FAIL, Status.INCONCLUSIVE}:
        return EXIT_PASS
    return verdict.exit_code
