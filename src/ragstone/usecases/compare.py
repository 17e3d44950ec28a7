"""Only the decision: two runs or score files and a policy in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.errors import BaselineError, ConfigError
from ragstone.gate.accepted import InForce, accepted_in
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, load_policy
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.gate.verdict import GateVerdict
from ragstone.report.view import ReportView, build_view
from ragstone.run.directory import RunDirectory
from ragstone.run.record import SampleRecord
from ragstone.run.score_files import read_score_file
from ragstone.run.scores import RunScores


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One side of a comparison. `run` is None for a plain score file."""

    scores: RunScores
    run: RunDirectory | None = None

    def find(self, ids: tuple[str, ...]) -> dict[str, SampleRecord]:
        """The records of `ids`, if there are records."""
        return {} if self.run is None else self.run.find(ids)


@dataclass(frozen=True, slots=True)
class Compared:
    """The verdict, and its view for reports."""

    verdict: GateVerdict
    view: ReportView


def read_side(path: Path) -> ComparedRun:
    """The scores in `path`: a run directory, or a score file (JSONL or CSV). Raises ConfigError."""
    if path.is_dir():
        run = RunDirectory.open(path)
        return ComparedRun(run.scores(), run)
    if not path.exists():
        raise ConfigError(
            f"there is no such file or directory: {path}",
            hint="Use a run directory (`ragstone run --out DIR`), or a score file with id, metric, value.",
        )
    return ComparedRun(read_score_file(path))


def read_compare_policy(thresholds: Path | None, *, calibration: bool = True) -> Policy:
    """The policy in `thresholds`, else in thresholds.toml in the current directory, else the defaults.

    Metric names are checked against the scores, which may come from another evaluator. If `calibration` is False, the
    file named in [labels] is not read.
    """
    if thresholds is not None:
        return load_policy(thresholds, known_metrics=None, calibration=calibration)
    beside = Path(POLICY_FILE)
    if not beside.is_file():
        return default_policy(Path())
    return load_policy(beside, known_metrics=None, calibration=calibration)


def compare(baseline: Path, current: Path, policy: Policy, *, seed: int = 0, baseline_any: bool = False) -> Compared:
    """Compare `current` with `baseline`, each a run directory or a score file.

    Raises BaselineError if the baseline can't be read, is `current` itself, or is a failed run (unless `baseline_any`);
    ConfigError if the current run can't be read.
    """
    now = read_side(current)
    try:
        then = read_side(baseline)
    except ConfigError as error:
        raise BaselineError(
            f"the baseline can't be used: {error.message}", where=error.where, hint=error.hint
        ) from None
    _refuse_as_baseline(then, baseline, current, any_run=baseline_any)
    held = InForce()
    if now.run is not None and then.run is not None:
        held = accepted_in(policy.accepted, then.run, now.run.manifest.day)
    verdict = decide_gate(now.scores, then.scores, policy.with_accepted(held), baseline_required=True, seed=seed)
    verdict = replace(verdict, warnings=(*held.warnings, *verdict.warnings))
    ids = tuple(dict.fromkeys(regression.sample_id for regression in verdict.regressions))
    view = build_view(verdict, now.scores, then.scores, now.find(ids), baseline_details=then.find(ids))
    return Compared(verdict, view)


def _refuse_as_baseline(then: ComparedRun, baseline: Path, current: Path, *, any_run: bool) -> None:
    if current.exists() and baseline.samefile(current):
        raise BaselineError("a run can't be compared with itself.", where=str(baseline), hint="Use another baseline.")
    if then.run is None or any_run:
        return
    standing = then.run.manifest.standing
    if then.run.manifest.verdict in ("fail", "error") and not standing.eligible:
        raise BaselineError(
            f"this run can't be a baseline: {standing.reason}.",
            where=str(baseline),
            hint="Use a run that did not fail, or add --baseline-any to compare with this one anyway.",
        )
