"""What is missing from the best score, divided into retrieval and generation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from ragstone.evaluation.round_facts import OracleFacts
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.gate.oracle import oracle_shares
from ragstone.gate.verdict import MetricShares, OracleShares
from ragstone.report.filters import oracle_lines

pytestmark = pytest.mark.heavy

NAME = "answer_correctness"


def run(scores: Mapping[str, float], *, groups: Mapping[str, str] | None = None, answer: str = "a") -> RunScores:
    facts = {name: SampleFacts(name, (), (groups or {}).get(name), None, None) for name in scores}
    system = SystemFacts(answers=dict.fromkeys(scores, (answer,)))
    return RunScores("run", {NAME: MetricScores(dict(scores))}, facts, system)


def shares(
    normal: Mapping[str, float], oracle: Mapping[str, float], groups: Mapping[str, str] | None = None
) -> MetricShares:
    fact = OracleFacts(asked=len(oracle), without=len(normal) - len(oracle), unanswered=0)
    (found,) = oracle_shares(run(normal, groups=groups), run(oracle), fact).metrics
    return found


def test_the_two_halves_add_up_on_the_samples_of_both() -> None:
    normal = {"a": 0.5, "b": 1.0, "c": 0.3, "alone": 0.0}
    found = shares(normal, {"a": 1.0, "b": 1.0, "c": 0.6})
    assert found.n == 3
    assert (found.missing, found.retrieval, found.generation) == pytest.approx((0.4, 0.8 / 3, 0.4 / 3))
    assert found.missing == pytest.approx(found.retrieval + found.generation)
    for value, interval in (
        (found.missing, found.missing_interval),
        (found.retrieval, found.retrieval_interval),
        (found.generation, found.generation_interval),
    ):
        assert interval is not None
        assert interval.low <= value <= interval.high
        assert interval.confidence == 0.95


def test_a_metric_without_common_samples_has_no_shares() -> None:
    found = shares({"a": 1.0}, {"b": 1.0})
    assert (found.n, found.missing_interval) == (0, None)
    assert "no sample has a score" in oracle_lines(OracleShares((found,), 1, 1, 0, 0, 0, 0, 0))[0]


def test_answers_that_lose_by_the_reference_contexts_have_no_share_of_retrieval() -> None:
    found = shares({"a": 0.9, "b": 0.9, "c": 0.9}, {"a": 0.5, "b": 0.6, "c": 0.7})
    assert found.retrieval == pytest.approx(-0.3)
    (line,) = oracle_lines(OracleShares((found,), 3, 3, 0, 0, 0, 0, 0))
    assert "0.10 is missing from 1.0, and 0.40 with them, so none of it is retrieval (change −0.30, 95 %" in line


def test_the_sentence_of_the_shares() -> None:
    normal = {f"s{i}": 0.0 if i < 12 else 1.0 if i < 94 else 0.0 for i in range(100)}
    found = shares(normal, {name: 1.0 if int(name[1:]) < 94 else 0.0 for name in normal})
    (line,) = oracle_lines(OracleShares((found,), 100, 100, 0, 0, 0, 0, 0))
    assert line.startswith("Answer correctness: 0.12 of the 0.18 missing from 1.0 is retrieval (95 % interval ")
    assert ", 0.06 is generation (" in line
    assert line.endswith("), on 100 samples.")


def test_nothing_missing_is_said_as_such() -> None:
    found = shares({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    (line,) = oracle_lines(OracleShares((found,), 2, 2, 0, 0, 0, 0, 0))
    assert "nothing is missing from 1.0" in line
    assert "2 samples" in line


def test_what_qualifies_the_shares_is_said() -> None:
    said = oracle_lines(OracleShares((), 9, 6, 1, 2, 1, 3, 0, "the judge's budget is used up."))
    facts = ("7 of 9 samples", "3 of 6 answers", "2 samples without reference contexts", "failed on 1 sample")
    for line, fact in zip(said, facts, strict=True):
        assert fact in line
    assert "budget" in said[0]
    assert "1 sample that the system had not answered" in said[2]
    assert "All 6 answers" in oracle_lines(OracleShares((), 6, 6, 0, 0, 0, 0, 6))[0]


def test_answers_that_did_not_change_are_counted() -> None:
    fact = OracleFacts(asked=2, without=0, unanswered=0)
    one, other = run({"a": 1.0, "b": 0.0}), run({"a": 1.0, "b": 0.0}, answer="b")
    assert (oracle_shares(one, one, fact).same, oracle_shares(one, other, fact).same) == (2, 0)


def test_without_an_oracle_half_there_are_counts_alone() -> None:
    found = oracle_shares(run({"a": 1.0}), None, OracleFacts(asked=1, without=0, unanswered=0, incomplete="it died"))
    assert (found.metrics, found.answered, found.incomplete) == ((), 0, "it died")


# -- the intervals: a system whose faults are known --------------------------------------------------------------------


def faulty(
    random: np.random.Generator, n: int, retrieval: float, generation: float, size: int
) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """Scores without and with the reference contexts. Of groups of `size` samples, retrieval fails together.

    An answer is right (score between 0.8 and 1, by wording) unless retrieval or generation has failed for it; a wrong
    one has a score between 0 and 0.2. Generation fails by itself, in both halves alike.
    """
    missed = np.repeat(random.random(-(-n // size)) < retrieval, size)[:n]
    spoiled = random.random(n) < generation
    wording = 0.2 * random.random((2, n))
    normal = np.where(missed | spoiled, wording[0], 1.0 - wording[0])
    oracle = np.where(spoiled, wording[1], 1.0 - wording[1])
    names = [f"s{i}" for i in range(n)]
    groups = {name: f"g{i // size}" for i, name in enumerate(names)} if size > 1 else {}
    return dict(zip(names, normal.tolist(), strict=True)), dict(zip(names, oracle.tolist(), strict=True)), groups


HEAVY = [pytest.param(n, size, marks=pytest.mark.heavy) for n, size in ((40, 1), (200, 1), (200, 4))]


@pytest.mark.parametrize(("n", "size"), [(24, 2), *HEAVY])
@pytest.mark.parametrize(("retrieval", "generation"), [(0.3, 0.1), (0.0, 0.2), (0.15, 0.0), (0.05, 0.05)])
def test_the_intervals_hold_the_known_faults_at_the_stated_rate(
    n: int, size: int, retrieval: float, generation: float
) -> None:
    # A right answer has 0.9 on average and a wrong one 0.1, so a fault costs 0.8.
    true_generation = 0.1 + 0.8 * generation
    true_retrieval = 0.8 * retrieval * (1.0 - generation)
    random = np.random.default_rng([n, size, int(100 * retrieval), int(100 * generation)])
    runs = 200
    inside = np.zeros(3)
    for _ in range(runs):
        normal, oracle, groups = faulty(random, n, retrieval, generation, size)
        found = shares(normal, oracle, groups)
        truth = (true_retrieval + true_generation, true_retrieval, true_generation)
        intervals = (found.missing_interval, found.retrieval_interval, found.generation_interval)
        inside += [
            one is not None and one.low <= value <= one.high for value, one in zip(truth, intervals, strict=True)
        ]
    # 95 % intervals: with 200 runs, fewer than 91 % inside has a probability below 1 %.
    assert np.all(inside / runs >= 0.91), inside / runs


def test_groups_widen_the_intervals_of_faults_that_come_together() -> None:
    normal, oracle, groups = faulty(np.random.default_rng(1), 100, 0.4, 0.0, 10)
    alone, together = shares(normal, oracle), shares(normal, oracle, groups)
    assert alone.retrieval == together.retrieval
    assert alone.retrieval_interval is not None
    assert together.retrieval_interval is not None
    assert together.retrieval_interval.low < alone.retrieval_interval.low
