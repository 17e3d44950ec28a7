"""Decides on a stored run again, by a policy, a golden set, a baseline and a commit that
the caller names.

The run itself is trusted only for its questions, answers and judgements. The questions
must be those of the golden set, and each score must follow from its judgements. Whoever
can write the run can still forge answers and judgements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import BaselineError, RunDirectoryError
from ragstone.evaluation.directory import HISTORY, RunDirectory
from ragstone.evaluation.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.replay import confirmed_scores, recomputable_metrics
from ragstone.evaluation.round_facts import ConfirmFacts, JudgeFacts, RoundFacts
from ragstone.formatting import counted, join_first
from ragstone.gate.findings import ACCEPT
from ragstone.gate.policy import Policy, policy_hash
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import GoldenSet
from ragstone.history.file import read_history
from ragstone.metrics.metric import Metric
from ragstone.pipeline.baseline import open_baseline
from ragstone.pipeline.decide import ComparedRun, Terms, decide, run_document
from ragstone.pipeline.history import RunHistory
from ragstone.pipeline.requirements import (
    MAX_NAMED,
    require_judge,
    require_metrics,
    require_questions,
    require_run,
    uncompared_drops,
)
from ragstone.printable import shown_name
from ragstone.report.parts import Document
from ragstone.settings.settings import SystemPrice


class DecisionTerms(Struct, frozen=True):
    """What a stored run must be, and what it is decided by. Nothing here comes from the
    run."""

    policy: Policy
    golden: GoldenSet
    baseline: Path | None
    commit: str
    judge: str
    """The name of the judge, as in the config."""
    today: date
    metrics: Sequence[Metric] = ()
    """The project's own metrics."""
    required: Collection[str] = ()
    """The names of all metrics that must have been measured."""
    part: str | None = None
    """The half of the system that must have been evaluated; None for the whole."""
    price: SystemPrice | None = None


class Decision(Struct, frozen=True):
    """The verdict and its report."""

    verdict: GateVerdict
    document: Document
    summary: str
    """The verdict, and what it was decided by, in one line."""


def decide_again(run: RunDirectory, terms: DecisionTerms, redact: Redactor) -> Decision:
    """Decide `run` on `terms`.

    Raises GoldenSetError for questions that are missing, changed, repeated or were not
    asked; JudgeError for an unfinished run, another judge or metrics that can't be
    recomputed; BaselineError if drops can't be compared; ConfigError for another or an
    unknown commit, and for files that differed from it; RunDirectoryError for a run of
    another part of the system.
    """
    where, manifest, golden = str(run.path), run.manifest, terms.golden
    require_run(manifest, terms.part, terms.commit, where)
    require_judge(manifest.judge, terms.judge, where)
    _, unverified = recomputable_metrics(manifest, terms.metrics)
    measured = manifest.metrics.keys() - unverified.keys()
    require_metrics(measured, terms.required, unverified, where)
    require_questions(run.records(), golden, where)
    golden_manifest = GoldenManifest(
        files=golden.sources,
        content_hash=golden.content_hash(),
        samples=len(golden),
    )
    current = _confirm(run, terms, golden_manifest)
    baseline, past = None, None
    comparison = "no drop was checked, because no baseline is named (--baseline RUN)"
    if terms.baseline is not None:
        baseline = _open_baseline(terms.baseline, run, terms)
        past = _history_in(terms.baseline)
        comparison = f"baseline {shown_name(str(terms.baseline))}"
    verdict = _verdict(current, baseline, past, terms)
    document = redact.tree(run_document(current, verdict, baseline))
    policy = shown_name(terms.policy.file or "the default policy")
    summary = (
        f"Decided again: {verdict.status.value}. By {policy}, {counted(len(golden), 'question')}, "
        f"commit {terms.commit[:12]}; {comparison}."
    )
    return Decision(verdict, document, summary)


def _confirm(
    run: RunDirectory, terms: DecisionTerms, golden: GoldenManifest
) -> ComparedRun:
    """`run` with only what can be trusted, after a check that its scores follow from
    its judgements.

    Its manifest has the identity of the run and of its judge, and nothing that could
    excuse the run. Metrics that can't be recomputed are left out. Raises
    RunDirectoryError.
    """
    manifest, judge, confirm = run.manifest, run.rounds.judge, run.rounds.confirm
    system = SystemManifest.model_validate(
        manifest.system.model_dump(include={"entrypoint", "commit", "version", "part"})
    )
    trusted_manifest = Manifest(
        ragstone_version=manifest.ragstone_version,
        state="finished",
        created_at=manifest.created_at,
        golden=golden,
        judge=manifest.judge,
        system=system,
        metrics=manifest.metrics,
        repeats=manifest.repeats,
        answers=manifest.answers,
        policy_hash=policy_hash(terms.policy),
        counts=manifest.counts,
        price=terms.price,
        wall_s=manifest.wall_s,
    )
    asked_again = confirm.asked_again or bool(manifest.earlier) or manifest.answers > 1
    facts = RoundFacts(
        judge=JudgeFacts(observed=judge.observed, planted=judge.planted),
        confirm=ConfirmFacts(asked_again=asked_again, steady=confirm.steady),
    )
    trusted_run = run.with_manifest(trusted_manifest).with_rounds(facts)
    # Only for the error that it raises.
    confirmed_scores(trusted_run, terms.metrics)
    compared = ComparedRun.of(trusted_run)
    metrics = {**compared.scores.metrics}
    for name in recomputable_metrics(manifest, terms.metrics)[1]:
        del metrics[name]
    scores = replace(compared.scores, metrics=metrics, label=str(run.path))
    return replace(compared, scores=scores)


def _open_baseline(path: Path, run: RunDirectory, terms: DecisionTerms) -> ComparedRun:
    """The baseline in `path`, whose scores follow from its judgements. Raises
    BaselineError, also if it is `run` itself."""
    baseline = open_baseline(path)
    if baseline.fingerprint == run.fingerprint:
        raise BaselineError(
            "a run can't be compared with itself.",
            where=str(path),
            hint="Name an earlier run.",
        )
    golden = baseline.manifest.golden.model_copy(update={"limited": False})
    try:
        compared = _confirm(RunDirectory.open(baseline.path), terms, golden)
    except RunDirectoryError as error:
        raise BaselineError.of(error) from None
    # The named run has what was accepted before, and the name by which later runs know
    # the baseline.
    scores = replace(compared.scores, label=str(path))
    return replace(compared, scores=scores, run=baseline)


def _history_in(path: Path) -> RunHistory | None:
    """The history in the run directory `path`; None if it has no runs. Raises
    BaselineError."""
    try:
        history = read_history(path / HISTORY)
    except RunDirectoryError as error:
        raise BaselineError.of(error) from None
    return RunHistory(history) if history.runs else None


def _verdict(
    current: ComparedRun,
    baseline: ComparedRun | None,
    past: RunHistory | None,
    terms: DecisionTerms,
) -> GateVerdict:
    """The verdict on `current`. Raises BaselineError if the policy limits drift or a
    drop that can't be compared."""
    policy, where = strict(terms.policy), str(terms.baseline)
    has_baseline = baseline is not None
    if has_baseline and past is None and "drift" in policy.model_fields_set:
        raise BaselineError(
            f"the policy limits drift, but there is no {HISTORY} in the baseline's directory.",
            where=where,
            hint="Name the baseline with its whole run directory.",
        )
    decision_terms = Terms(
        policy,
        baseline,
        terms.today,
        required=has_baseline,
        uses_level=past is not None,
    )
    verdict = decide(current, decision_terms, past=past)
    scored = {name for name, scores in current.scores.metrics.items() if scores.values}
    unguarded = uncompared_drops(policy, verdict.checks, scored)
    if has_baseline and verdict.status is Status.PASS and unguarded:
        raise BaselineError(
            f"the policy limits drops that can't be compared with this baseline: {join_first(unguarded, MAX_NAMED)}.",
            where=where,
            hint="Name a baseline that was scored by the same judge, on the same questions.",
        )
    return verdict.without_kind(ACCEPT)


def strict(policy: Policy) -> Policy:
    """`policy` under which a run must be shown to be good: it fails for an undecided
    check, for a judge that changed, and for a missing baseline unless the policy itself
    says what happens then."""
    changes: dict[str, str] = {"inconclusive": "fail", "on_judge_change": "fail"}
    if "on_no_baseline" not in policy.gate.model_fields_set:
        changes["on_no_baseline"] = "fail"
    gate = policy.gate.model_copy(update=changes)
    return policy.model_copy(update={"gate": gate})
