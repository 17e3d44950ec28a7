"""The warning about answers that ignore the first context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores, SampleFacts, SystemFacts
from ragstone.gate.alignment import alignment_findings
from ragstone.gate.findings import Level
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.metrics.alignment import UsedContexts
from tests.gate.conftest import build_run, evidence_of


def run_of(used: Sequence[tuple[int, ...]], groups: str = "", *, answerable: bool = True) -> RunScores:
    """One sample for each entry, with three contexts, of which the answer draws on the ranks (from 0) in the entry."""
    found = build_run({"faithfulness": [1.0] * len(used)})
    contexts = {f"s{at}": UsedContexts((0, 1, 2), one) for at, one in enumerate(used)}
    facts = [SampleFacts(group=groups[at] if groups else None, answerable=answerable) for at in range(len(used))]
    samples = dict(zip(contexts, facts, strict=True))
    return replace(found, samples=samples, system=SystemFacts(used_contexts=contexts))


FLOOR = {"metrics": {"top_context_used": {"min": 0.5}}}
DROP = {"metrics": {"top_context_used": {"max_drop": 0.1}}}


@pytest.mark.parametrize(
    ("run", "tables", "says"),
    [
        (run_of([(1,)] * 30 + [(0, 2)] * 20), {}, "60 % of 50 answers ignore the first context (95 % interval 45.2 %"),
        (
            run_of([(1,)] * 25 + [()] * 25),
            {},
            "; more than 30 % is worth a look), and 25 of these ignore all contexts.",
        ),
        (run_of([(1,)] * 4 + [(0,)] * 6), {}, ""),  # 40 %, but of ten answers
        (run_of([(1,)] * 150 + [(0,)] * 350), {}, ""),  # 30 %
        (run_of([(1,)] * 30 + [(0,)] * 20, "a" * 15 + "b" * 15 + "c" * 20), {}, ""),  # related samples count as one
        (run_of([(1,)] * 50), FLOOR, ""),  # which takes its place
        (run_of([(1,)] * 50), DROP, "100 % of 50 answers"),
        (run_of([(1,)] * 50, answerable=False), {}, ""),
    ],
)
def test_a_share_that_is_shown_to_be_above_the_limit_is_said(run: RunScores, tables: Any, says: str) -> None:
    found = [finding.text for finding in alignment_findings(evidence_of(run, **tables))]
    assert [says in text for text in found] == [True] * bool(says)


def test_in_a_run_that_fails_it_is_a_note() -> None:
    evidence = evidence_of(run_of([(1,)] * 50))
    (found,) = alignment_findings(evidence)
    assert found.level is Level.ASIDE
    failed = Check("mrr.drop", CheckKind.DROP, Status.FAIL, Action.BLOCK, "so")
    (note,) = alignment_findings(replace(evidence, checks=(failed,)))
    assert note == replace(found, level=Level.NOTE)
