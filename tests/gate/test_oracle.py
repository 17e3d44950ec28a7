"""What is missing from the best score, divided into retrieval and generation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ragstone.evaluation.round_facts import OracleFacts
from ragstone.evaluation.scores import NO_RUN, MetricScores, RunScores, SampleFacts, SystemFacts
from ragstone.gate.oracle import oracle_shares
from ragstone.gate.verdict import MetricShares, OracleShares
from ragstone.report.filters import oracle_lines

Scores = Mapping[str, float]


def run(scores: Scores, *, groups: Mapping[str, str] | None = None, answer: str = "a") -> RunScores:
    facts = {name: SampleFacts(name, group=(groups or {}).get(name)) for name in scores}
    system = SystemFacts(answers=dict.fromkeys(scores, (answer,)))
    return RunScores("run", {"answer_correctness": MetricScores(dict(scores))}, facts, system)


def shares(normal: Scores, oracle: Scores, groups: Mapping[str, str] | None = None) -> MetricShares:
    fact = OracleFacts(asked=len(oracle), without=len(normal) - len(oracle), unanswered=0)
    (found,) = oracle_shares(run(normal, groups=groups), run(oracle), fact).metrics
    return found


TWELVE_LOST = {f"s{i}": float(12 <= i < 94) for i in range(100)}


@pytest.mark.parametrize(
    ("normal", "oracle", "n", "parts", "says"),
    [
        ({"a": 0.5, "b": 1.0, "c": 0.3, "x": 0.0}, {"a": 1.0, "b": 1.0, "c": 0.6}, 3, (0.4, 0.8 / 3, 0.4 / 3), ""),
        ({"a": 1.0}, {"b": 1.0}, 0, (0.0, 0.0, 0.0), "no sample has a score"),
        ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0}, 2, (0.0, 0.0, 0.0), "nothing is missing from 1.0"),
        (
            {"a": 0.9, "b": 0.9, "c": 0.9},
            {"a": 0.5, "b": 0.6, "c": 0.7},
            3,
            (0.1, -0.3, 0.4),
            "0.10 is missing from 1.0, and 0.40 with them, so none of it is retrieval (change −0.30, 95 %",
        ),
        (
            TWELVE_LOST,
            {name: float(int(name[1:]) < 94) for name in TWELVE_LOST},
            100,
            (0.18, 0.12, 0.06),
            "Answer correctness: 0.12 of the 0.18 missing from 1.0 is retrieval (95 % interval ",
        ),
    ],
)
def test_the_two_halves_add_up_on_the_samples_of_both(
    normal: Scores, oracle: Scores, n: int, parts: tuple[float, float, float], says: str
) -> None:
    found = shares(normal, oracle)
    assert found.n == n
    assert (found.missing, found.retrieval, found.generation) == pytest.approx(parts)
    intervals = (found.retrieval_interval, found.generation_interval)
    for value, interval in zip(parts[1:], intervals, strict=True):
        assert (interval is None) is (n == 0)
        assert interval is None or interval.low - 1e-9 <= value <= interval.high + 1e-9
    (line,) = oracle_lines(OracleShares((found,), n, n, 0, 0, 0, 0, 0))
    assert says in line


def test_what_qualifies_the_shares_is_said() -> None:
    said = oracle_lines(OracleShares((), 9, 6, 1, 2, 1, 3, 0, "the judge's budget is used up."))
    facts = ("7 of 9 samples", "3 of 6 answers", "2 samples without reference contexts", "failed on 1 sample")
    assert [fact in line for line, fact in zip(said, facts, strict=True)] == [True] * 4
    assert "budget" in said[0]
    assert "1 sample that the system had not answered" in said[2]
    assert "All 6 answers" in oracle_lines(OracleShares((), 6, 6, 0, 0, 0, 0, 6))[0]


def test_what_is_counted() -> None:
    fact = OracleFacts(asked=2, without=0, unanswered=0, incomplete="it died")
    one, other = run({"a": 1.0, "b": 0.0}), run({"a": 1.0, "b": 0.0}, answer="b")
    assert (oracle_shares(one, one, fact).same, oracle_shares(one, other, fact).same) == (2, 0)
    failing = RunScores("run", {}, other.samples, SystemFacts(failures={"a": "slow"}))
    found = oracle_shares(one, failing, fact)
    assert (found.metrics, found.answered, found.failed) == ((), 1, 1)
    alone = oracle_shares(one, NO_RUN, fact)
    assert (alone.metrics, alone.answered, alone.incomplete) == ((), 0, "it died")


def test_groups_widen_the_intervals_of_faults_that_come_together() -> None:
    normal = {f"s{i}": 0.1 if i < 40 else 0.9 for i in range(100)}
    groups = {name: f"g{name[1:-1]}" for name in normal}
    alone, together = (shares(normal, dict.fromkeys(normal, 0.9), each) for each in (None, groups))
    assert alone.retrieval == together.retrieval
    assert alone.retrieval_interval is not None
    assert together.retrieval_interval is not None
    assert together.retrieval_interval.low < alone.retrieval_interval.low
