"""Histories as a busy main branch writes them: merges, nightly runs, releases, a new judge, a new golden set."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from hashlib import sha1

import numpy as np
from msgspec.structs import replace

from ragstone.evaluation.manifest import AcceptedDrop
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts
from ragstone.gate.policy import policy_from_mapping
from ragstone.history.codes import compact_scores
from ragstone.history.file import History
from ragstone.history.lines import MeanPart
from ragstone.stats.intervals import mean_interval
from tests.history.seasons import HEADLINE, START, line

POLICY = policy_from_mapping(
    {"metrics": {"faithfulness": {"min": 0.8, "max_drop": 0.03}, "context_recall": {"min": 0.75}}}
)
LEVELS = (0.86, 0.90, 0.82, 0.70)
SAMPLES = 24
ACCEPTED = [AcceptedDrop(id="a1", metric="context_precision", drop=0.05)]


@cache  # intervals of hundreds of means take a while
def make_history(count: int = 40, *, groups: int = 0, runs_with_scores: int | None = None) -> History:
    """`count` runs with the headline metrics. The newest `runs_with_scores`, or all, have scores of samples.

    Three in four are merges, the fourth is the nightly run of the commit before. The judge changes after half of the
    runs, the golden set after three quarters, the system's version every ten runs; a tenth of the runs are releases.
    """
    rng = np.random.default_rng(3)
    skill = rng.normal(0.0, 0.12, (SAMPLES, len(HEADLINE)))
    lines = []
    samples_by_key = {}
    commit_count = 0
    for number in range(count):
        is_nightly = number % 4 == 3
        commit_count += not is_nightly
        drop = 0.09 if count * 0.6 < number < count * 0.7 else 0.0
        level = np.array(LEVELS) + 0.03 * np.sin(number / 9.0) - drop
        values = np.round(np.clip(level + skill + rng.normal(0, 0.05, skill.shape), 0, 1) * 4) / 4
        by_metric = dict(zip(HEADLINE, values.T, strict=True))
        judge, golden = number >= count / 2, number >= count * 0.75
        run = line(
            number,
            time=START + timedelta(hours=9 * number),
            commit=sha1(f"{commit_count}".encode(), usedforsecurity=False).hexdigest(),
            pull_request=None if is_nightly else 100 + number,
            event="schedule" if is_nightly else "push",
            release=f"v1.{number // 10}" if number % 10 == 5 else None,
            verdict="fail" if drop else "inconclusive" if number % 17 == 9 else "pass",
            eligible=not drop,
            judge=f"openai judge-{1 + judge}",
            judge_key=f"{judge:016x}",
            golden=f"{golden:064x}",
            system=f"model-{number // 10}, prompt {number // 10:04x}",
            accepted=ACCEPTED if count * 0.3 < number < count * 0.4 else [],
        )
        run = run.model_copy(update={"metrics": {name: _mean(column) for name, column in by_metric.items()}})
        if runs_with_scores is None or number >= count - runs_with_scores:
            facts = {
                f"q{index}": SampleFacts(
                    content_hash=f"{index}" if index < SAMPLES - 4 else f"{index} v{golden}",
                    group=f"g{index // groups}" if groups else None,
                )
                for index in range(SAMPLES)
            }
            scores = {
                name: MetricScores(dict(zip(facts, column.tolist(), strict=True)), version="1")
                for name, column in by_metric.items()
            }
            compacted = compact_scores(RunScores("run", scores, facts), HEADLINE)
            samples_by_key[compacted.samples.key] = compacted.samples
            run = run.model_copy(update={"samples": compacted.samples.key, "scores": dict(compacted.scores)})
        lines.append(run)
    return replace(History(), runs=tuple(lines), samples=samples_by_key)


def _mean(values: np.typing.NDArray[np.float64]) -> MeanPart:
    interval = mean_interval(values)
    return MeanPart(mean=interval.estimate, low=interval.low, high=interval.high, n=interval.n)
