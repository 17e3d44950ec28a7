"""The judge `fitted:FILE`: the offline judge, corrected by a logistic model that was
fitted to a team's own labels.

The file is written by `ragstone calibrate --fit`. It is data, never code: weights of
named features, and how well they predict labels.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import ConfigError, disk_errors, parse_errors
from ragstone.files import read_regular
from ragstone.judge.judgements import (
    Statements,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.offline.model import logistic
from ragstone.judge.protocol import Call, Contexts

MAX_BYTES = 1_000_000

_WORD = re.compile(r"\w+")
_BISECTION_STEPS = 50
_MAX_SHIFT = 50.0
"""The limit of a shift of log-odds, which are in [-6, 6]."""
_MAX_LOG_ODDS = 6.0
_Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)]

Features = Mapping[str, float]
"""The values of features by their names."""
FEATURES = (
    "mean_chance",
    "all_supported",
    "least",
    "contradicted",
    "statements",
    "words",
    "words_held",
    "pairs_held",
    "contexts",
)
"""The features of a model, which are log-odds, shares, or logarithms of counts."""


def log_odds(probability: float) -> float:
    """The log-odds of `probability`, in [-6, 6]."""
    inside = min(max(probability, 1e-9), 1 - 1e-9)
    odds = inside / (1 - inside)
    return max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, math.log(odds)))


class _Part(BaseModel):
    """A part of the file."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class PredictionQuality(_Part):
    """How well probabilities predict labels."""

    brier: _Number
    """The mean squared error of the probabilities."""
    auroc: _Number
    low: _Number | None
    """The lower end of the 95 % interval of `auroc`; None if it is not defined."""
    high: _Number | None
    """The upper end of the 95 % interval of `auroc`; None if it is not defined."""


class FittedModel(_Part):
    """A logistic model: p = 1 ÷ (1 + exp(-(bias + Σ weight · feature))) is the
    probability that people pass the answer."""

    bias: _Number
    weights: dict[Annotated[str, Field(max_length=40)], _Number] = Field(
        min_length=1, max_length=40
    )
    """The weights of features, by their names."""
    labels: int = Field(ge=1)
    """The number of labels that the model was fitted to."""
    passes: int = Field(ge=0)
    """How many of these labels pass the answer."""
    groups: int = Field(ge=1)
    """The number of groups that the labelled samples are from."""
    cross_validated: PredictionQuality
    """How well the model predicts labels that it was not fitted to."""
    offline: PredictionQuality
    """How well the offline judge alone predicts them."""

    def probability(self, features: Features) -> float:
        """The probability for `features`, which must have all names of `weights`."""
        terms = [weight * features[name] for name, weight in self.weights.items()]
        return logistic(self.bias + sum(terms))


class FittedFile(_Part):
    """The content of the file."""

    schema_version: Literal[1] = 1
    kind: Literal["ragstone fitted judge"] = "ragstone fitted judge"
    offline: Annotated[str, Field(max_length=40)]
    """The version of the offline judge that the model corrects."""
    faithfulness: FittedModel


def read_fitted(
    path: Path, *, within: Path | None = None, digests: Sequence[str] = ()
) -> tuple[FittedFile, str]:
    """The content of `path`, and its SHA-256 (hex).

    Raises ConfigError if it can't be read, or if there are `digests` and its SHA-256 is
    none of them.
    """
    hint = "Create it with: ragstone calibrate LABELS --run RUN --fit FILE"
    with (
        disk_errors(path, "the judge can't be read", hint=hint),
        parse_errors(path, "not a fitted judge", hint=hint),
    ):
        text = read_regular(path, within=within, limit=MAX_BYTES)
        fitted = FittedFile.model_validate_json(text)
    digest = hashlib.sha256(text).hexdigest()
    allowed_digests = {allowed.removeprefix("sha256:") for allowed in digests}
    if allowed_digests and digest not in allowed_digests:
        raise ConfigError(
            f"the fitted judge has the digest sha256:{digest}, which is not in judge.model_digests.",
            where=str(path),
            hint="Check where the file comes from; if it is the right one, add its digest.",
        )
    return fitted, digest


def features_of(
    table: SupportTable, statements: Statements, contexts: Contexts
) -> dict[str, float]:
    """The features of an answer, in the order of FEATURES, from the offline judge's
    support `table` and from the texts.

    The first is the log-odds of the offline judge's own mean probability.
    """
    probabilities = [support.chance for support in table.supports]
    least = min(probabilities)
    all_supported = table.all_supported
    if all_supported is None:
        all_supported = least
    contradicted = [
        support.verdict is Verdict.CONTRADICTED for support in table.supports
    ]
    answer_words = _words(" ".join(item.text for item in statements))
    context_words = _words(" ".join(item.text for item in contexts))
    words = set(answer_words)
    pairs = set(pairwise(answer_words))
    words_held = words.intersection(context_words)
    pairs_held = pairs.intersection(pairwise(context_words))
    return {
        "mean_chance": log_odds(fmean(probabilities)),
        "all_supported": log_odds(all_supported),
        "least": log_odds(least),
        "contradicted": sum(contradicted) / len(probabilities),
        "statements": math.log(len(probabilities)),
        "words": math.log1p(len(answer_words)),
        "words_held": len(words_held) / max(1, len(words)),
        "pairs_held": len(pairs_held) / max(1, len(pairs)),
        "contexts": math.log1p(len(contexts)),
    }


class FittedJudge:
    """Judges support by the fitted model, and everything else by the offline judge.

    The log-odds of all statements are shifted alike, until the mean of their
    probabilities is the model's probability for the answer.
    """

    concurrency = 4

    def __init__(self, name: str, fitted: FittedFile, digest: str) -> None:
        offline = OfflineJudge()
        if fitted.offline != offline.identity.version:
            raise ConfigError(
                f"this judge was fitted to the offline judge {fitted.offline}, but this version of Ragstone has "
                f"{offline.identity.version}.",
                where=name,
                hint="Fit it again: ragstone calibrate LABELS --run RUN --fit FILE",
            )
        if {*fitted.faithfulness.weights} != {*FEATURES}:
            raise ConfigError(
                "this judge has weights of features that this version of Ragstone does not use, or lacks some.",
                where=name,
                hint="Fit it again: ragstone calibrate LABELS --run RUN --fit FILE",
            )
        self.name = name
        self.file = fitted
        self.digest = digest
        self.offline = offline
        self._model = fitted.faithfulness
        parameters = (*offline.identity.parameters, ("sha256", digest))
        self.identity = replace(
            offline.identity, provider="fitted", model=name, parameters=parameters
        )
        self.statements = offline.statements
        self.reverse_questions = offline.reverse_questions
        self.relevancy = offline.relevancy
        self.context_use = offline.context_use
        self.reference_match = offline.reference_match
        self.context_relevance = offline.context_relevance
        self.close = offline.close

    async def support(
        self,
        contexts: Contexts,
        statements: Statements,
        *,
        call: Call,
    ) -> SupportTable:
        """The support of each statement, with probabilities whose mean is the model's
        for the answer."""
        table = await self.offline.support(contexts, statements, call=call)
        probability = self._model.probability(features_of(table, statements, contexts))
        shift = _shift_to_mean(
            [log_odds(support.chance) for support in table.supports], probability
        )
        texts = {item.id: item.text for item in statements}
        supports = []
        for offline_support in table.supports:
            shifted_probability = logistic(log_odds(offline_support.chance) + shift)
            support = replace(offline_support, probability=shifted_probability)
            if shifted_probability >= 0.5:
                supported_by = offline_support.supported_by
                if not supported_by:
                    text = texts[support.statement_id]
                    supported_by = (_most_similar_context(text, contexts),)
                support = replace(
                    support, verdict=Verdict.SUPPORTED, supported_by=supported_by
                )
            elif support.verdict is Verdict.SUPPORTED:
                support = replace(support, verdict=Verdict.UNSUPPORTED, supported_by=())
            supports.append(support)
        return SupportTable(tuple(supports), all_supported=probability)


def _shift_to_mean(log_odds_values: Sequence[float], mean: float) -> float:
    """The shift of all log-odds by which the mean of their probabilities becomes
    `mean`, found by bisection."""
    low = -_MAX_SHIFT
    high = _MAX_SHIFT
    for _ in range(_BISECTION_STEPS):
        shift = (low + high) / 2
        if fmean(logistic(value + shift) for value in log_odds_values) < mean:
            low = shift
        else:
            high = shift
    return (low + high) / 2


def _most_similar_context(statement: str, contexts: Contexts) -> str:
    """The id of the context that shares most words with a statement; of equal ones the
    first."""
    words = set(_words(statement))
    words_of_contexts = [set(_words(context.text)) for context in contexts]
    shared = [len(words & context_words) for context_words in words_of_contexts]
    return context_id(shared.index(max(shared)))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
