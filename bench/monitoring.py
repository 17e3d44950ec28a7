"""How often `ragstone monitor` raises a false alarm, and how soon it finds a loss: simulated years of daily windows.

    python bench/monitoring.py [--years 20]

Each day has 200 questions, of which all are judged. Its figures and scores go through the monitor's own functions, with
the default rules. A false alarm is a day with an alert, after one without, while nothing changed. A loss begins after
28 quiet days.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.policy import Policy, default_policy
from ragstone.gate.verdict import Status
from ragstone.history.lines import FigurePart, MeanPart, RunLine, WindowPart
from ragstone.tools.monitor.findings import MAX_WINDOWS, judge_window, values_before

Floats = NDArray[np.float64]
QUESTIONS = 200
YEAR = 365
START = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)

SCORES = {"faithfulness": 0.93, "answer_relevancy": 0.8, "context_relevance": 0.75}
"""Means of the metrics, each a share of three verdicts."""

SHARES = {"slow": 0.01, "errors": 0.005, "without_sources": 0.01, "without_results": 0.02, "abstentions": 0.08}
FEEDBACK, BAD_FEEDBACK = 20, 0.15
LATENCY_S, SPREAD = 1.2, 0.5
"""The median, and the standard deviation of the logarithm."""

DAYS_AFTER = 10
"""A loss that is not found in so many days counts as found then."""


@dataclass(frozen=True)
class Scenario:
    """What days differ by, beyond chance.

    All means are worse by `weekend` on Saturdays and Sundays, and by a drift with the standard deviation `drift` and
    the autocorrelation `lasting`. From the day `at` on, scores are lower by `loss`, and answers take `slower` times as
    long.
    """

    name: str
    weekend: float = 0.0
    drift: float = 0.0
    lasting: float = 0.0
    loss: float = 0.0
    slower: float = 1.0
    at: int = MAX_WINDOWS

    def days(self, rng: np.random.Generator, count: int) -> Iterator[tuple[RunLine, RunScores]]:
        drift = 0.0
        for day in range(count):
            drift = self.lasting * drift + np.sqrt(1.0 - self.lasting**2) * rng.standard_normal() * self.drift
            worse = max(0.0, drift) + (self.weekend if day % 7 >= 5 else 0.0)
            is_lost = day >= self.at
            scores = {
                name: rng.binomial(3, np.clip(mean - worse - self.loss * is_lost, 0.0, 1.0), QUESTIONS) / 3.0
                for name, mean in SCORES.items()
            }
            median = LATENCY_S * (1.0 + 2.0 * worse) * (self.slower if is_lost else 1.0)
            latencies = rng.lognormal(np.log(median), SPREAD, QUESTIONS)
            shares = {name: rng.binomial(QUESTIONS, share + worse / 10.0) for name, share in SHARES.items()}
            yield _line(day, scores, latencies, shares, int(rng.binomial(FEEDBACK, BAD_FEEDBACK + worse))), _run(scores)


def _line(day: int, scores: dict[str, Floats], latencies: Floats, shares: dict[str, int], bad_feedback: int) -> RunLine:
    figures = {"questions": FigurePart(value=QUESTIONS)}
    figures["latency_mean"] = FigurePart(value=float(latencies.mean()), n=QUESTIONS)
    figures["latency_p95"] = FigurePart(value=float(np.quantile(latencies, 0.95)), n=QUESTIONS)
    figures |= {name: FigurePart(value=hits / QUESTIONS, n=QUESTIONS) for name, hits in shares.items()}
    figures["bad_feedback"] = FigurePart(value=bad_feedback / FEEDBACK, n=FEEDBACK)
    figures |= {name: FigurePart(value=float(values.mean()), n=QUESTIONS) for name, values in scores.items()}
    means = {
        name: MeanPart(mean=float(values.mean()), low=0.0, high=1.0, n=QUESTIONS) for name, values in scores.items()
    }
    return RunLine(
        run=f"{day:016x}",
        time=START + day * DAY,
        verdict="none",
        eligible=False,
        judge="simulated",
        judge_key="0" * 16,
        golden="",
        metrics=means,
        versions=dict.fromkeys(scores, "1"),
        coverage=1.0,
        window=WindowPart(end=START + (day + 1) * DAY, figures=figures),
    )


def _run(scores: dict[str, Floats]) -> RunScores:
    ids = [f"i{number}" for number in range(QUESTIONS)]
    metrics = {
        name: MetricScores(dict(zip(ids, values.tolist(), strict=True)), version="1") for name, values in scores.items()
    }
    return RunScores("window", metrics, dict.fromkeys(ids, SampleFacts()))


def alerts(scenario: Scenario, rng: np.random.Generator, count: int, policy: Policy) -> list[bool]:
    """Whether each of `count` days has an alert."""
    past: list[RunLine] = []
    alerted = []
    for line, scores in scenario.days(rng, count):
        before = values_before(line, past[-2 * MAX_WINDOWS :], policy)
        verdict = judge_window(line, scores, before, policy)
        failed = {check.metric or "" for check in verdict.checks if check.status is Status.FAIL}
        assert line.window is not None
        past.append(line.model_copy(update={"window": line.window.model_copy(update={"alerts": tuple(failed)})}))
        alerted.append(verdict.exit_code != 0)
    return alerted


def false_alarms(scenario: Scenario, years: int, seed: int = 20261129) -> float:
    """False alarms a year, after the first 28 days."""
    rng, policy = np.random.default_rng(seed), default_policy()
    began = 0
    for _ in range(years):
        days = alerts(replace(scenario, at=10**6), rng, MAX_WINDOWS + YEAR, policy)
        began += sum(now and not before for before, now in zip([False, *days], days, strict=False))
    return began / years


def days_to_find(scenario: Scenario, times: int, seed: int = 20261129) -> NDArray[np.int64]:
    """How many days it takes until a loss is found, each time."""
    rng, policy = np.random.default_rng(seed), default_policy()
    delays = []
    for _ in range(times):
        days = alerts(scenario, rng, scenario.at + DAYS_AFTER, policy)[scenario.at :]
        delays.append(days.index(True) + 1 if True in days else DAYS_AFTER)
    return np.array(delays)


SCENARIOS = (
    Scenario("steady days"),
    Scenario("weekends 2 points worse", weekend=0.02),
    Scenario("drifting traffic: 1 point, correlation 0.7", drift=0.01, lasting=0.7),
    Scenario("weekends and drifting traffic", weekend=0.02, drift=0.01, lasting=0.7),
)
LOSSES = {"5 points": (0.05, 1.0), "10 points": (0.1, 1.0), "latency × 1.5": (0.0, 1.5), "latency × 3": (0.0, 3.0)}
"""What scores fall by, and how many times as long answers take."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=20)
    years = parser.parse_args().years
    print(f"{years} years each; found after one day / within two days, of {5 * years} losses\n")
    print("| days | false alarms a year |" + "".join(f" {name} |" for name in LOSSES))
    print("|---|--:|" + "--:|" * len(LOSSES))
    for scenario in SCENARIOS:
        cells = [f"{false_alarms(scenario, years):.2f}"]
        for loss, slower in LOSSES.values():
            delays = days_to_find(replace(scenario, loss=loss, slower=slower), 5 * years)
            cells.append(f"{np.mean(delays <= 1):.2f} / {np.mean(delays <= 2):.2f}")
        print(f"| {scenario.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
