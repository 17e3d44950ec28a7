"""What holds for every pair of runs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import CheckKind, Status
from tests.gate.conftest import failed

pytestmark = pytest.mark.heavy

NAMES = ("faithfulness", "context_recall")
heaped = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0]) | st.floats(0, 1)
states = st.one_of(heaped, heaped, heaped, st.just("failed"), st.just("excused"))
tables = st.lists(st.tuples(states, states), min_size=1, max_size=40)
gates = st.fixed_dictionaries(
    {
        "decision": st.sampled_from(["evidence", "assured"]),
        "inconclusive": st.sampled_from(["pass", "warn", "fail"]),
        "min_coverage": st.sampled_from([0.0, 0.5, 0.98]),
        "max_failed_judgements": st.sampled_from([0.0, 0.03, 1.0]),
    }
)
rules = st.fixed_dictionaries(
    {"min": st.sampled_from([0.0, 0.4, 0.85, 1.0]), "max_drop": st.sampled_from([0.0, 0.02, 0.2])}
)
policies = st.just(default_policy()) | st.builds(
    lambda gate, *of_metrics: policy_from_mapping({"gate": gate, "metrics": dict(zip(NAMES, of_metrics, strict=True))}),
    gates,
    rules,
    rules,
)
Table = list[tuple[Any, Any]]


def run_of(table: Table, order: list[int] | None = None, groups: bool = False) -> RunScores:
    indices = order if order is not None else list(range(len(table)))
    metrics = {}
    for column, name in enumerate(NAMES):
        cells = {f"s{index}": table[index][column] for index in indices}
        metrics[name] = MetricScores(
            values={i: cell for i, cell in cells.items() if isinstance(cell, float)},
            not_applicable={i: "because" for i, cell in cells.items() if cell == "excused"},
            failed=failed(i for i, cell in cells.items() if cell == "failed"),
        )
    facts = {f"s{index}": SampleFacts(group=f"g{index % 4}" if groups else None) for index in indices}
    return RunScores("run", metrics, facts)


@settings(max_examples=30, deadline=None)
@given(tables, tables, policies, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_samples_never_matters(now: Table, then: Table, policy: Policy, random: Any, groups: bool) -> None:
    orders = [list(range(len(table))) for table in (now, then)]
    for order in orders:
        random.shuffle(order)
    one = decide_gate(run_of(now, groups=groups), run_of(then, groups=groups), policy)
    assert one == decide_gate(run_of(now, orders[0], groups), run_of(then, orders[1], groups), policy)


@settings(max_examples=30, deadline=None)
@given(tables, tables, policies, st.data())
def test_better_scores_never_make_a_pass_a_failure(
    now: Table, then: Table, policy: Policy, data: st.DataObject
) -> None:
    def better(cell: Any) -> Any:
        return data.draw(st.floats(cell, 1)) if isinstance(cell, float) else cell

    improved = [(better(a), better(b)) for a, b in now]
    if decide_gate(run_of(now), run_of(then), policy).status is Status.PASS:
        assert decide_gate(run_of(improved), run_of(then), policy).status is not Status.FAIL


@settings(max_examples=40, deadline=None)
@given(tables, st.none() | tables, policies)
def test_every_verdict_follows_from_its_checks_and_holds_no_nan(now: Table, then: Table | None, policy: Policy) -> None:
    itself = decide_gate(run_of(now), run_of(now), policy)
    assert all(check.status is Status.PASS for check in itself.checks if check.kind is CheckKind.DROP)
    verdict = decide_gate(run_of(now), None if then is None else run_of(then), policy)
    assert verdict.exit_code in {0, 1, 5, 6, 8}
    assert verdict.reason.endswith(".")
    statuses = {check.status for check in verdict.checks if check.blocks}
    if verdict.status is Status.PASS:
        assert not statuses & {Status.FAIL, Status.ERROR}
        assert any(isinstance(cell, float) for row in now for cell in row)
    else:
        assert verdict.status in statuses
    for check in verdict.checks:
        numbers = [check.estimate, check.threshold, check.current, check.baseline]
        numbers += [check.interval.low, check.interval.high] if check.interval else []
        assert all(number is None or math.isfinite(number) for number in numbers)
        if check.interval is not None and check.estimate is not None:
            assert check.interval.low <= check.estimate <= check.interval.high
