"""Families of score distributions for `gate_error_rates.py`: two runs over one golden set, four metrics each.

Every question has a difficulty for each metric, every answer draws its scores around it. The current run keeps the
baseline's answer for a question, or draws a new one. A true drop makes some of the new answers bad in all four metrics
at once. Where nothing dropped, a new answer has the distribution of the old one: nothing changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BAD = 0.4
"""A bad answer's expected score, as a share of a good one's. Fitted to the published figures of the rag family."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Expected scores of questions are Beta(a, b); `steps` > 0: a score is a fraction of so many verdicts, else smooth.

    `tightness` is the Beta concentration of a smooth score around its question's expectation.
    """

    a: float
    b: float
    steps: int = 0
    tightness: float = 20.0


_HEAPED = (Metric(6, 1, steps=2), Metric(12, 3), Metric(5, 1.2, steps=2), Metric(10, 2))


@dataclass(frozen=True, slots=True)
class Family:
    """A model of scores. `renewed` is the share of regenerated answers, `noise` the judge's standard deviation on every
    score of both runs, `group` the number of questions that share a document."""

    name: str
    words: str
    metrics: tuple[Metric, ...] = _HEAPED
    renewed: float = 0.4
    noise: float = 0.0
    group: int = 1
    _means: dict[str, Floats] = field(default_factory=dict, compare=False, repr=False)

    def groups(self, n: int) -> NDArray[np.int64] | None:
        return None if self.group == 1 else np.arange(n, dtype=np.int64) // self.group

    def draw(self, rng: np.random.Generator, runs: int, n: int, drop: float) -> tuple[Floats, Floats]:
        """Scores (runs, n, 4) of the baseline and of the current run, whose expected mean is lower by `drop`."""
        baseline, (current,), _ = self.draw_answers(rng, runs, n, drop)
        return baseline, current

    def draw_answers(
        self, rng: np.random.Generator, runs: int, n: int, drop: float, answers: int = 1
    ) -> tuple[Floats, list[Floats], NDArray[np.bool_]]:
        """The same with several answers of the current run to each question, and which questions are answered anew.

        These are answered anew each time; the others are answered as in the baseline, and the answer is judged once.
        What a drop made bad is bad each time.
        """
        skill = np.empty((runs, n, len(self.metrics)))
        for j, metric in enumerate(self.metrics):
            skill[:, :, j] = rng.beta(metric.a, metric.b, size=(runs, n))
        renewed = self._by_group(rng.random((runs, n))) < self.renewed
        bad = renewed & (rng.random((runs, n)) < self._share_bad(drop))
        baseline = self._answers(rng, skill, np.zeros_like(bad))
        current = np.where(renewed[..., None], self._answers(rng, skill, bad), baseline)
        judged, first = self._judged(rng, baseline), self._judged(rng, current)
        more = [
            np.where(renewed[..., None], self._judged(rng, self._answers(rng, skill, bad)), first)
            for _ in range(answers - 1)
        ]
        return judged, [first, *more], renewed

    def true_means(self, drop: float) -> tuple[Floats, Floats]:
        """Expected scores (4,) of the current run and of the difference, from 400,000 simulated questions."""
        key = f"{drop}"
        if key not in self._means:
            rng = np.random.Generator(np.random.PCG64(987))
            baseline, current = self.draw(rng, 2000, 200, drop)
            change = (current - baseline).mean(axis=(0, 1)) if drop else np.zeros(len(self.metrics))
            self._means[key] = np.array([current.mean(axis=(0, 1)), change])
        return self._means[key][0], self._means[key][1]

    def _share_bad(self, drop: float) -> float:
        mean = float(np.mean([metric.a / (metric.a + metric.b) for metric in self.metrics]))
        return drop / (self.renewed * mean * (1.0 - BAD))

    def _by_group(self, values: Floats) -> Floats:
        if self.group == 1:
            return values
        return np.repeat(values[:, :: self.group], self.group, axis=1)[:, : values.shape[1]]

    def _answers(self, rng: np.random.Generator, skill: Floats, bad: NDArray[np.bool_]) -> Floats:
        expected = np.where(bad[..., None], BAD * skill, skill)
        if self.group > 1:
            # What one retrieval does to all questions on a document.
            shock = self._by_group(rng.normal(0.0, 0.15, size=skill.shape[:2]))
            expected = np.clip(expected + shock[..., None], 0.01, 0.99)
        scores = np.empty_like(expected)
        for j, metric in enumerate(self.metrics):
            p = expected[:, :, j]
            if metric.steps:
                scores[:, :, j] = rng.binomial(metric.steps, p) / metric.steps
            else:
                scores[:, :, j] = rng.beta(np.maximum(p * metric.tightness, 0.01), (1 - p) * metric.tightness + 0.01)
        return scores

    def _judged(self, rng: np.random.Generator, scores: Floats) -> Floats:
        if self.noise == 0.0:
            return scores
        return np.asarray(np.clip(scores + rng.normal(0.0, self.noise, size=scores.shape), 0.0, 1.0))


_PASS_FAIL = tuple(Metric(a, b, steps=1) for a, b in ((9, 1), (8, 2), (17, 3), (7, 3)))
_NEAR_PERFECT = tuple(Metric(40, 1, steps=steps) for steps in (3, 2, 4, 3))
_LOW = (Metric(1, 3, steps=3), Metric(1, 2, steps=2), Metric(2, 4), Metric(1, 4, steps=4))
_SMOOTH = tuple(Metric(a, b) for a, b in ((8, 2), (12, 3), (6, 2), (10, 2)))

FAMILIES = (
    Family("rag", "40 % of the answers anew, two metrics heaped at 0 and 1, two smooth"),
    Family("rag, noise .05", "the same, every score judged anew with noise 0.05", noise=0.05),
    Family("rag, noise .1", "the same, every score judged anew with noise 0.1", noise=0.1),
    Family("all anew", "every answer anew", renewed=1.0),
    Family("few anew", "20 % of the answers anew", renewed=0.2),
    Family("pass/fail", "metrics of 0 and 1, 40 % anew", metrics=_PASS_FAIL),
    Family("near perfect", "means of .97, 40 % anew", metrics=_NEAR_PERFECT),
    Family("low", "means of .2 to .33, many zeros, 80 % anew", metrics=_LOW, renewed=0.8),
    Family("smooth, noise .1", "no heaps, every answer anew, noise 0.1", metrics=_SMOOTH, renewed=1.0, noise=0.1),
    Family("grouped", "five questions a document, which change together, 40 % anew", group=5),
    Family("grouped, noise .05", "the same, judged anew with noise 0.05", group=5, noise=0.05),
)

MORE_FAMILIES = (
    Family("pass/fail .7", "four metrics of 0 and 1 with means of .7", metrics=(Metric(7, 3, steps=1),) * 4),
    Family(
        "two ends",
        "questions that a system gets right or wrong as a whole, 60 % anew",
        metrics=(Metric(0.5, 0.5, steps=1), Metric(0.7, 0.3, steps=1), Metric(9, 1), Metric(4, 1)),
        renewed=0.6,
    ),
    Family(
        "wide",
        "smooth and very noisy, half of the answers anew",
        metrics=tuple(Metric(a, b, tightness=2.0) for a, b in ((3, 1), (4, 1), (2, 1), (6, 1))),
        renewed=0.5,
    ),
    Family("grouped by 10", "ten questions a document, which change together, 40 % anew", group=10),
)
"""Families that were not used to choose a method."""
