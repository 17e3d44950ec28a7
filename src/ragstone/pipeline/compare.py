"""Decides on two runs or score files, without an evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ragstone.errors import BaselineError, ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.score_files import read_score_file
from ragstone.formatting import join_first
from ragstone.gate.policy import Policy
from ragstone.gate.rules import resolve_rules
from ragstone.gate.verdict import GateVerdict
from ragstone.golden.sample import GoldenSet
from ragstone.pipeline.decide import ComparedRun, Terms, decide, run_document
from ragstone.pipeline.page import page_of
from ragstone.printable import shown_name
from ragstone.report.page import PackedChunk
from ragstone.report.parts import Document


class Compared(Struct, frozen=True):
    """The verdict on a run, and both sides of the comparison."""

    verdict: GateVerdict
    document: Document
    current: ComparedRun
    baseline: ComparedRun | None

    def page(self, redact: Redactor | None = None) -> Iterator[PackedChunk]:
        """Yield all samples, packed for an HTML page."""
        return page_of(
            self.current, self.verdict, self.baseline, redact or Redactor(())
        )


def read_side(
    path: Path, golden: GoldenSet | None = None, policy: Policy | None = None
) -> ComparedRun:
    """The scores in `path`: a run directory, or a score file of samples in `golden`.

    With a `policy`, the metrics of a score file are the known ones and those that the
    policy names. Raises ConfigError.
    """
    if path.is_dir():
        return ComparedRun.of(RunDirectory.open(path))
    if not path.exists():
        raise ConfigError(
            f"there is no such file or directory: {shown_name(str(path))}",
            hint="Name a run directory (`ragstone run --out DIR`), or a score file with the columns id, metric and value.",
        )
    policy_metrics: set[str] = set()
    if policy is not None:
        rules = [name for _, name, _ in policy.rules()]
        policy_metrics = {*policy.rules_in_force, *rules}
    return ComparedRun(read_score_file(path, golden, policy_metrics=policy_metrics))


def compare_sides(
    current: ComparedRun,
    baseline: ComparedRun | None,
    policy: Policy,
) -> Compared:
    """Decide on `current`, compared with `baseline`. Raises ConfigError if it is a score
    file and no rule covers any of its scores, because nothing would be checked."""
    scores, has_baseline = current.scores, baseline is not None
    covered = set()
    for rule in resolve_rules(policy, scores):
        if rule.min is not None or (has_baseline and rule.max_drop is not None):
            covered.add(rule.metric)
    for facts in scores.samples.values():
        covered |= {metric for _, metric, _ in facts.bounds}
    if current.run is None and scores.metrics and covered.isdisjoint(scores.metrics):
        names = list(scores.metrics)
        raise ConfigError(
            f"no rule covers any of its scores ({join_first(names)}), so there is no verdict.",
            where=scores.label,
            hint="Write a rule in thresholds.toml, such as:\n"
            f"  [metrics.{json.dumps(names[0], ensure_ascii=False)}]\n  min = 0.80",
        )
    notes = scores.remarks
    if baseline is not None:
        notes += baseline.scores.remarks
    terms = Terms(policy, baseline, current.day, required=has_baseline)
    verdict = decide(current, terms, notes=notes)
    document = run_document(current, verdict, baseline)
    return Compared(verdict, document, current, baseline)


def compare(
    baseline: Path | None,
    current: Path,
    policy: Policy,
    *,
    golden: GoldenSet | None = None,
) -> Compared:
    """Compare `current` with the floors, and with `baseline` if there is one. Each is a
    run directory or a score file.

    The rows of score files are matched with the samples in `golden`. Raises
    BaselineError if the baseline can't be read, is `current` itself, or is a failed
    run; ConfigError if the current run can't be read.
    """
    current_side = read_side(current, golden, policy)
    baseline_side = None
    if baseline is not None:
        try:
            baseline_side = read_side(baseline, golden, policy)
        except ConfigError as error:
            raise BaselineError.of(error, "the baseline can't be used: ") from None
        if current.exists() and baseline.samefile(current):
            raise BaselineError(
                "a run can't be compared with itself.",
                where=str(baseline),
                hint="Use another baseline.",
            )
        run = baseline_side.run
        if run is not None and run.manifest.verdict in ("fail", "error"):
            standing = run.manifest.standing
            if not standing.eligible:
                raise BaselineError(
                    f"this run can't be a baseline: {standing.reason}.",
                    where=str(baseline),
                    hint="Use a run that did not fail.",
                )
    return compare_sides(current_side, baseline_side, policy)
