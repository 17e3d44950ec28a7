"""The warning about answers that ignore the first context, and the counts behind its picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragstone.evaluation.scores import RunScores, SampleFacts, SystemFacts
from ragstone.gate.alignment import RankUse, alignment_findings, contexts_used
from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import policy_from_mapping
from ragstone.metrics.alignment import UsedContexts
from tests.gate.conftest import build_run

THREE = (0, 1, 2)


def run_of(used: Sequence[tuple[int, ...]], *, groups: Sequence[str] | None = None) -> RunScores:
    """One sample for each entry, with three contexts, of which the answer draws on the ranks (from 0) in the entry."""
    found = build_run({"faithfulness": [1.0] * len(used)})
    contexts = {f"s{at}": UsedContexts(THREE, one) for at, one in enumerate(used)}
    samples = {name: SampleFacts(group=groups[at] if groups else None) for at, name in enumerate(contexts)}
    return replace(found, samples=samples, system=SystemFacts(used_contexts=contexts))


def warned(run: RunScores, **tables: Any) -> list[str]:
    return [finding.text for finding in alignment_findings(Evidence.of(run, None, policy_from_mapping(tables)))]


def test_a_share_that_is_shown_to_be_above_the_limit_is_a_warning() -> None:
    (found,) = warned(run_of([(1,)] * 30 + [(0, 2)] * 20))
    assert found.startswith("60 % of 50 answers ignore the first context (95 % interval 45.2 % to 73.6 %; ")
    assert "30 draw on lower ranks only, 0 on no context. Look at chunk size, embedding model and reranker" in found


def test_a_share_above_the_limit_that_is_not_shown_to_be_is_none() -> None:
    assert warned(run_of([(1,)] * 4 + [(0,)] * 6)) == []  # 40 %, but of ten answers
    assert warned(run_of([(1,)] * 150 + [(0,)] * 350)) == []  # 30 %


def test_related_samples_count_as_one() -> None:
    used = [(1,)] * 30 + [(0,)] * 20
    assert warned(run_of(used, groups=["a"] * 15 + ["b"] * 15 + ["c"] * 20)) == []


def test_answers_that_rest_on_no_context_point_elsewhere() -> None:
    (found,) = warned(run_of([()] * 30 + [(1,)] * 10 + [(0,)] * 10))
    assert "10 draw on lower ranks only, 30 on no context. Most of these rest on nothing that was retrieved" in found
    assert "reranker" not in found


def test_a_floor_of_the_policy_takes_its_place() -> None:
    run = run_of([(1,)] * 50)
    assert warned(run)
    assert warned(run, metrics={"top_context_used": {"min": 0.5}}) == []
    assert warned(run, metrics={"top_context_used": {"max_drop": 0.1}})


def test_answers_to_unanswerable_questions_do_not_count() -> None:
    run = run_of([(1,)] * 50)
    facts = {name: replace(one, answerable=False) for name, one in run.samples.items()}
    assert warned(replace(run, samples=facts)) == []
    assert contexts_used(replace(run, samples=facts)) is None


def test_the_counts_by_rank() -> None:
    run = run_of([(0,), (0, 2), (), (1,)])
    short = {**run.system.used_contexts, "s3": UsedContexts((0, 1), (1,))}
    found = contexts_used(replace(run, system=SystemFacts(used_contexts=short)))
    assert found is not None
    assert (found.answers, found.top, found.lower, found.none) == (4, 2, 1, 1)
    assert found.ranks == (RankUse(1, False, 4, 2), RankUse(2, False, 4, 1), RankUse(3, False, 3, 1))


def test_ranks_below_the_twentieth_are_counted_together() -> None:
    run = run_of([()])
    many = {"s0": UsedContexts(tuple(range(40)), (3, 30))}
    found = contexts_used(replace(run, system=SystemFacts(used_contexts=many)))
    assert found is not None
    assert found.ranks[3] == RankUse(4, False, 1, 1)
    assert found.ranks[20:] == (RankUse(21, True, 1, 1),)
