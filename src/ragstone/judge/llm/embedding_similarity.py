"""Similarity by a provider's embeddings, batched across samples."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstone.judge.llm.prices import Budget, Tariff
from ragstone.judge.llm.provider import EmbedReply, Rejected, Usage, settle
from ragstone.judge.llm.scheduler import Scheduler
from ragstone.judge.llm.windows import tokens_at_most
from ragstone.judge.protocol import DRAIN_S, Call, JudgementFailed, Ledger
from ragstone.judge.similarity import cosines
from ragstone.judge.untrusted_text import cleaned

if TYPE_CHECKING:
    import numpy as np

    from ragstone.judge.llm.openai import OpenAIEmbedder

_BATCH_TEXTS = 256
_BATCH_TOKENS = 100_000
_WAIT_S = 0.02


@dataclass(slots=True)
class _Waiting:
    texts: tuple[str, ...]
    call: Call
    done: asyncio.Future[np.ndarray]


@dataclass(eq=False, kw_only=True)
class EmbeddingSimilarity:
    """Cosine of embeddings. Texts of all samples that arrive within 20 ms share a
    request, up to 256 of them.

    `embedder` is called on the first request: a run that finds everything in the cache
    never loads an SDK. A request's tokens and cost are divided among the samples by
    text length; the request itself is counted as a call of the sample that came first.
    """

    embedder: Callable[[], OpenAIEmbedder]
    label: str
    scheduler: Scheduler
    budget: Budget
    tariff: Tariff | None
    _made: OpenAIEmbedder | None = field(default=None, init=False)
    _waiting: list[_Waiting] = field(default_factory=list, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def similarities(
        self, question: str, compared_texts: Sequence[str], *, call: Call
    ) -> tuple[float, ...]:
        loop = asyncio.get_running_loop()
        texts = tuple(
            cleaned(text).strip() or "?" for text in (question, *compared_texts)
        )
        waiting = _Waiting(texts, call, loop.create_future())
        self._waiting.append(waiting)
        sizes = [
            tokens_at_most(text) for entry in self._waiting for text in entry.texts
        ]
        if len(sizes) >= _BATCH_TEXTS - 16 or sum(sizes) >= _BATCH_TOKENS:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(_WAIT_S, self._flush)
        return cosines(await waiting.done)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.get_running_loop().create_task(self._embed(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _embed(self, batch: list[_Waiting]) -> None:
        import numpy as np

        texts = [text for waiting in batch for text in waiting.texts]
        try:
            reply = await self._request(texts, batch)
            vectors = np.asarray(reply.vectors, dtype=np.float64)
        except (ValueError, Rejected) as error:
            reason = (
                error.reason
                if isinstance(error, Rejected)
                else "the embeddings have different lengths"
            )
            for waiting in batch:
                settle(waiting.done, JudgementFailed(reason))
            return
        except asyncio.CancelledError:
            for waiting in batch:
                waiting.done.cancel()
            raise
        except Exception as error:
            for waiting in batch:
                settle(waiting.done, error)
            return
        at = 0
        for waiting in batch:
            settle(waiting.done, vectors[at : at + len(waiting.texts)])
            at += len(waiting.texts)

    async def _request(
        self, texts: Sequence[str], batch: Sequence[_Waiting]
    ) -> EmbedReply:
        expected = sum(tokens_at_most(text) for text in texts)
        price = self.tariff.input / 1_000_000 if self.tariff else 0.0
        embedder = self._made = self._made or self.embedder()

        async def attempt() -> EmbedReply:
            reply = await embedder.embed(texts)
            self._charge(reply, batch)
            return reply

        reserved = await self.budget.reserve(expected * price)
        try:
            return await self.scheduler.run(attempt)
        finally:
            self.budget.settle(reserved)

    def _charge(self, reply: EmbedReply, batch: Sequence[_Waiting]) -> None:
        sizes = [sum(len(text) for text in waiting.texts) for waiting in batch]
        whole = max(1, sum(sizes))
        uncharged = reply.input_tokens
        for at, (waiting, size) in enumerate(zip(batch, sizes, strict=True)):
            tokens = (
                uncharged
                if at == len(batch) - 1
                else min(uncharged, round(reply.input_tokens * size / whole))
            )
            uncharged -= tokens
            cost = (
                None
                if self.tariff is None
                else self.tariff.cost_usd(Usage(input_tokens=tokens))
            )
            paid = Ledger(calls=int(at == 0), input_tokens=tokens, cost_usd=cost)
            waiting.call.ledger.add(paid)
            self.budget.book(paid)

    async def close(self) -> None:
        """Drop the waiting texts, wait for what was sent, and close the embedder."""
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._waiting:
            waiting.done.cancel()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=DRAIN_S)
        finally:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._made is not None:
                await self._made.close()
