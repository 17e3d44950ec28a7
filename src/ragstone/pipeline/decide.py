"""The decision: every command, job and API function gets its verdict from `decide`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Literal

from ragstone.errors import EXIT_PASS, BaselineError, RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lineage import lasting_fingerprint, oracle_half
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.records_file import Lookup
from ragstone.evaluation.scores import RunScores, means, without_drafts
from ragstone.formatting import counted, score, some
from ragstone.gate.accepted import InForce, accepted_in, offers
from ragstone.gate.changes import Corpus, changes_since
from ragstone.gate.comparability import renamed_note, same_question, with_ids_of
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
from ragstone.gate.verdict import GateVerdict, OracleShares, Status
from ragstone.golden.sample import GoldenSet
from ragstone.history.drift import Drift
from ragstone.judge.names import moving_name, near_end
from ragstone.pipeline.history import RunHistory, level_of, measure_run_drift
from ragstone.pipeline.reproduce import reproduce_lines
from ragstone.report.document import document_of
from ragstone.report.escape import one_line
from ragstone.report.parts import Document, Links
from ragstone.report.samples import first_failures
from ragstone.report.templates import render_lines

MAX_DETAILS = 50
"""Maximum number of samples shown in full in the reports."""

_RECORDS_AT_ONCE = 200
_SHOWN_DRAFTS = 10

FailOn = Literal["fail", "inconclusive", "never"]


def policy_for(policy: Policy, golden: GoldenSet) -> tuple[Policy, tuple[str, ...]]:
    """`policy` for the samples of `golden`, and a warning about what is not checked if
    a limit left samples out."""
    if not golden.limited:
        return policy, ()
    tags = {tag for sample in golden for tag in sample.tags}
    part = policy.for_part({sample.id for sample in golden}, tags)
    left_out = [
        f"must-pass sample {name}"
        for name in policy.must_pass.ids
        if name not in part.must_pass.ids
    ]
    left_out += [f"slice {tag}" for tag in policy.slices if tag not in part.slices]
    if not left_out:
        return part, ()
    drawn = counted(len(golden), "sample")
    return part, (
        f"The limit leaves {drawn} of the golden set. Not checked: {some(left_out)}.",
    )


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One side of a comparison. `run` is None for a plain score file.

    `details` are the records behind `scores` if they are not those of `run`: the same
    answers, judged again. `stored_ids` are the ids in the records of samples that
    `scores` calls otherwise. `drafts` are the scores of samples that count in no check;
    they are not in `scores`.
    """

    scores: RunScores
    run: RunDirectory | None = None
    details: RunDirectory | None = None
    stored_ids: Mapping[str, str] = field(default_factory=dict)
    drafts: RunScores | None = None

    @classmethod
    def of(cls, run: RunDirectory) -> ComparedRun:
        """The run in a directory. Raises RunDirectoryError."""
        scores, drafts = without_drafts(run.scores())
        return cls(scores, run, drafts=drafts)

    @classmethod
    def baseline(cls, run: RunDirectory | None) -> ComparedRun | None:
        """The baseline in a directory. One that can't be read is a BaselineError, not
        an error of the current run."""
        try:
            return None if run is None else cls.of(run)
        except RunDirectoryError as error:
            raise BaselineError(
                error.message, where=error.where, hint=error.hint
            ) from None

    @property
    def day(self) -> date | None:
        """The day on which the run was started; None for a plain score file."""
        return None if self.run is None else self.run.manifest.day

    def find(self, ids: tuple[str, ...]) -> dict[str, SampleRecord]:
        """The records of `ids`, if there are records."""
        source = self.details or self.run
        if source is None:
            return {}
        records = source.find(self.stored_ids.get(name, name) for name in ids)
        names = ((name, self.stored_ids.get(name, name)) for name in ids)
        return {name: records[stored] for name, stored in names if stored in records}

    @contextmanager
    def lookup(self) -> Iterator[Lookup]:
        """Look up records one by one, by the ids of `scores`. Without records, none is
        found."""
        source = self.details or self.run
        if source is None:
            yield lambda _: None
            return
        with source.lookup() as record_of:
            yield lambda sample_id: record_of(self.stored_ids.get(sample_id, sample_id))

    def beside(self, current: ComparedRun) -> ComparedRun:
        """This run as the baseline of `current`: with the ids that samples with the
        same content have there."""
        scores, stored = with_ids_of(current.scores, self.scores)
        if not stored:
            return self
        ids = {
            name: self.stored_ids.get(before, before) for name, before in stored.items()
        }
        return replace(self, scores=scores, stored_ids={**self.stored_ids, **ids})


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which a run is decided, fixed before it starts. `accepted` are the
    accepted drops in force.

    `today` is None for a plain score file. `level`: the baseline was found on a branch,
    so the run is compared with the level of that branch where its history has one.
    """

    policy: Policy
    baseline: ComparedRun | None
    baseline_required: bool
    accepted: InForce
    today: date | None
    seed: int
    level: bool = False

    @classmethod
    def of(
        cls,
        policy: Policy,
        baseline: ComparedRun | None,
        today: date | None,
        *,
        required: bool = False,
        seed: int = 0,
        level: bool = False,
    ) -> Terms:
        """The terms of a run of `today`. Drops can be accepted between run directories,
        not between score files."""
        accepted = InForce()
        if today is not None and (baseline is None or baseline.run is not None):
            accepted = accepted_in(
                policy.accepted, baseline.run if baseline is not None else None, today
            )
        return cls(policy, baseline, required, accepted, today, seed, level)

    @property
    def in_force(self) -> Policy:
        """The policy with the accepted drops in force."""
        return self.policy.with_accepted(self.accepted)


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

    `past` is the history to compare with. `notes` and `warnings` are from the caller,
    shown before those of the verdict. `folder` is the folder in which to run the
    commands that a report shows. `unproven` says what was left out, so that the run can
    fail but not pass.
    """
    run, baseline = current.run, terms.baseline
    if baseline is not None:
        baseline = baseline.beside(current)
    corpus, drift, level_notes = Corpus(), Drift(), tuple[str, ...]()
    reference = None if baseline is None else baseline.scores
    changes_of = None
    if run is not None:
        changes_of = partial(_sample_changes, current, baseline, corpus)
    if past is not None and run is not None:
        if baseline is not None and terms.level:
            reference, level_notes = level_of(
                past,
                run,
                current.scores,
                baseline.scores,
                terms.policy,
            )
        drift = measure_run_drift(
            past, run, current.scores, terms.policy, terms.accepted.entries
        )
    verdict = decide_gate(
        current.scores,
        reference,
        terms.in_force,
        baseline_required=terms.baseline_required,
        seed=terms.seed,
        drift=drift.checks,
        changes_of=changes_of,
    )
    verdict = verdict.with_findings(
        *findings("job", Level.NOTE, notes),
        *findings("level", Level.NOTE, level_notes),
        *findings("drafts", Level.NOTE, _notes(current, baseline)),
        *findings("job", Level.WARNING, warnings),
        *findings("drafts", Level.WARNING, _turned_into_drafts(current, baseline)),
        *findings("accepted", Level.WARNING, terms.accepted.in_force_notes),
        *findings("accepted", Level.ASIDE, terms.accepted.removable),
        *findings("drift", Level.WARNING, drift.warnings),
        after=(
            *findings("drift", Level.NOTE, drift.notes),
            *_judge_findings(run, terms.today),
        ),
    )
    if baseline is not None:
        golden = golden_set_change(
            current.scores,
            baseline.scores,
            drafts=current.drafts,
        )
        changes = changes_since(current.scores, baseline.scores, corpus, golden)
        facts = [
            Finding(CHANGED, Level.FACT, change.how, change.what, change)
            for change in changes
        ]
        verdict = verdict.with_findings(*golden_set_finding(golden), after=facts)
    shares = oracle_findings(current, terms.policy.gate.confidence)
    verdict = verdict.with_findings(after=shares)
    if run is not None and baseline is not None and baseline.run is not None:
        commands = _accept_commands(verdict, terms.policy, run, baseline.run, folder)
        verdict = verdict.with_findings(
            after=(*findings(ACCEPT, Level.FACT, commands),)
        )
    return verdict if unproven is None else verdict.unproven(unproven)


def oracle_of(current: ComparedRun, confidence: float = 0.95) -> OracleShares | None:
    """Retrieval and generation by the oracle half of a run, with intervals at
    `confidence`; None if it has none.

    Raises RunDirectoryError.
    """
    run = current.run
    if run is None or run.rounds.oracle is None:
        return None
    half = oracle_half(run)
    scores = None if half is None else half.scores()
    return oracle_shares(
        current.scores, scores, run.rounds.oracle, confidence=confidence
    )


def oracle_findings(current: ComparedRun, confidence: float) -> tuple[Finding, ...]:
    """The shares of retrieval and generation as a finding; none without an oracle half.
    Raises RunDirectoryError."""
    shares = oracle_of(current, confidence)
    return () if shares is None else (Finding(ORACLE, Level.FACT, "", data=shares),)


def _notes(current: ComparedRun, baseline: ComparedRun | None) -> list[str]:
    """Sentences on drafts and their scores, and on samples with new ids."""
    metrics = {} if current.drafts is None else current.drafts.metrics
    renamed = 0
    if baseline is not None:
        renamed = sum(
            _is_renamed(name, current.scores, baseline.scores)
            for name in baseline.stored_ids
        )
    return render_lines(
        "notes.txt.j2",
        "ragstone.pipeline",
        drafts=[]
        if current.drafts is None
        else sorted(map(one_line, current.drafts.samples)),
        means=means(
            {name: scores for name, scores in metrics.items() if scores.values}
        ),
        renamed=renamed_note(renamed) if renamed else "",
    )


def _is_renamed(name: str, current: RunScores, baseline: RunScores) -> bool:
    """Whether a sample that was given the id `name` is one of the run, and not one that
    lost its id to another."""
    return name in current.samples and same_question(current, baseline, name)


def _turned_into_drafts(
    current: ComparedRun, baseline: ComparedRun | None
) -> tuple[str, ...]:
    """A warning about drafts that counted in the baseline: with their scores, so that
    no failure is silenced unseen."""
    if current.drafts is None or baseline is None:
        return ()
    contents = {facts.content_hash for facts in baseline.scores.samples.values()} - {
        None
    }
    drafts = sorted(
        name
        for name, facts in current.drafts.samples.items()
        if name in baseline.scores.samples or facts.content_hash in contents
    )
    if not drafts:
        return ()
    described = [_with_scores(name, current.drafts) for name in drafts[:_SHOWN_DRAFTS]]
    more = len(drafts) - len(described)
    rest = f" and {more:,} more" if more else ""
    samples = counted(len(drafts), "sample")
    return (
        f"Now a draft, which counts in no check: {samples} that counted in the baseline: {'; '.join(described)}{rest}.",
    )


def _with_scores(name: str, drafts: RunScores) -> str:
    """The id of a draft with its scores, or why it has none."""
    scores = [
        f"{metric} {score(metric_scores.values[name])}"
        for metric, metric_scores in drafts.metrics.items()
        if name in metric_scores.values
    ]
    listed = ", ".join(scores) or drafts.system.failures.get(name) or "no score"
    return f"{name} ({listed})"


def _sample_changes(
    current: ComparedRun,
    baseline: ComparedRun | None,
    corpus: Corpus,
    ids: Sequence[str],
    paired: Collection[str],
) -> dict[str, SampleChange]:
    """What became of the samples `ids`, of which some are `paired`, from their records,
    a part of them at a time."""
    changes: dict[str, SampleChange] = {}
    for start in range(0, len(ids), _RECORDS_AT_ONCE):
        part = tuple(ids[start : start + _RECORDS_AT_ONCE])
        both = tuple(sample_id for sample_id in part if sample_id in paired)
        records = current.find(part)
        baseline_records = baseline.find(both) if baseline is not None else {}
        for sample_id in part:
            if sample_id in records and was_asked(records[sample_id]):
                record = records[sample_id]
                baseline_record = baseline_records.get(sample_id)
                corpus.add(record, baseline_record)
                changes[sample_id] = sample_change(record, baseline_record)
    return changes


def _judge_findings(run: RunDirectory | None, today: date | None) -> Iterator[Finding]:
    """A finding if the judge's model will be retired soon, and one if its name can
    move."""
    if run is None or today is None:
        return
    judge = run.manifest.judge
    ending = near_end(judge.provider, judge.model, today)
    if ending:
        yield Finding("judge_retires", Level.ASIDE, f"{ending[:1].upper()}{ending[1:]}")
    moving = moving_name(judge.provider, judge.model)
    if moving:
        yield Finding("judge_name", Level.NOTE, f"{moving[:1].upper()}{moving[1:]}")


def _accept_commands(
    verdict: GateVerdict,
    policy: Policy,
    run: RunDirectory,
    baseline: RunDirectory,
    folder: str | None,
) -> tuple[str, ...]:
    """The shell commands that accept the drops, or the edit of the golden set, that
    ended this run."""
    thresholds = policy.file
    if thresholds is not None and folder is not None:
        thresholds = Path(thresholds).name
    now, then = run.fingerprint, lasting_fingerprint(baseline)
    return tuple(
        offer.command(run=now, baseline=then, folder=folder, thresholds=thresholds)
        for offer in offers(verdict.checks, policy.gate)
    )


def exit_code_of(verdict: GateVerdict, fail_on: FailOn | None) -> int:
    """The verdict's exit code; with ``never``, only errors remain."""
    if fail_on == "never" and verdict.status in {Status.FAIL, Status.INCONCLUSIVE}:
        return EXIT_PASS
    return verdict.exit_code


def run_document(
    current: ComparedRun,
    verdict: GateVerdict,
    baseline: ComparedRun | None,
    links: Links | None = None,
    *,
    advisory: bool = False,
) -> Document:
    """The document of a verdict, with the samples named in it in full. `advisory`: the
    job goes on whatever it is."""
    regressions = verdict.explanation.regressions
    names = dict.fromkeys(regression.sample_id for regression in regressions)
    ids = tuple(names)[:MAX_DETAILS]
    failures = first_failures(current.scores, MAX_DETAILS)
    scores, details, manifest = None, {}, None
    if baseline is not None:
        baseline = baseline.beside(current)
        scores, details = baseline.scores, baseline.find(ids)
        manifest = baseline.scores.manifest
    return document_of(
        verdict,
        current.scores,
        scores,
        current.find((*ids, *failures)),
        baseline_details=details,
        links=links,
        drafts=current.drafts,
        reproduce=reproduce_lines(current.scores.manifest, manifest),
        advisory=advisory,
    )
