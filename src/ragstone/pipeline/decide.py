"""The decision: every command, job and API function gets its verdict from `decide`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragstone.errors import EXIT_PASS, BaselineError, RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import lasting_fingerprint, oracle_half
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.records_file import Lookup
from ragstone.evaluation.scores import NO_RUN, RunScores, means, split_drafts
from ragstone.formatting import counted, join_first
from ragstone.gate.accepted import EntriesInForce, accepted_for_run, offers, title_of
from ragstone.gate.changes import CorpusChange, changes_since
from ragstone.gate.comparability import with_ids_of
from ragstone.gate.decide import decide_gate
from ragstone.gate.diagnosis import was_asked
from ragstone.gate.findings import ACCEPT, CHANGED, ORACLE, Finding, Level, findings
from ragstone.gate.golden_set_change import (
    golden_set_change,
    golden_set_finding,
)
from ragstone.gate.oracle import oracle_shares
from ragstone.gate.policy import Policy
from ragstone.gate.sample_change import SampleChange, sample_change
from ragstone.gate.verdict import GateVerdict, Status
from ragstone.golden.sample import GoldenSet
from ragstone.pipeline.history import (
    HistoryComparison,
    RunHistory,
    compare_with_history,
)
from ragstone.report.document import document_of
from ragstone.report.escape import clean_line
from ragstone.report.parts import NO_LINKS, Document, Links
from ragstone.report.samples import first_failures

MAX_DETAILS = 50
"""Maximum number of samples shown in full in the reports."""

FailOn = Literal["fail", "inconclusive", "never"]


def policy_for(policy: Policy, golden: GoldenSet) -> tuple[Policy, tuple[str, ...]]:
    """The part of `policy` that applies to the samples of `golden`, and a warning if a
    limit left out samples or slices that the policy names."""
    if not golden.is_limited:
        return policy, ()
    tags = set(chain.from_iterable(sample.tags for sample in golden))
    applicable = policy.for_part({sample.id for sample in golden}, tags)
    if applicable == policy:
        return policy, ()
    samples = counted(len(golden), "sample")
    return applicable, (
        f"The limit leaves {samples} of the golden set: must-pass samples and slices that are left out are not checked.",
    )


class ComparedRun(Struct, frozen=True):
    """One side of a comparison."""

    scores: RunScores
    run: RunDirectory | None = None
    """None for a plain score file."""
    details: RunDirectory | None = None
    """The run with the records behind `scores`, if the answers of `run` were judged
    again."""
    stored_ids: Mapping[str, str] = {}
    """The ids that samples have in the records, where those in `scores` differ."""
    drafts: RunScores = NO_RUN
    """The scores of drafts, which count in no check and are not in `scores`."""

    @classmethod
    def of(cls, run: RunDirectory) -> ComparedRun:
        """The run in a directory. Raises RunDirectoryError."""
        scores, drafts = split_drafts(run.scores())
        return cls(scores, run, drafts=drafts)

    @classmethod
    def baseline(cls, run: RunDirectory | None) -> ComparedRun | None:
        """The baseline in a directory; None without one. Raises BaselineError if it
        can't be read."""
        try:
            return None if run is None else cls.of(run)
        except RunDirectoryError as error:
            raise BaselineError.of(error) from None

    @property
    def day(self) -> date | None:
        """The day on which the run was started; None for a plain score file."""
        return None if self.run is None else self.run.manifest.day

    def find(self, ids: Sequence[str]) -> dict[str, SampleRecord]:
        """The records of the samples `ids`, of those that have one."""
        with lookup(self if ids else None) as record_of:
            records = {name: record_of(name) for name in ids}
        return {name: record for name, record in records.items() if record is not None}

    def with_ids_of(self, current: ComparedRun) -> ComparedRun:
        """This run with the ids that samples with the same content have in `current`,
        so that it can be the baseline."""
        scores, renamed = with_ids_of(current.scores, self.scores)
        stored_ids = {
            new: self.stored_ids.get(old, old) for new, old in renamed.items()
        }
        stored_ids = {**self.stored_ids, **stored_ids}
        return replace(self, scores=scores, stored_ids=stored_ids)


@contextmanager
def lookup(side: ComparedRun | None) -> Iterator[Lookup]:
    """Look up records one by one, by the ids in the scores of `side`. A score file has
    no records, so none is found."""
    source = None if side is None else side.details or side.run
    if side is None or source is None:
        yield lambda _: None
        return
    with source.lookup() as record_of:
        yield lambda sample_id: record_of(side.stored_ids.get(sample_id, sample_id))


class Terms(Struct, frozen=True):
    """The terms on which a run is decided, fixed before it starts."""

    policy: Policy
    baseline: ComparedRun | None
    today: date | None
    """None for a plain score file."""
    required: bool = False
    """Whether there must be a baseline."""
    uses_level: bool = False
    """Whether the run is compared with the level of the branch, where its history has
    one: if the baseline was found on a branch."""

    @property
    def baseline_run(self) -> RunDirectory | None:
        """The run directory to compare with; None without one."""
        return None if self.baseline is None else self.baseline.run

    @property
    def accepted(self) -> EntriesInForce:
        """The accepted drops in force. There are none between score files, which no
        entry can name."""
        run = self.baseline_run
        if self.today is None or (self.baseline is not None and run is None):
            return EntriesInForce()
        return accepted_for_run(self.policy.accepted, run, self.today)


def decide(
    current: ComparedRun,
    terms: Terms,
    *,
    past: RunHistory | None = None,
    notes: Iterable[str] = (),
    warnings: Iterable[str] = (),
    folder: str | None = None,
    unproven: str | None = None,
) -> GateVerdict:
    """The verdict on `current`, with its warnings, notes and commands.

    `past` is the history to compare with. `notes` and `warnings` of the caller are
    shown before those of the verdict. `folder` is the folder in which to run the
    commands that a report shows. `unproven` is a sentence on what was left out: with
    it, the run can fail but not pass.
    """
    run, baseline, policy = current.run, terms.baseline, terms.policy
    accepted, corpus, history = terms.accepted, CorpusChange(), HistoryComparison()
    reference = None
    if baseline is not None:
        baseline = baseline.with_ids_of(current)
        reference = baseline.scores
    if past is not None and run is not None:
        history = compare_with_history(
            past,
            run,
            current.scores,
            policy,
            accepted.drops,
            reference if terms.uses_level else None,
        )
    verdict = decide_gate(
        current.scores,
        history.level or reference,
        policy.with_accepted(accepted),
        baseline_required=terms.required,
        drift=history.drift.checks,
        changes_of=partial(_sample_changes, current, baseline, corpus),
    )
    first_findings = [
        *findings("job", Level.NOTE, notes),
        *findings("level", Level.NOTE, history.notes),
        *findings("drafts", Level.NOTE, _draft_notes(current)),
        *findings("job", Level.WARNING, warnings),
        *findings("drafts", Level.WARNING, _turned_into_drafts(current, baseline)),
        *findings("accepted", Level.WARNING, accepted.in_force_notes),
        *findings("accepted", Level.ASIDE, accepted.removal_notes),
        *findings("drift", Level.WARNING, history.drift.warnings),
    ]
    last_findings = [*findings("drift", Level.NOTE, history.drift.notes)]
    if baseline is not None:
        golden = golden_set_change(current.scores, baseline.scores, current.drafts)
        first_findings = [*golden_set_finding(golden), *first_findings]
        changes = changes_since(current.scores, baseline.scores, corpus, golden)
        last_findings += [
            Finding(CHANGED, Level.FACT, change.how, change.what, change)
            for change in changes
        ]
    last_findings += oracle_findings(current, policy.gate.confidence)
    last_findings += _accept_commands(verdict, run, terms, folder)
    verdict = verdict.with_findings(*first_findings, after=last_findings)
    return verdict if unproven is None else verdict.as_unproven(unproven)


def _accept_commands(
    verdict: GateVerdict, run: RunDirectory | None, terms: Terms, folder: str | None
) -> Iterator[Finding]:
    """The commands by which the failing drops of `run` can be accepted, to be run in
    `folder`."""
    policy, baseline = terms.policy, terms.baseline_run
    if run is None or baseline is None:
        return
    thresholds = policy.file
    if thresholds is not None and folder is not None:  # the folder of the policy
        thresholds = Path(thresholds).name
    for offer in offers(verdict.checks, policy.gate):
        command = offer.command(
            run=run.fingerprint,
            baseline=lasting_fingerprint(baseline),
            folder=folder,
            thresholds=thresholds,
        )
        title = title_of(offer.metric, offer.slice)
        yield Finding(ACCEPT, Level.FACT, command, title)


def oracle_findings(
    current: ComparedRun, confidence: float = 0.95
) -> tuple[Finding, ...]:
    """A finding that divides what is missing into retrieval and generation, with
    intervals at `confidence`; none for a run without an oracle half. Raises
    RunDirectoryError."""
    run = current.run
    if run is None or run.rounds.oracle is None:
        return ()
    half = oracle_half(run)
    scores = NO_RUN if half is None else half.scores()
    facts = run.rounds.oracle
    shares = oracle_shares(current.scores, scores, facts, confidence=confidence)
    return (Finding(ORACLE, Level.FACT, "", data=shares),)


def _draft_notes(current: ComparedRun) -> Iterator[str]:
    """A sentence about the drafts and their scores, if there are any."""
    drafts = current.drafts
    if not drafts.samples:
        return
    metrics = drafts.metrics.items()
    scores = means({name: measured for name, measured in metrics if measured.values})
    names = join_first(sorted(map(clean_line, drafts.samples)))
    samples = counted(len(drafts.samples), "sample")
    yield f"Drafts, which count in no check until reviewed: {samples} ({scores}): {names}."


def _turned_into_drafts(
    current: ComparedRun, baseline: ComparedRun | None
) -> Iterator[str]:
    """A warning about drafts that counted in the baseline: to make a sample a draft
    must not hide its failure."""
    if baseline is None:
        return
    before = baseline.scores.samples
    contents = {facts.content_hash for facts in before.values()} - {None}
    names = []
    for name, facts in sorted(current.drafts.samples.items()):
        if name in before or facts.content_hash in contents:
            names.append(name)
    if names:
        samples = counted(len(names), "sample")
        yield f"The drafts, which count in no check, include {samples} that counted in the baseline: {join_first(names)}."


def _sample_changes(
    current: ComparedRun,
    baseline: ComparedRun | None,
    corpus: CorpusChange,
    ids: Sequence[str],
    paired: Collection[str],
) -> dict[str, SampleChange]:
    """How the samples `ids` changed since the baseline, by their records. Only those in
    `paired` are compared with their record there."""
    changes: dict[str, SampleChange] = {}
    if not ids:
        return changes
    with lookup(current) as record_of, lookup(baseline) as before_of:
        for sample_id in ids:
            record = record_of(sample_id)
            if record is not None and was_asked(record):
                before = before_of(sample_id) if sample_id in paired else None
                corpus.add(record, before)
                changes[sample_id] = sample_change(record, before)
    return changes


def exit_code_of(verdict: GateVerdict, fail_on: FailOn | None) -> int:
    """The verdict's exit code; with ``never``, 0 unless the verdict is an error."""
    if fail_on == "never" and verdict.status in {Status.FAIL, Status.INCONCLUSIVE}:
        return EXIT_PASS
    return verdict.exit_code


def run_document(
    current: ComparedRun,
    verdict: GateVerdict,
    baseline: ComparedRun | None,
    links: Links = NO_LINKS,
    *,
    advisory: bool = False,
) -> Document:
    """The document of a verdict, with the samples that got worse in full. If
    `advisory`, the job goes on whatever the verdict is."""
    regressions = verdict.explanation.regressions
    regressed_ids = dict.fromkeys(regression.sample_id for regression in regressions)
    ids = tuple(regressed_ids)[:MAX_DETAILS]
    failures = first_failures(current.scores, MAX_DETAILS)
    scores, details = None, {}
    if baseline is not None:
        baseline = baseline.with_ids_of(current)
        scores, details = baseline.scores, baseline.find(ids)
    return document_of(
        verdict,
        current.scores,
        scores,
        current.find((*ids, *failures)),
        baseline_records=details,
        links=links,
        drafts=current.drafts,
        is_advisory=advisory,
    )
