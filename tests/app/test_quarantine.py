"""A decision with questions in quarantine is that without them, on both sides, and says what that costs."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.app.decide import ComparedRun, Terms, decide, view_of
from ragstone.config.settings import Quarantined
from ragstone.gate.policy import Policy, policy_from_mapping
from ragstone.run.scores import RunScores, set_apart
from tests.gate.conftest import build_run, make_manifest

UNTIL = date(2027, 1, 31)
POLICY = policy_from_mapping(
    {
        "gate": {"only_named": True, "min_coverage": 0.5},
        "metrics": {"faithfulness": {"min": 0.6, "max_drop": 0.02}},
        "slices": {
            "odd": {"metrics": {"faithfulness": {"min": 0.1}}},
            "one": {"metrics": {"faithfulness": {"min": 0.1}}},
        },
        "must_pass": {"samples": ["s1", "s2"], "min": 0.9},
    }
)
SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=24, max_size=24)


def run_of(values: list[float], held: list[str], order: list[int] | None = None) -> RunScores:
    tags = {f"s{i}": ("odd", "one") if i == 1 else ("odd",) if i % 2 else () for i in range(len(values))}
    entries = tuple(Quarantined(id=name, until=UNTIL, reason="flips") for name in held)
    manifest = make_manifest().model_copy(update={"quarantine": entries})
    found = build_run({"faithfulness": values}, manifest=manifest, tags=tags)
    names = [f"s{i}" for i in order] if order else list(found.samples)
    values_in_order = {name: found.metrics["faithfulness"].values[name] for name in names}
    metrics = {"faithfulness": replace(found.metrics["faithfulness"], values=values_in_order)}
    return replace(found, metrics=metrics, samples={name: found.samples[name] for name in names})


def terms(policy: Policy, baseline: RunScores) -> Terms:
    return Terms.of(policy, ComparedRun(baseline), None)


@settings(max_examples=25, deadline=None)
@given(SCORES, SCORES, st.permutations(range(24)), st.sets(st.integers(0, 23), min_size=1, max_size=3))
def test_it_decides_as_if_the_questions_were_in_neither_run(
    now: list[float], then: list[float], order: list[int], held: set[int]
) -> None:
    names = [f"s{i}" for i in sorted(held)]
    current = ComparedRun.counting(run_of(now, names))
    found = decide(current, terms(POLICY, run_of(then, [])))
    shuffled = decide(ComparedRun.counting(run_of(now, names[::-1], list(order))), terms(POLICY, run_of(then, [])))
    bare, rest = (set_apart(run_of(values, []), names)[0] for values in (now, then))
    gone = {tag for one in run_of(now, []).samples.values() for tag in one.tags} - {
        tag for one in bare.samples.values() for tag in one.tags
    }
    narrow = POLICY.for_part(bare.samples, POLICY.slices.keys() - gone)
    expected = decide(ComparedRun(bare), terms(narrow, rest))
    assert found.checks == shuffled.checks == expected.checks
    assert (found.status, found.reason, found.regressions) == (expected.status, expected.reason, expected.regressions)
    assert found.comparability == expected.comparability
    means = {row.metric: row.score for row in view_of(current, found, None).metrics if row.slice is None}
    assert means["faithfulness"] == sum(bare.metrics["faithfulness"].values.values()) / len(bare.samples)


def test_the_report_names_the_questions_the_day_and_the_loss_of_power() -> None:
    now = [1.0] * 60
    current = ComparedRun.counting(run_of(now, ["s1", "s2"]))
    verdict = decide(current, terms(POLICY, run_of(now, [])))
    (said,) = (one for one in verdict.warnings if "quarantine" in one)
    assert said.startswith(
        "2 questions in quarantine until 2027-01-31: s1, s2. They count in no check; losses show in 4"
    )
    assert said not in verdict.asides
    view = view_of(current, verdict, None)
    assert said in view.warnings
    assert [row.id for row in view.samples if "quarantine" in row.tags] == ["s1", "s2"]
    assert view.samples_total == 60
    assert not any(check.sample for check in verdict.checks)


def test_what_was_in_quarantine_when_the_baseline_was_made_is_compared_once_it_counts() -> None:
    held, free = ComparedRun.counting(run_of([1.0] * 24, ["s3"])), ComparedRun.counting(run_of([1.0] * 24, []))
    assert "s3" not in held.scores.samples
    assert "s3" in free.scores.samples
    assert free.apart == {}
    assert set(held.apart) == {"quarantine"}
