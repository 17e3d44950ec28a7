"""The judge `fitted:FILE`: the offline judge, corrected by a logistic model of a team's
own labels.

The file is written by `ragstone calibrate --fit`. It is data, never code: weights of
named features, and how they were graded.
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
_STEPS = 50
_Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)]

Features = Mapping[str, float]
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


def log_odds(chance: float) -> float:
    """The log-odds of `chance`, at most 6 either way."""
    inside = min(max(chance, 1e-9), 1 - 1e-9)
    odds = inside / (1 - inside)
    return max(-6.0, min(6.0, math.log(odds)))


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class Graded(_Part):
    """The mean squared error of the probabilities (Brier), and their AUROC with its 95
    % interval; its ends are None if they are not defined.
    """

    brier: _Number
    auroc: _Number
    low: _Number | None
    high: _Number | None


class FittedModel(_Part):
    """p = 1 ÷ (1 + exp(-(bias + Σ weight · feature))): the probability that people pass
    the answer.

    `cross_validated` grades it on labels that it was not fitted to, `offline` the plain
    offline judge on the same.
    """

    bias: _Number
    weights: dict[Annotated[str, Field(max_length=40)], _Number] = Field(
        min_length=1, max_length=40
    )
    labels: int = Field(ge=1)
    passes: int = Field(ge=0)
    groups: int = Field(ge=1)
    cross_validated: Graded
    offline: Graded

    def probability(self, features: Features) -> float:
        """The probability for `features`, those of `weights`."""
        return logistic(
            self.bias
            + sum(weight * features[name] for name, weight in self.weights.items())
        )


class FittedFile(_Part):
    """The content of the file. `offline` is the version of the judge that it
    corrects."""

    schema_version: Literal[1] = 1
    kind: Literal["ragstone fitted judge"] = "ragstone fitted judge"
    offline: Annotated[str, Field(max_length=40)]
    faithfulness: FittedModel


def read_fitted(
    path: Path, *, within: Path | None = None, digests: Sequence[str] = ()
) -> tuple[FittedFile, str]:
    """The content of `path` and its SHA-256, one of `digests` if there are any. Raises
    ConfigError."""
    hint = "Create it with: ragstone calibrate LABELS --run RUN --fit FILE"
    with (
        disk_errors(path, "the judge can't be read", hint=hint),
        parse_errors(path, "not a fitted judge", hint=hint),
    ):
        text = read_regular(path, within=within, limit=MAX_BYTES)
        fitted = FittedFile.model_validate_json(text)
    digest = hashlib.sha256(text).hexdigest()
    if digests and digest not in {
        allowed.removeprefix("sha256:") for allowed in digests
    }:
        raise ConfigError(
            f"the fitted judge has the digest sha256:{digest}, which judge.model_digests does not name.",
            where=str(path),
            hint="Check where it comes from; if it is the right one, name that digest.",
        )
    return fitted, digest


def features_of(
    table: SupportTable, statements: Statements, contexts: Contexts
) -> dict[str, float]:
    """What is known of an answer's support by the contexts. The first is the offline
    judge's own opinion."""
    chances = [item.chance for item in table.supports]
    least = min(chances)
    denied = [item.verdict is Verdict.CONTRADICTED for item in table.supports]
    answer_words = _words(" ".join(item.text for item in statements))
    context_words = _words(" ".join(item.text for item in contexts))
    words, pairs = set(answer_words), set(pairwise(answer_words))
    values = (
        log_odds(fmean(chances)),
        log_odds(least if table.all_supported is None else table.all_supported),
        log_odds(least),
        sum(denied) / len(chances),
        math.log(len(chances)),
        math.log1p(len(answer_words)),
        len(words.intersection(context_words)) / max(1, len(words)),
        len(pairs.intersection(pairwise(context_words))) / max(1, len(pairs)),
        math.log1p(len(contexts)),
    )
    return dict(zip(FEATURES, values, strict=True))


class FittedJudge:
    """Support as a team's labels of faithfulness say; the rest by the offline judge.

    A statement's probability is moved with the others', in log-odds, until their mean
    is that of the answer.
    """

    concurrency = 4

    def __init__(self, name: str, fitted: FittedFile, digest: str) -> None:
        offline = OfflineJudge()
        if fitted.offline != offline.identity.version:
            raise ConfigError(
                f"was fitted to the offline judge {fitted.offline}, but this is {offline.identity.version}.",
                where=name,
                hint="Fit it again: ragstone calibrate LABELS --run RUN --fit FILE",
            )
        if {*fitted.faithfulness.weights} != {*FEATURES}:
            raise ConfigError(
                "has weights of other features than this version's.",
                where=name,
                hint="Fit it again.",
            )
        self.name, self.file, self.digest, self.offline = name, fitted, digest, offline
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
        words = await self.offline.support(contexts, statements, call=call)
        chance = self._model.probability(features_of(words, statements, contexts))
        # What moves the log-odds so that the mean of the probabilities is the answer's.
        odds = [log_odds(item.chance) for item in words.supports]
        low, high = -50.0, 50.0
        for _ in range(_STEPS):
            shift = (low + high) / 2
            below = fmean(logistic(value + shift) for value in odds) < chance
            low, high = (shift, high) if below else (low, shift)
        shift = (low + high) / 2
        texts = {item.id: item.text for item in statements}
        moved = []
        for item in words.supports:
            moved_chance = logistic(log_odds(item.chance) + shift)
            support = replace(item, probability=moved_chance)
            if moved_chance >= 0.5:
                by = item.supported_by or _nearest(texts[item.statement_id], contexts)
                support = replace(support, verdict=Verdict.SUPPORTED, supported_by=by)
            elif item.verdict is Verdict.SUPPORTED:
                support = replace(support, verdict=Verdict.UNSUPPORTED, supported_by=())
            moved.append(support)
        return SupportTable(tuple(moved), chance)


def _nearest(statement: str, contexts: Contexts) -> tuple[str]:
    """The id of the first context that shares most words with a statement."""
    words = set(_words(statement))
    words_of_contexts = [set(_words(context.text)) for context in contexts]
    shared = [len(words & context_words) for context_words in words_of_contexts]
    return (context_id(shared.index(max(shared))),)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
