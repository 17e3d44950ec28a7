"""Logistic models, as written to weights.json by `bench/train_offline_judge.py`."""

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
    """p = 1 ÷ (1 + exp(-(bias + Σ w·x))). Weights of shares are never negative, those
    of conflicts never positive."""

    bias: float
    weights: tuple[float, ...]
    threshold: float

    def probability(self, features: Sequence[float]) -> float:
        """The probability in (0, 1) for one row of features."""
        return logistic(
            self.bias
            + sum(
                weight * value
                for weight, value in zip(self.weights, features, strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class Weights:
    """All learned weights."""

    version: str
    models: Mapping[str, Mapping[str, Any]]

    def model(self, name: str, features: Sequence[str]) -> Logistic:
        """The model called `name` over `features`. Raises ValueError when the file and
        the code disagree."""
        model = self.models[name]
        if set(model["weights"]) != set(features):
            raise ValueError(
                f"weights.json and the code disagree on the weights of '{name}'"
            )
        weights = tuple(float(model["weights"][feature]) for feature in features)
        return Logistic(float(model["bias"]), weights, float(model["threshold"]))


@cache
def load_weights() -> Weights:
    """The weights shipped with this package."""
    document = load_data("weights.json")
    version = str(document.pop("version"))
    return Weights(version, document)
