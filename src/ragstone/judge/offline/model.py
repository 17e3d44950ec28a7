"""Logistic models with non-negative weights, as written to weights.json by `bench/train_offline_judge.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ragstone.judge.offline.lexicon import load_data


def logistic(z: float) -> float:
    """1 ÷ (1 + exp(-z)), in (0, 1) for any finite z."""
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, z))))


def log_odds(chance: float) -> float:
    """The log-odds of `chance`, at most 6 either way."""
    inside = min(max(chance, 1e-9), 1 - 1e-9)
    return max(-6.0, min(6.0, math.log(inside / (1 - inside))))


@dataclass(frozen=True, slots=True)
class Logistic:
    """p = 1 ÷ (1 + exp(-(bias + Σ w·x))), w ≥ 0: a higher feature never lowers the probability."""

    bias: float
    weights: tuple[float, ...]
    threshold: float

    def probability(self, features: Sequence[float]) -> float:
        """The probability in (0, 1) for one row of features."""
        return logistic(self.bias + sum(weight * value for weight, value in zip(self.weights, features, strict=True)))


@dataclass(frozen=True, slots=True)
class Weights:
    """All learned weights. `everyday` maps common words to their weight below 1."""

    version: str
    models: Mapping[str, Mapping[str, Any]]
    everyday: Mapping[str, float]

    def model(self, name: str, features: Sequence[str]) -> Logistic:
        """The model called `name` over `features`. Raises ValueError when the file and the code disagree."""
        weights = self._ordered(name, "weights", features)
        return Logistic(float(self.models[name]["bias"]), weights, float(self.models[name]["threshold"]))

    def factors(self, name: str, kinds: Sequence[str]) -> tuple[float, ...]:
        """The factor in [0, 1] by which each of `kinds` multiplies a probability of the model called `name`.

        Raises ValueError when the file and the code disagree.
        """
        return self._ordered(name, "doubts", kinds)

    def _ordered(self, name: str, what: str, wanted: Sequence[str]) -> tuple[float, ...]:
        found = self.models[name][what]
        if set(found) != set(wanted):
            raise ValueError(f"weights.json and the code disagree on the {what} of '{name}'")
        return tuple(float(found[one]) for one in wanted)


@cache
def load_weights() -> Weights:
    """The weights shipped with this package."""
    document = load_data("weights.json")
    everyday = document.pop("everyday")
    version = str(document.pop("version"))
    return Weights(version, document, everyday)
