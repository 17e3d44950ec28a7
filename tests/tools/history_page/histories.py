"""Histories as a busy main branch writes them: merges, nightly runs, releases, a new judge, a new golden set."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import cache

import numpy as np
from msgspec.structs import replace

from ragstone.evaluation.manifest import AcceptedDrop
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.policy import policy_from_mapping
from ragstone.history.codes import compact
from ragstone.history.file import History
from ragstone.history.lines import MeanPart, RunLine
from ragstone.stats.intervals import mean_interval
from tests.history.seasons import HEADLINE, START

POLICY = policy_from_mapping(
    {
        "metrics": {"faithfulness": {"min": 0.8, "max_drop": 0.03}, "context_recall": {"min": 0.75}},
        "slices": {"topic 1": {"metrics": {"faithfulness": {"min": 0.7}}}},
    }
)
LEVELS = (0.86, 0.90, 0.82, 0.70)


@cache  # intervals of hundreds of means take a while
def made(
    count: int = 40,
    *,
    samples: int = 24,
    slices: int = 2,
    groups: int = 0,
    kept: int | None = None,
    seed: int = 3,
    steps: int = 4,
) -> History:
    """`count` runs of `samples` samples with the headline metrics. `kept`: the newest runs that have scores of samples.

    Three in four are merges, the fourth is the nightly run of the commit before. The judge changes after half of the
    runs, the golden set after three quarters, the system's version every ten runs; a tenth of the runs are releases.
    Scores are multiples of 1/`steps`. Intervals of slices are made up, which is faster.
    """
    rng = np.random.default_rng(seed)
    skill = rng.normal(0.0, 0.12, (samples, len(HEADLINE)))
    history = History()
    lines = []
    known = {}
    commit = 0
    for number in range(count):
        nightly = number % 4 == 3
        commit += not nightly
        drop = 0.09 if count * 0.6 < number < count * 0.7 else 0.0
        swing = 0.03 * np.sin(number / 9.0) - drop
        values = (
            np.round(np.clip(np.array(LEVELS) + swing + skill + rng.normal(0, 0.05, skill.shape), 0, 1) * steps) / steps
        )
        version = 1 + (number >= count * 0.75)
        facts = {
            f"q{at}": SampleFacts(
                content_hash=f"{at}" if at < samples - 4 else f"{at} v{version}",
                group=f"g{at // groups}" if groups else None,
            )
            for at in range(samples)
        }
        scores = {
            name: MetricScores({f"q{at}": float(values[at, column]) for at in range(samples)}, version="1")
            for column, name in enumerate(HEADLINE)
        }
        parts = {name: _mean(values[:, column]) for column, name in enumerate(HEADLINE)}
        tags = {
            f"topic {tag}": {
                name: _made_up_mean(values[tag :: max(1, slices), column]) for column, name in enumerate(HEADLINE)
            }
            for tag in range(slices)
        }
        line = RunLine.model_validate(
            {
                "run": f"{number:016x}",
                "time": START + timedelta(hours=9 * number),
                "commit": hashlib.sha1(f"{commit}".encode(), usedforsecurity=False).hexdigest(),
                "pull_request": None if nightly else 100 + number,
                "github_run": 1000 + number,
                "event": "schedule" if nightly else "push",
                "release": f"v1.{number // 10}" if number % 10 == 5 else None,
                "verdict": "fail" if drop else "inconclusive" if number % 17 == 9 else "pass",
                "eligible": not drop,
                "judge": f"openai judge-{1 + (number >= count / 2)}",
                "judge_key": f"{number >= count / 2:016x}",
                "golden": hashlib.sha256(f"{version}".encode()).hexdigest(),
                "system": f"model-{number // 10}, prompt {number // 10:04x}",
                "metrics": parts,
                "versions": dict.fromkeys(HEADLINE, "1"),
                "slices": tags,
                "coverage": 1.0 - 0.01 * (number % 3),
                "latency_p50_s": 1.2 + 0.1 * np.sin(number / 5.0),
                "cost_usd": 0.11 + 0.01 * (number % 5),
                "accepted": [AcceptedDrop(id="a1", metric="context_precision", drop=0.05)]
                if count * 0.3 < number < count * 0.4
                else [],
            }
        )
        if kept is None or number >= count - kept:
            packed = compact(RunScores("run", scores, facts), HEADLINE)
            known[packed.samples.key] = packed.samples
            line = line.model_copy(update={"samples": packed.samples.key, "scores": dict(packed.scores)})
        lines.append(line)
    return replace(history, runs=tuple(lines), samples=known)


def _mean(values: np.typing.NDArray[np.float64]) -> MeanPart:
    interval = mean_interval(values)
    return MeanPart(mean=interval.estimate, low=interval.low, high=interval.high, n=interval.n)


def _made_up_mean(values: np.typing.NDArray[np.float64]) -> MeanPart:
    mean = float(values.mean())
    reach = 1.96 * float(values.std()) / len(values) ** 0.5
    return MeanPart(mean=mean, low=max(0.0, mean - reach), high=min(1.0, mean + reach), n=len(values))
