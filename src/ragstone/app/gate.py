"""The gate: evaluate, compare with thresholds and baseline, decide, write the reports."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

from ragstone.app.base_commit import (
    BaseSystem,
    base_from_git,
    base_run,
    evaluate_both,
    missing_note,
    with_one_baseline,
)
from ragstone.app.baseline import baseline_beside
from ragstone.app.confirm import Doubt, confirm_run
from ragstone.app.context import RunContext
from ragstone.app.custom import metrics_of
from ragstone.app.decide import (
    ComparedRun,
    Terms,
    decide,
    exit_code_of,
    gate_policy,
    oracle_of,
    policy_for,
    view_of,
)
from ragstone.app.history import Book, enter, keep, local_book
from ragstone.app.inputs import read_golden_set, refuse_parts, shard_of
from ragstone.app.invocation import invocation_of
from ragstone.app.merge import Shards, merge
from ragstone.app.oracle import add_oracle, refuse_oracle
from ragstone.app.page import page_of, read_page, write_page
from ragstone.app.recorded import RecordedTerms, write_verdict
from ragstone.app.rejudge import Rejudging
from ragstone.app.run import evaluate_run
from ragstone.config import Settings
from ragstone.errors import ConfigError, RagstoneError
from ragstone.gate.early import EarlyStop, random_order
from ragstone.gate.eligibility import eligibility
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.verdict import GateVerdict
from ragstone.golden.sample import GoldenSet
from ragstone.history.trend import trends
from ragstone.report.parts import Links, ReportView
from ragstone.report.render import Format, render
from ragstone.report.templates import Templates, own_templates
from ragstone.run.directory import BASE_COMMIT, REJUDGED, RunDirectory, read_manifest
from ragstone.run.files import replace_text
from ragstone.run.lineage import cache_of, carry, drop_carried, lineage, used
from ragstone.run.lock import run_lock
from ragstone.run.manifest import AcceptedDrop, BaselineFact, Invocation, Manifest, RetrievalFacts
from ragstone.run.merge import find_runs
from ragstone.run.scores import RunScores, SampleFacts
from ragstone.run.writer import write_manifest

REPORT_FILES: dict[Format, str] = {
    "md": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "html": "report.html",
}
MAX_SPENT = 200
"""Maximum number of spent accepted drops that are remembered, newest first."""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The result of a gate run. `view` is free of secrets; `reports` are the files written to the run directory.

    `run` is None if there was nothing to run.
    """

    verdict: GateVerdict
    view: ReportView
    run: RunDirectory | None
    exit_code: int
    reports: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a run for later ones.

    `refusal` says why it can't be a baseline whatever its verdict, without a full stop. `carries`: if it can't, it
    carries the baseline that it used. `run_id` is the id of that baseline, on GitHub, and `artifact` is where it was:
    a run's id, and the artifact's name.
    """

    refusal: str | None = None
    carries: bool = False
    run_id: int | None = None
    artifact: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class GateInputs:
    """The inputs of a gate run, read once, before any of the user's code runs.

    `policy` has `fail-on` applied. `baseline` and `book` are trusted. `notes` and `warnings` are shown before those of
    the verdict. `folder` is the folder in which to run the commands that a report shows; None: any. `unproven` says
    what the run leaves out, so that it can't pass. `base` is a system to ask in the same job and compare with; then
    `baseline` only provides judgements and its lineage. `shards` are what to merge instead of evaluating.
    """

    policy: Policy
    golden: GoldenSet
    baseline: RunDirectory | None = None
    book: Book | None = None
    templates: Templates | None = None
    links: Links | None = None
    role: Role = Role()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    folder: str | None = None
    unproven: str | None = None
    base: BaseSystem | None = None
    shards: Shards | None = None


def read_inputs(settings: Settings) -> GateInputs:
    """The inputs in `settings`, from a trusted checkout. The baseline is read once the run directory is locked."""
    return GateInputs(
        policy=gate_policy(settings),
        golden=read_golden_set(settings),
        book=local_book(settings),
        templates=own_templates(settings.root),
    )


async def gate(
    settings: Settings,
    context: RunContext,
    inputs: GateInputs | None = None,
    *,
    formats: Iterable[Format] = tuple(REPORT_FILES),
    shards: Shards | None = None,
) -> GateOutcome:
    """Evaluate, decide and write the reports. Without `inputs`, they are read as `settings` say.

    With `shards`, here or in the inputs, they are merged instead of evaluating: neither the system nor the judge is
    asked, but to judge a baseline again. Raises RagstoneError if there can be no verdict; any verdict is returned.
    """
    started = monotonic()
    settings = with_one_baseline(settings)
    if context.invocation is None:
        context = replace(context, invocation=gate_invocation(settings, context))
    out = settings.path(settings.run.out)
    given, inputs = inputs is not None, inputs or replace(read_inputs(settings), shards=shards)
    _refuse_confirming(inputs.policy, settings)
    if settings.run.oracle:
        refuse_oracle(inputs.golden, metrics_of(settings, inputs.golden), settings)
    if inputs.shards is not None:
        _refuse_merging(settings)
    elif settings.run.shard is not None:
        raise ConfigError(
            "a shard can't be decided, only all of them together.",
            where="run.shard",
            hint="Evaluate the shards, and then decide with --merge.",
        )
    with ExitStack() as stack:
        stack.enter_context(run_lock(out))
        private = stack.enter_context(tempfile.TemporaryDirectory(prefix="ragstone-"))
        if not given:
            if settings.gate.baseline_store is not None:
                inputs = replace(inputs, warnings=(*inputs.warnings, _STORE_NOT_READ))
            inputs = _with_named_baseline(inputs, settings)
            if settings.gate.baseline_commit is not None:
                found = stack.enter_context(base_from_git(settings, context, inputs.policy))
                inputs = replace(inputs, base=found)
        baseline, base = inputs.baseline, inputs.base
        terms = _terms(inputs, baseline, settings, context)
        early: list[EarlyStop] = []

        def watcher(golden: GoldenSet, manifest: Manifest) -> EarlyStop:
            before = terms.baseline.scores if terms.baseline is not None else None
            early.append(watch_run(golden, manifest, terms.in_force, before, terms.seed))
            return early[-1]

        rejudging = Rejudging(terms.baseline, inputs.policy, settings, context, folder=Path(private))

        try:
            if (merging := inputs.shards) is not None:
                merged = merge(merging, settings, context, golden=inputs.golden, policy_hash=policy_hash(inputs.policy))
                run, inputs = merged.run, replace(inputs, warnings=(*merged.lost, *inputs.warnings))
                await rejudging.judge_merged(run, inputs.golden, find_runs(merging.paths))
            else:
                run = await evaluate_run(
                    settings,
                    context,
                    golden=inputs.golden,
                    policy_hash=policy_hash(inputs.policy),
                    judgements_from=cache_of(baseline) if baseline is not None else None,
                    baseline=baseline,
                    watcher=watcher if settings.run.stop_early else None,
                    evaluation=partial(evaluate_both, base=base) if base is not None else None,
                    afterwards=rejudging.judge_again if base is None else None,
                )
        except BaseException:
            with suppress(RagstoneError):
                hand_on(out, inputs, undecided=rejudging.begun)
            raise
        rejudged = rejudging.result
        if base is not None:
            baseline = base_run(run)
            notes = (*inputs.notes, *base.notes, *missing_note(base, baseline))
            inputs = replace(inputs, baseline=baseline, notes=notes, role=replace(inputs.role, carries=False))
            terms = _terms(inputs, baseline, settings, context)
        else:
            drop_carried(out, BASE_COMMIT)
            run = run.with_manifest(run.manifest.model_copy(update={"cost": run.manifest.cost.plus(rejudged.cost)}))
            terms = replace(terms, baseline=rejudged.baseline)
        _, undrawn = policy_for(inputs.policy, inputs.golden)
        final, notes = inputs, (*inputs.notes, *rejudged.notes)
        warnings = (*undrawn, *inputs.warnings, *rejudged.warnings)

        def decided(run: RunDirectory, share: float = 1.0) -> GateVerdict:
            return decide(
                ComparedRun.of(run),
                terms if share == 1.0 else replace(terms, policy=terms.policy.at(share)),
                book=final.book,
                looked_in_order=early[0].order if early else None,
                notes=notes,
                warnings=warnings,
                folder=final.folder,
                unproven=final.unproven,
            )

        doubt = Doubt(
            run,
            decided(run),
            elapsed_s=monotonic() - started,
            obstacle="merged shards can't be asked again" if inputs.shards is not None else None,
        )
        confirmed = await confirm_run(doubt, decided, inputs.golden, inputs.policy, settings, context)
        run, verdict = confirmed.run, confirmed.verdict
        if settings.run.oracle:
            # Whoever ends the job from here on leaves a run with its verdict.
            run = run.with_manifest(run.manifest.model_copy(update={"verdict": verdict.status.value}))
            write_manifest(run.path, run.manifest)
            run = await add_oracle(run, inputs.golden, settings, context, elapsed_s=monotonic() - started)
            verdict = replace(verdict, oracle=oracle_of(ComparedRun.of(run), terms.policy.gate.confidence))
        current = ComparedRun.of(run)
        order = tuple(early[0].order) if early else None
        recorded = RecordedTerms.of(
            terms, final.book, looked_in_order=order, unproven=final.unproven, limited=final.golden.limited
        )
        view, manifest, reports = _write(run, current, verdict, terms, recorded, inputs, context, formats)
    return GateOutcome(
        verdict, view, run.with_manifest(manifest), exit_code_of(verdict, settings.gate.fail_on), tuple(reports)
    )


async def evaluate_shard(settings: Settings, context: RunContext, inputs: GateInputs | None = None) -> RunDirectory:
    """The part of a gate run that a shard is: the evaluation, with the judgements and canaries of the baseline.

    Also its part of a baseline that must be judged again. Nothing is decided; `gate` does that for all shards together.
    Raises RagstoneError.
    """
    settings = with_one_baseline(settings)
    if context.invocation is None:
        context = replace(context, invocation=gate_invocation(settings, context))
    shard_of(settings)  # raises before anything is written
    given, inputs = inputs is not None, inputs or read_inputs(settings)
    _refuse_confirming(inputs.policy, settings)
    out = settings.path(settings.run.out)
    with run_lock(out):
        if not given:
            inputs = _with_named_baseline(inputs, settings)
        baseline = inputs.baseline
        terms = _terms(inputs, baseline, settings, context)
        drop_carried(out, REJUDGED)
        rejudging = Rejudging(terms.baseline, inputs.policy, settings, context, folder=out / REJUDGED)
        run = await evaluate_run(
            settings,
            context,
            golden=inputs.golden,
            policy_hash=policy_hash(inputs.policy),
            judgements_from=cache_of(baseline) if baseline is not None else None,
            baseline=baseline,
            afterwards=partial(rejudging.judge_again, whole=inputs.golden),
        )
        for line in rejudging.result.warnings:
            context.say(line)
        return run


def _refuse_merging(settings: Settings) -> None:
    """Raise ConfigError for settings with which shards can't be merged."""
    if settings.run.shard is not None:
        raise ConfigError("a shard is either evaluated or merged.", where="run.shard", hint="Use --shard or --merge.")
    if settings.run.resume:
        raise ConfigError("there is nothing to resume: merging asks nothing.", where="run.resume", hint="Use either.")
    refuse_parts(settings)


def _terms(inputs: GateInputs, baseline: RunDirectory | None, settings: Settings, context: RunContext) -> Terms:
    return Terms.of(
        policy_for(inputs.policy, inputs.golden)[0],
        ComparedRun.baseline(baseline),
        context.now().date(),
        required=settings.gate.baseline is not None or inputs.base is not None,
        seed=settings.run.seed,
    )


def _refuse_confirming(policy: Policy, settings: Settings) -> None:
    """Raise ConfigError if the policy confirms in a way that the run can't be decided."""
    if not policy.gate.confirm:
        return
    if policy.gate.decision != "evidence":
        raise ConfigError(
            f'confirm = true needs decision = "evidence", found "{policy.gate.decision}".',
            where=policy.where("gate", "confirm"),
            hint="Remove one of the two: only evidence grows with more answers.",
        )
    if settings.run.stop_early:
        raise ConfigError(
            "--stop-early stops at the first decision, and confirm = true asks again before one.",
            where=policy.where("gate", "confirm"),
            hint="Use either.",
        )


def gate_invocation(settings: Settings, context: RunContext) -> Invocation:
    """How to start a gate run with these settings again."""
    return invocation_of(
        settings, context.environ, command="gate", trusts_checkout=context.trusts_checkout, redact=context.redact
    )


def _with_named_baseline(inputs: GateInputs, settings: Settings) -> GateInputs:
    if settings.gate.baseline is None:
        return inputs
    named = baseline_beside(
        settings.path(settings.gate.baseline),
        settings.path(settings.run.out),
        resume=settings.run.resume,
        any_run=settings.gate.baseline_any,
    )
    notes = inputs.notes
    if named.stands_in:
        notes = (*notes, _STANDS_IN.format(settings.gate.baseline))
    return replace(inputs, baseline=named.run, role=replace(inputs.role, carries=named.is_kept), notes=notes)


_STORE_NOT_READ = "The baseline store was not looked at: only the command `ragstone gate` reads it."
_STANDS_IN = "The run in {} can't be a baseline; compared with the baseline that it was compared with."


def hand_on(out: Path, inputs: GateInputs, *, undecided: bool = False) -> None:
    """Put baseline and history into a run that was stopped: its artifact may be the newest one.

    `undecided`: the run itself had finished.
    """
    manifest = read_manifest(out)
    if manifest.state != "stopped" and not undecided:
        return
    role, baseline, book = inputs.role, inputs.baseline, inputs.book
    fact = BaselineFact(
        eligible=False,
        reason="the gate was stopped before its verdict" if undecided else "the run was stopped, not finished",
        used=None if baseline is None else used(baseline, run_id=role.run_id, artifact=role.artifact),
        lineage=() if baseline is None else lineage(baseline),
    )
    if role.carries and baseline is not None:
        carry(baseline, out)
    write_manifest(out, manifest.model_copy(update={"baseline": fact}))
    if book is not None and book.file is None:
        keep(book, RunDirectory(out, manifest), book.history)


def refuse_groups(golden: GoldenSet) -> None:
    """Raise ConfigError if samples are grouped, for a run that can stop early."""
    if any(sample.group is not None for sample in golden):
        raise ConfigError(
            "--stop-early needs independent samples; this golden set has groups.",
            hint="Remove --stop-early, or the groups if they are not needed.",
        )


def watch_run(
    golden: GoldenSet, manifest: Manifest, policy: Policy, baseline: RunScores | None, seed: int
) -> EarlyStop:
    """Stops a run as soon as its blocking checks are decided. Raises ConfigError if samples are grouped."""
    refuse_groups(golden)
    facts = {
        sample.id: SampleFacts(sample.question, sample.tags, None, sample.origin, sample.content_hash())
        for sample in golden
        if not sample.draft
    }
    return EarlyStop(random_order(tuple(facts), seed), facts, policy, manifest, baseline)


def _write(
    run: RunDirectory,
    current: ComparedRun,
    verdict: GateVerdict,
    terms: Terms,
    recorded: RecordedTerms,
    inputs: GateInputs,
    context: RunContext,
    formats: Iterable[Format],
) -> tuple[ReportView, Manifest, list[Path]]:
    """Write the verdict, its terms and the reports into the run, and the baseline too if the run must carry it.

    The view is redacted here, once, before anything is rendered from it; so is the reason in the manifest.
    """
    fact = baseline_fact(verdict, inputs, terms)
    fact = fact.model_copy(update={"reason": context.redact(fact.reason)})
    manifest = run.manifest.model_copy(
        update={"verdict": verdict.status.value, "baseline": fact, "retrieval": _retrieval_facts(verdict)}
    )
    baseline, book, history = inputs.baseline, inputs.book, None
    current = replace(current, scores=replace(current.scores, manifest=manifest))
    view = view_of(current, verdict, terms.baseline, inputs.links)
    if book is not None:
        history = enter(book, run, manifest, current.scores, inputs.policy)
        view = replace(view, trends=trends(history.runs, view.sample_metrics))
    view = context.redact.view(view)
    # Now, while the baseline is where it was.
    write_page(run, page_of(current, verdict, terms.baseline, context.redact, inputs.links))
    carried = baseline if inputs.role.carries and not fact.eligible else None
    written = []
    if carried is not None:
        carry(carried, run.path)
    write_manifest(run.path, manifest)
    if carried is None and (fact.eligible or baseline is not None or not context.trusts_checkout):
        drop_carried(run.path)
    if book is not None and history is not None:
        keep(book, run, history)
    write_verdict(run.with_manifest(manifest), recorded, view, context.redact)
    for name in formats:
        path = run.path / REPORT_FILES[name]
        lines = read_page(run) if name == "html" else ()
        replace_text(path, render(view, name, templates=inputs.templates, page=lines))
        written.append(path)
    return view, manifest, written


def _retrieval_facts(verdict: GateVerdict) -> RetrievalFacts | None:
    found = verdict.retrieval
    if found is None:
        return None
    return RetrievalFacts(
        fell=found.fell,
        gone=len(found.gone),
        lower=len(found.lower),
        rechunked=len(found.rechunked),
        other=len(found.other),
    )


def baseline_fact(verdict: GateVerdict, inputs: GateInputs, terms: Terms) -> BaselineFact:
    """Whether the run with this verdict can be a baseline, and what it was compared with."""
    role, baseline = inputs.role, inputs.baseline
    eligible, reason = eligibility(verdict)
    if eligible and role.refusal is not None:
        eligible, reason = False, role.refusal
    held = terms.accepted.entries
    before = baseline.manifest.baseline if baseline is not None else None
    spent = dict.fromkeys((*(entry.id for entry in held), *(before.spent if before is not None else ())))
    return BaselineFact(
        eligible=eligible,
        reason=reason,
        used=None if baseline is None else used(baseline, run_id=role.run_id, artifact=role.artifact),
        lineage=() if baseline is None else lineage(baseline),
        accepted=tuple(
            AcceptedDrop(id=entry.id, metric=entry.metric, slice=entry.slice, drop=entry.drop) for entry in held
        ),
        spent=tuple(spent)[:MAX_SPENT],
    )
