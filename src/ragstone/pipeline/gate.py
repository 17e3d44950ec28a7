"""The gate in four steps: read, evaluate, decide, write. Each takes what those before
it found, and returns its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragstone.errors import RagstoneError
from ragstone.evaluation.directory import BASE_COMMIT, RunDirectory
from ragstone.evaluation.earlier import difference_from, with_earlier_run
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.lineage import carry, drop_carried
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.manifest import SELECTED
from ragstone.evaluation.rounds.base_commit import BaseSystem, base_run, missing_note
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.oracle import follow_with_oracle, refuse_oracle
from ragstone.evaluation.rounds.session import RunPlan, Session, open_session
from ragstone.evaluation.writer import write_manifest
from ragstone.formatting import counted
from ragstone.gate.findings import ORACLE
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.verdict import GateVerdict
from ragstone.pipeline.baseline import NamedRun, baseline_beside
from ragstone.pipeline.confirm import Confirmed, confirm_run
from ragstone.pipeline.decide import (
    ComparedRun,
    FailOn,
    Terms,
    decide,
    exit_code_of,
    oracle_findings,
    policy_for,
    run_document,
)
from ragstone.pipeline.history import RunHistory, add_run, store_history
from ragstone.pipeline.page import page_of, read_page, write_page
from ragstone.pipeline.rejudge import rejudge
from ragstone.pipeline.role import Role, baseline_fact, hand_on
from ragstone.pipeline.verdict_file import write_verdict
from ragstone.report.parts import Document, Links
from ragstone.report.render import Format, render
from ragstone.report.templates import Templates

REPORT_FILES: dict[Format, str] = {
    "md": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "html": "report.html",
}


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The result of a gate run. `document` is free of secrets; `reports` are the files
    written to the run directory.

    `run` is None if there was nothing to run.
    """

    verdict: GateVerdict
    document: Document
    run: RunDirectory | None
    exit_code: int
    reports: tuple[Path, ...] = ()


OpenBase = Callable[[], AbstractContextManager[BaseSystem]]
"""Checks out the base commit's system for as long as the block lasts."""


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What the gate is asked for, read before any of the user's code runs.

    `policy` has `fail-on` applied. `baseline` and `past` are trusted. `earlier` is a
    run of the same files, whose answers count too. `base` is a system to ask in the
    same job and compare with; then `baseline` only provides judgements and its lineage.
    `notes` and `warnings` are shown before those of the verdict. `folder` is the folder
    in which to run the commands that a report shows; None: any. `unproven` says what
    the run leaves out, so that it can't pass.
    """

    run: RunPlan
    policy: Policy
    fail_on: FailOn | None = None
    baseline: RunDirectory | NamedRun | None = None
    baseline_required: bool = False
    earlier: RunDirectory | None = None
    base: BaseSystem | OpenBase | None = None
    past: RunHistory | None = None
    templates: Templates | None = None
    links: Links | None = None
    role: Role = field(default_factory=Role)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    folder: str | None = None
    unproven: str | None = None


@dataclass(frozen=True, slots=True)
class GateInputs:
    """Everything that the gate compares with, as it was before the evaluation."""

    request: GateRequest
    baseline: RunDirectory | None
    base: BaseSystem | None
    role: Role
    terms: Terms
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @contextmanager
    def handing_on(self, *, undecided: bool = False) -> Iterator[None]:
        """If the block raises, leave baseline and history in the run directory."""
        try:
            yield
        except BaseException:
            with suppress(RagstoneError):
                hand_on(
                    self.request.run.out,
                    self.role,
                    self.baseline,
                    self.request.past,
                    undecided=undecided,
                )
            raise


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The finished run, and the terms on which to decide it: with the baseline as it
    can be compared now."""

    run: RunDirectory
    terms: Terms
    role: Role
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def baseline(self) -> RunDirectory | None:
        """The run that this one is compared with."""
        return None if self.terms.baseline is None else self.terms.baseline.run


async def gate(
    request: GateRequest,
    context: RunContext,
    *,
    formats: Iterable[Format] = tuple(REPORT_FILES),
) -> GateOutcome:
    """Evaluate, decide and write the reports.

    Raises RagstoneError if there can be no verdict; any verdict is returned.
    """
    plan = request.run
    refuse_impossible(request)
    with ExitStack() as stack:
        stack.enter_context(run_lock(plan.out))
        private = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ragstone-"))
        )
        inputs = read(request, context, stack)
        async with open_session(plan, context) as session:
            evaluated = await evaluate(inputs, session, private)
            decided = await decide_run(inputs, evaluated, session)
        return write(inputs, evaluated, decided, context, formats)


def refuse_impossible(request: GateRequest) -> None:
    """Raise ConfigError or GoldenSetError if parts of the request can't be combined, or
    have nothing to tell."""
    plan = request.run
    plan.refuse_conflicts(compares_base=request.base is not None)
    if plan.oracle:
        refuse_oracle(plan.golden, plan.selected_metrics())


# -- read
# --------------------------------------------------------------------------------------------------------------


def read(
    request: GateRequest, context: RunContext, stack: ExitStack, *, writes: bool = True
) -> GateInputs:
    """What the run is compared with. The run directory is locked: a baseline in it is
    moved to its own folder, if the run `writes`.

    A base commit stays checked out until `stack` ends. Raises BaselineError,
    ConfigError.
    """
    plan, baseline, role, notes = (
        request.run,
        request.baseline,
        request.role,
        request.notes,
    )
    if isinstance(baseline, NamedRun):
        named = baseline_beside(
            baseline.path, plan.out, resume=plan.resume, writes=writes
        )
        role = replace(role, carries=named.is_kept)
        if named.stands_in:
            notes = (*notes, _STANDS_IN.format(baseline.name))
        baseline = named.run
    base = request.base
    if base is not None and not isinstance(base, BaseSystem):
        base = stack.enter_context(base())
    policy, undrawn = policy_for(request.policy, plan.golden)
    terms = Terms.of(
        policy,
        ComparedRun.baseline(baseline),
        context.now().date(),
        required=request.baseline_required or base is not None,
        seed=plan.seed,
        level=base is None and not isinstance(request.baseline, NamedRun),
    )
    return GateInputs(
        request, baseline, base, role, terms, notes, (*undrawn, *request.warnings)
    )


_STANDS_IN = "The run in {} can't be a baseline; the baseline that it was compared with is used instead."


# -- evaluate
# ----------------------------------------------------------------------------------------------------------


async def evaluate(inputs: GateInputs, session: Session, folder: Path) -> Evaluated:
    """Evaluate, and make the baseline comparable. `folder` is private and empty.

    Whatever ends this, the history and the baseline are handed on in the run directory.
    """
    request, terms, plan = inputs.request, inputs.terms, session.plan
    with inputs.handing_on():
        run = await session.evaluate(
            baseline=inputs.baseline,
            base=inputs.base,
            policy_hash=policy_hash(request.policy),
        )
        if request.earlier is not None:
            run, notes = _with_earlier_run(run, request.earlier, inputs, session)
            inputs = replace(inputs, notes=(*inputs.notes, *notes))
    if inputs.base is not None:
        return _beside_base(inputs, inputs.base, run, session.context)
    with inputs.handing_on(undecided=True):
        current = ComparedRun(run.scores(), run)
        rejudged = await rejudge(
            terms.baseline, current, request.policy, session, folder=folder
        )
    drop_carried(plan.out, BASE_COMMIT)
    return Evaluated(
        run.with_manifest(
            run.manifest.model_copy(
                update={"cost": run.manifest.cost.plus(rejudged.cost)}
            )
        ),
        replace(terms, baseline=rejudged.baseline),
        inputs.role,
        (*inputs.notes, *rejudged.notes),
        (*inputs.warnings, *rejudged.warnings),
    )


def _with_earlier_run(
    run: RunDirectory, earlier: RunDirectory, inputs: GateInputs, session: Session
) -> tuple[RunDirectory, tuple[str, ...]]:
    """`run` with the answers of `earlier` if that is of the same system, and a sentence
    that says so."""
    metrics = session.plan.selected_metrics()
    difference = difference_from(run, earlier, metrics, inputs.baseline)
    if difference is not None:
        session.context.say(
            f"The answers of an earlier run of the same files are not counted: {difference}."
        )
        return run, ()
    run = with_earlier_run(run, earlier, metrics)
    runs = counted(len(run.manifest.earlier), "earlier run")
    return run, (f"Counts the answers of {runs} of the same files.",)


def _beside_base(
    inputs: GateInputs, base: BaseSystem, run: RunDirectory, context: RunContext
) -> Evaluated:
    """The terms of a run that is compared with the base commit's, which was evaluated
    beside it."""
    before = base_run(run)
    terms = Terms.of(
        inputs.terms.policy,
        ComparedRun.baseline(before),
        context.now().date(),
        required=True,
        seed=inputs.terms.seed,
    )
    notes = (*inputs.notes, *base.notes, *missing_note(base, before))
    return Evaluated(
        run, terms, replace(inputs.role, carries=False), notes, inputs.warnings
    )


# -- decide
# ------------------------------------------------------------------------------------------------------------


async def decide_run(
    inputs: GateInputs, evaluated: Evaluated, session: Session
) -> Confirmed:
    """The verdict, confirmed with more answers if the policy says so; then the oracle
    half, which explains it."""
    request, terms = inputs.request, evaluated.terms

    def decided(run: RunDirectory) -> GateVerdict:
        return decide(
            ComparedRun.of(run),
            terms,
            past=request.past,
            notes=evaluated.notes,
            warnings=evaluated.warnings,
            folder=request.folder,
            unproven=request.unproven,
        )

    first = Confirmed(evaluated.run, decided(evaluated.run))
    confirmed = await confirm_run(first, decided, request.policy, session)
    confirmed = replace(confirmed, run=session.with_whole_cost(confirmed.run))
    if not session.plan.oracle:
        return confirmed
    # Whoever ends the job from here on leaves a run with its verdict.
    run = confirmed.run.with_manifest(
        confirmed.run.manifest.model_copy(
            update={"verdict": confirmed.verdict.status.value}
        )
    )
    write_manifest(run.path, run.manifest)
    with inputs.handing_on():
        run = await follow_with_oracle(run, session)
    shares = oracle_findings(ComparedRun.of(run), terms.policy.gate.confidence)
    return Confirmed(run, confirmed.verdict.without(ORACLE).with_findings(after=shares))


# -- write
# -------------------------------------------------------------------------------------------------------------


def write(
    inputs: GateInputs,
    evaluated: Evaluated,
    decided: Confirmed,
    context: RunContext,
    formats: Iterable[Format],
) -> GateOutcome:
    """Write the verdict and the reports into the run, and the baseline too if the run
    must carry it.

    The document is redacted here, once, before anything is rendered from it; so is the
    reason in the manifest.
    """
    request, run, verdict, terms = (
        inputs.request,
        decided.run,
        decided.verdict,
        evaluated.terms,
    )
    baseline, role, past, history = (
        evaluated.baseline,
        evaluated.role,
        request.past,
        None,
    )
    if run.manifest.golden.selected:
        role, past = replace(role, refusal=SELECTED), None
    fact = baseline_fact(verdict, role, baseline, terms)
    fact = fact.model_copy(update={"reason": context.redact(fact.reason)})
    manifest = run.manifest.model_copy(
        update={"verdict": verdict.status.value, "baseline": fact}
    )
    current = ComparedRun.of(run)
    current = replace(current, scores=replace(current.scores, manifest=manifest))
    document = run_document(
        current,
        verdict,
        terms.baseline,
        request.links,
        advisory=request.fail_on == "never",
    )
    if past is not None:
        history = add_run(
            past, run, manifest, current.scores, request.policy, verdict.checks
        )
    document = context.redact.tree(document)
    # Now, while the baseline is where it was.
    write_page(
        run, page_of(current, verdict, terms.baseline, context.redact, request.links)
    )
    carried = baseline if role.carries and not fact.eligible else None
    if carried is not None:
        carry(carried, run.path)
    write_manifest(run.path, manifest)
    if carried is None and (
        fact.eligible or baseline is not None or not context.trusts_checkout
    ):
        drop_carried(run.path)
    if past is not None and history is not None:
        store_history(past, run, history)
    finished = run.with_manifest(manifest)
    write_verdict(finished, document)
    reports = tuple(_report(run, document, name, request.templates) for name in formats)
    return GateOutcome(
        verdict, document, finished, exit_code_of(verdict, request.fail_on), reports
    )


def _report(
    run: RunDirectory, document: Document, name: Format, templates: Templates | None
) -> Path:
    """Write the report in one format; returns its path."""
    path = run.path / REPORT_FILES[name]
    replace_text(
        path,
        render(
            document,
            name,
            templates=templates,
            page=read_page(run) if name == "html" else (),
        ),
    )
    return path
