"""Logistic models, with the weights in weights.json, which
`bench/train_offline_judge.py` writes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from ragstone.judge.offline.lexicon import load_data


def logistic(z: float) -> float:
    """1 ÷ (1 + exp(-z)), in (0, 1) for any finite z."""
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, z))))


class Logistic(Struct, frozen=True):
    """The model p = 1 ÷ (1 + exp(-(bias + Σ w·x))) with the weights w of the features
    x. The weights of shares are never negative, those of conflicts never positive."""

    bias: float
    weights: tuple[float, ...]
    threshold: float
    """The probability from which the verdict is yes."""

    def probability(self, features: Sequence[float]) -> float:
        """The probability in (0, 1) for one row of features."""
        z = self.bias
        for weight, value in zip(self.weights, features, strict=True):
            z += weight * value
        return logistic(z)


def load_model(name: str, features: Sequence[str]) -> Logistic:
    """The model called `name` in weights.json. Raises ValueError if its weights are not
    those of `features`."""
    model = load_data("weights.json")[name]
    if model["weights"].keys() != set(features):
        raise ValueError(
            f"the weights of '{name}' in weights.json are of other features"
        )
    weights = tuple(float(model["weights"][feature]) for feature in features)
    return Logistic(model["bias"], weights, model["threshold"])


def judge_version() -> str:
    """The version of the offline judge, which changes with its scores."""
    return str(load_data("weights.json")["version"])
