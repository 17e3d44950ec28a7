"""The judge `local:FOLDER`: an entailment model on the user's machine, combined with the lexical evidence or alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from ragstone.config.settings import LocalJudgeSettings, LocalWeights
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    Statement,
    Support,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.judge.local.checker import Checker, CheckerStopped, PairRating
from ragstone.judge.offline.judge import OfflineJudge
from ragstone.judge.offline.model import log_odds, logistic
from ragstone.judge.offline.support import base_odds, even_odds
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.system.response import Context

SUPPORTED_FROM = 0.5


@dataclass(frozen=True, slots=True)
class Combination:
    """The weights that combine model and words, for a statement, for a whole answer, and for a context's usefulness."""

    version: str
    statement: LocalWeights
    whole: LocalWeights
    use: LocalWeights


@cache
def shipped_weights() -> Combination:
    """The weights in weights.json, written by `bench/local_judge.py --fit`."""
    document = json.loads(files(__package__).joinpath("weights.json").read_text(encoding="utf-8"))
    parts = {name: LocalWeights.model_validate(document[name]) for name in ("statement", "whole", "use")}
    return Combination(str(document["version"]), **parts)


def combined(weights: LocalWeights, words: float, model: float) -> float:
    """The combined probability: a logistic function of the weighted sum of both log-odds."""
    return logistic(weights.bias + weights.words * log_odds(words) + weights.model * log_odds(model))


@dataclass(frozen=True, slots=True)
class _Rated:
    """The model's ratings of one statement: by context, and the best (in one context, or in all of them joined)."""

    by_context: tuple[PairRating, ...]
    best: float

    @property
    def contradicted(self) -> bool:
        return max(one.contradicted for one in self.by_context) >= SUPPORTED_FROM


class LocalJudge:
    """Faithfulness, context recall and context precision by a local model; the rest by the offline judge.

    The model rates how well each context supports each statement. Unless it judges alone, its ratings are combined with
    the lexical ones. Statements, abstention, relevancy and reference match are left to `offline`. One thread calls the
    model, which uses its own threads.
    """

    concurrency = 4

    def __init__(self, checker: Checker, offline: OfflineJudge, settings: LocalJudgeSettings) -> None:
        self._checker = checker
        self._offline = offline
        self._alone = settings.alone
        shipped = shipped_weights()
        own = settings.weights
        self._weights = shipped if own is None else Combination("own", own, own, own)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-judge")
        self.rarity = offline.rarity
        self.identity = replace(
            offline.identity, provider="local", model=checker.name, parameters=self._parameters(settings)
        )
        self.statements = offline.statements
        self.reverse_questions = offline.reverse_questions
        self.relevancy = offline.relevancy
        self.answer_similarity = offline.answer_similarity
        self.reference_match = offline.reference_match
        self.context_relevance = offline.context_relevance

    def _parameters(self, settings: LocalJudgeSettings) -> tuple[tuple[str, str], ...]:
        own, checker = settings.weights, self._checker
        weights = f"weights {self._weights.version}"
        if own is not None:
            weights = f"bias {own.bias:g} words {own.words:g} model {own.model:g}"
        how = {
            "sha256": checker.digest,
            "labels": " ".join(checker.labels),
            "max_tokens": str(checker.max_tokens),
            "combined": "alone" if self._alone else weights,
            "template": settings.template,
            "device": None if checker.device == "cpu" else checker.device,
        }
        return tuple(sorted((name, value) for name, value in how.items() if value is not None))

    async def close(self) -> None:
        self._checker.stop()
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        await self._offline.close()

    async def support(
        self, contexts: Sequence[Context], statements: Sequence[Statement], *, call: Call
    ) -> SupportTable:
        words = await self._offline.support(contexts, statements, call=call)
        rated = await self._rate(contexts, statements)
        supports = self._supports(words.supports, rated)
        least = min(one.best for one in rated)
        whole = words.all_supported
        if whole is not None and not self._alone:
            least = combined(self._weights.whole, whole, least)
        return SupportTable(supports, least)

    async def context_use(
        self, question: str, reference: str | None, answer: str, contexts: Sequence[Context], *, call: Call
    ) -> ContextUse:
        words = await self._offline.context_use(question, reference, answer, contexts, call=call)
        statements = words.reference_statements
        if not words.against_reference:
            try:
                statements = (await self._offline.statements(question, answer, call=call)).statements
            except JudgementFailed:
                return words
        if not statements:
            return words
        rated = await self._rate(contexts, statements)
        useful = tuple(
            self._useful(one, max(row.by_context[rank].supported for row in rated))
            for rank, one in enumerate(words.contexts)
        )
        if not words.against_reference:
            return replace(words, contexts=useful)
        return replace(words, contexts=useful, attributions=self._supports(words.attributions, rated))

    # -- the model -----------------------------------------------------------------------------------------------------

    async def _rate(self, contexts: Sequence[Context], statements: Sequence[Statement]) -> list[_Rated]:
        texts = [context.text for context in contexts]
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._thread, lambda: [self._rate_one(texts, statement.text) for statement in statements]
            )
        except CheckerStopped:
            raise asyncio.CancelledError from None

    def _rate_one(self, texts: Sequence[str], statement: str) -> _Rated:
        each = tuple(self._checker.rate(text, statement) for text in texts)
        best = max(one.supported for one in each)
        joined = "\n".join(texts)
        if len(texts) > 1 and best < SUPPORTED_FROM and self._checker.fits_one_window(joined, statement):
            best = max(best, self._checker.rate(joined, statement).supported)
        return _Rated(each, best)

    # -- with the words ------------------------------------------------------------------------------------------------

    def _supports(self, words: Sequence[Support], rated: Sequence[_Rated]) -> tuple[Support, ...]:
        return tuple(self._support(one, model) for one, model in zip(words, rated, strict=True))

    def _support(self, words: Support, model: _Rated) -> Support:
        chance = model.best
        if not self._alone:
            chance = combined(self._weights.statement, even_odds(words.chance), model.best)
        if chance >= SUPPORTED_FROM:
            return Support(words.statement_id, Verdict.SUPPORTED, self._sources(words, model), base_odds(chance))
        contradicted = model.contradicted or (not self._alone and words.verdict is Verdict.CONTRADICTED)
        verdict = Verdict.CONTRADICTED if contradicted else Verdict.UNSUPPORTED
        return Support(words.statement_id, verdict, (), base_odds(chance))

    def _sources(self, words: Support, model: _Rated) -> tuple[str, ...]:
        """The contexts in which the model or the words find the statement; at least the likeliest."""
        found = {context_id(rank) for rank, one in enumerate(model.by_context) if one.supported >= SUPPORTED_FROM}
        if not self._alone:
            found |= set(words.supported_by)
        likeliest = max(range(len(model.by_context)), key=lambda rank: model.by_context[rank].supported)
        return tuple(
            context_id(rank)
            for rank in range(len(model.by_context))
            if context_id(rank) in (found or {context_id(likeliest)})
        )

    def _useful(self, words: ContextUsefulness, best: float) -> ContextUsefulness:
        chance = best
        if not self._alone:
            said = words.probability if words.probability is not None else float(words.useful)
            chance = combined(self._weights.use, said, best)
        return ContextUsefulness(words.context_id, chance >= SUPPORTED_FROM, chance)
