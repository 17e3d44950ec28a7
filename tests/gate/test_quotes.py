"""Supported statements whose quote is in no context are counted, and contexts that contradict each other are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.scores import VerdictCounts
from ragstone.gate.checks.quotes import Quotes
from ragstone.gate.decide import decide_gate
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.quotes import quote_notes
from ragstone.gate.verdict import Action, Status
from tests.gate.conftest import build_run


def evidence(*counts: VerdictCounts, **gate: Any) -> Evidence:
    run = build_run({"faithfulness": [1.0] * 20})
    verdicts = dict(zip(run.samples, counts, strict=False))
    run = replace(run, system=replace(run.system, verdicts=verdicts))
    return Evidence.of(run, None, policy_from_mapping({"gate": gate}))


def test_the_share_of_statements_without_a_quote_is_a_note() -> None:
    (note,) = quote_notes(evidence(VerdictCounts(8, unquoted=1), VerdictCounts(2)))
    assert note.startswith("For 1 of 10 supported statements (10 %), the judge quoted words")
    assert list(quote_notes(evidence(VerdictCounts(8)))) == []


@pytest.mark.parametrize(("allowed", "status"), [(0.1, Status.PASS), (0.09, Status.ERROR), (0.0, Status.ERROR)])
def test_a_policy_may_demand_quotes(allowed: float, status: Status) -> None:
    (check,) = Quotes().evaluate(evidence(VerdictCounts(10, unquoted=1), max_unquoted=allowed))
    assert (check.status, check.action) == (status, Action.BLOCK)
    assert check.estimate == pytest.approx(0.1)
    decided = evidence(VerdictCounts(10, unquoted=1), max_unquoted=allowed)
    verdict = decide_gate(decided.current, None, decided.policy)
    assert (verdict.status is Status.ERROR) is (status is Status.ERROR)


def test_without_the_key_nothing_is_demanded() -> None:
    assert list(Quotes().evaluate(evidence(VerdictCounts(10, unquoted=10)))) == []
    assert list(Quotes().evaluate(evidence(max_unquoted=0.0))) == []


def test_contexts_that_contradict_each_other_are_a_note() -> None:
    (note,) = quote_notes(evidence(*[VerdictCounts(4, disputed=2)] * 3, VerdictCounts(1)))
    assert note.startswith("3 answers rest on contexts that other contexts contradict")
    (note,) = quote_notes(evidence(VerdictCounts(4, disputed=2)))
    assert note.startswith("1 answer rests on contexts that other contexts contradict")
