"""The gate in four steps: read, evaluate, decide and write. Each step takes what the
steps before it returned."""

from __future__ import annotations

import tempfile
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.evaluation.directory import BASE_COMMIT, REPORT, RunDirectory
from ragstone.evaluation.earlier import add_answers, can_be_pooled
from ragstone.evaluation.lineage import carry, remove_inner_run
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.manifest import SELECTED
from ragstone.evaluation.rounds.base_commit import BaseSystem, base_run, failure_notes
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.oracle import follow_with_oracle
from ragstone.evaluation.rounds.rounds_plan import RunPlan
from ragstone.evaluation.rounds.session import Session, open_session
from ragstone.evaluation.run_files import replace_text
from ragstone.evaluation.writer import update_manifest, write_manifest
from ragstone.formatting import counted
from ragstone.gate.findings import ORACLE
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.verdict import GateVerdict
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
from ragstone.pipeline.history import RunHistory, add_run
from ragstone.pipeline.page import page_of
from ragstone.pipeline.rejudge import rejudge
from ragstone.pipeline.role import Role, baseline_fact
from ragstone.pipeline.run import refuse_impossible
from ragstone.report.parts import NO_LINKS, Document, Links
from ragstone.report.render import Format, render
from ragstone.report.templates import Templates

REPORT_FILES: dict[Format, str] = {
    "md": "report.md",
    "json": REPORT,
    "junit": "junit.xml",
    "html": "report.html",
}

NO_VERDICT = "the gate was stopped before its verdict"
"""Why a run can't be a baseline, as a clause, until the gate has decided on it."""


class GateOutcome(Struct, frozen=True):
    """A verdict, and the document that its reports show, without secrets."""

    verdict: GateVerdict
    document: Document
    exit_code: int


class GatedRun(GateOutcome, frozen=True):
    """The outcome of a gate that evaluated the system."""

    run: RunDirectory
    """The run, with its reports."""


class GateRequest(Struct, frozen=True):
    """What the gate is asked for, read before any of the user's code runs."""

    run: RunPlan
    policy: Policy
    """With `fail-on` applied."""
    fail_on: FailOn | None = None
    baseline: RunDirectory | None = None
    """The run to compare with, from a trusted place."""
    is_baseline_named: bool = False
    """Whether the user named the baseline; otherwise it is the newest run of a
    branch."""
    baseline_required: bool = False
    earlier: RunDirectory | None = None
    """A run of the same files, whose answers count too."""
    base: BaseSystem | None = None
    """A system to ask in the same job and to compare with. The `baseline` then provides
    only judgements and its lineage."""
    past: RunHistory | None = None
    """The history of the branch, from a trusted place."""
    templates: Templates | None = None
    links: Links = NO_LINKS
    role: Role = field(default_factory=Role)
    notes: tuple[str, ...] = ()
    """Sentences that the report shows before those of the verdict."""
    warnings: tuple[str, ...] = ()
    folder: str | None = None
    """The folder in which to run the commands that a report shows; None if they work
    anywhere."""
    unproven: str | None = None
    """Why the run can fail but not pass: a sentence on what was left out."""


class GateInputs(Struct, frozen=True):
    """The request, and what the run is compared with. `evaluate` updates what `read`
    found, because only then is it known how the baseline can be compared."""

    request: GateRequest
    terms: Terms
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


async def gate(request: GateRequest, context: RunContext) -> GatedRun:
    """Evaluate, decide and write the reports.

    A verdict is returned whatever it is. Raises RagstoneError if there can be none.
    """
    refuse_impossible(request.run, request.base)
    with (
        run_lock(request.run.out),
        tempfile.TemporaryDirectory(prefix="ragstone-") as private,
    ):
        inputs = read(request, context)
        async with open_session(request.run, context) as session:
            run, comparable = await evaluate(inputs, session, Path(private))
            decided = await decide_run(comparable, run, session)
        return write(comparable, decided, context)


# -- read


def read(request: GateRequest, context: RunContext) -> GateInputs:
    """Read what the run is compared with. Raises BaselineError."""
    has_base = request.base is not None
    policy, undrawn = policy_for(request.policy, request.run.golden)
    terms = Terms(
        policy,
        ComparedRun.baseline(request.baseline),
        context.now().date(),
        required=request.baseline_required or has_base,
        uses_level=not has_base and not request.is_baseline_named,
    )
    return GateInputs(request, terms, request.notes, undrawn + request.warnings)


# -- evaluate


async def evaluate(
    inputs: GateInputs, session: Session, folder: Path
) -> tuple[RunDirectory, GateInputs]:
    """Evaluate the system, and make the baseline comparable with the run.

    `folder` must be empty, and out of reach of the user's code.
    """
    request, terms, plan = inputs.request, inputs.terms, session.plan
    baseline, base = terms.baseline_run, request.base
    notes = inputs.notes
    run = await session.evaluate(
        baseline=baseline,
        base=base,
        policy_hash=policy_hash(request.policy),
        # If the job is stopped from here on, the run is no baseline.
        fact=request.role.fact(baseline, NO_VERDICT),
    )
    if request.earlier is not None:
        metrics = plan.selected_metrics()
        if can_be_pooled(run, request.earlier, metrics, baseline):
            run = add_answers(run, request.earlier, metrics)
            runs = counted(len(run.manifest.earlier), "earlier run")
            notes += (f"Counts the answers of {runs} of the same files.",)
        else:
            session.context.say(
                "The answers of an earlier run of the same files are not counted, because its system, questions, judge "
                "or baseline differ."
            )
    if base is not None:
        asked_base = base_run(run)
        terms = replace(
            terms,
            baseline=ComparedRun.baseline(asked_base),
            required=True,
            uses_level=False,
        )
        notes = (*notes, *base.notes, *failure_notes(base, asked_base))
        return run, replace(inputs, terms=terms, notes=notes)
    current = ComparedRun(run.scores(), run)
    rejudged = await rejudge(
        terms.baseline, current, request.policy, session, folder=folder
    )
    remove_inner_run(plan.out, BASE_COMMIT)
    cost = run.manifest.cost.plus(rejudged.cost)
    run = run.with_manifest(run.manifest.model_copy(update={"cost": cost}))
    return run, replace(
        inputs,
        terms=replace(terms, baseline=rejudged.baseline),
        notes=notes,
        warnings=inputs.warnings + rejudged.warnings,
    )


# -- decide


async def decide_run(
    inputs: GateInputs, run: RunDirectory, session: Session
) -> Confirmed:
    """Decide, and confirm the verdict with more answers if the policy says so. Then run
    the oracle half, which only explains the verdict."""
    request, terms = inputs.request, inputs.terms

    def decide_on(run: RunDirectory) -> GateVerdict:
        return decide(
            ComparedRun.of(run),
            terms,
            past=request.past,
            notes=inputs.notes,
            warnings=inputs.warnings,
            folder=request.folder,
            unproven=request.unproven,
        )

    first = Confirmed(run, decide_on(run))
    confirmed = await confirm_run(first, decide_on, request.policy, session)
    run, verdict = session.with_whole_cost(confirmed.run), confirmed.verdict
    if not session.plan.oracle:
        return Confirmed(run, verdict)
    # If the job is stopped from here on, the run has its verdict.
    run = update_manifest(run, verdict=verdict.status.value)
    run = await follow_with_oracle(run, session)
    shares = oracle_findings(ComparedRun.of(run), terms.policy.gate.confidence)
    return Confirmed(run, verdict.without_kind(ORACLE).with_findings(after=shares))


# -- write


def write(inputs: GateInputs, decided: Confirmed, context: RunContext) -> GatedRun:
    """Write the verdict and the reports into the run, and the baseline too if the run
    must carry it.

    Secrets are removed from the document here, before anything is rendered from it, and
    from the reason in the manifest.
    """
    request, terms, role = inputs.request, inputs.terms, inputs.request.role
    run, verdict, past = decided.run, decided.verdict, request.past
    if run.manifest.golden.selected:
        # A run of chosen samples is no baseline, and not part of the history.
        role = replace(role, refusal=SELECTED)
        past = None
    fact = baseline_fact(verdict, role, terms)
    fact = fact.model_copy(update={"reason": context.redact(fact.reason)})
    run = run.with_manifest(
        run.manifest.model_copy(
            update={"verdict": verdict.status.value, "baseline": fact}
        )
    )
    current, baseline = ComparedRun.of(run), terms.baseline_run
    document = run_document(
        current,
        verdict,
        terms.baseline,
        request.links,
        advisory=request.fail_on == "never",
    )
    document = context.redact.tree(document)
    carried = None
    if role.carries and request.base is None and not fact.eligible:
        carried = baseline
    if carried is not None:
        carry(carried, run.path)
    write_manifest(run.path, run.manifest)
    if carried is None:
        remove_inner_run(run.path)
    if past is not None:
        history = add_run(past, run, current.scores, request.policy, verdict.checks)
        past.store(run, history)
    # Its samples are read only while the HTML report is rendered.
    packed_samples = page_of(
        current, verdict, terms.baseline, context.redact, request.links
    )
    for format_name, file_name in REPORT_FILES.items():
        text = render(
            document,
            format_name,
            templates=request.templates,
            packed_samples=packed_samples,
        )
        replace_text(run.path / file_name, text)
    code = exit_code_of(verdict, request.fail_on)
    return GatedRun(verdict, document, code, run)
