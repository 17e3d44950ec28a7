"""How alike two questions are: embeddings, batched across samples, or words where no embedding model is at hand."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ragstone.errors import JudgeError
from ragstone.judge.budget import Budget
from ragstone.judge.llm.neutral import cleaned
from ragstone.judge.llm.provider import Broken, Embedder, EmbedReply, Rejected, Usage
from ragstone.judge.llm.windows import tokens_at_most
from ragstone.judge.prices import Tariff
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.judge.scheduler import Scheduler

if TYPE_CHECKING:
    import numpy as np

_BATCH_TEXTS = 256
_BATCH_TOKENS = 100_000
_WAIT_S = 0.02
_WORD = re.compile(r"\w+")


class Similarity(Protocol):
    """Compares one question with others."""

    @property
    def label(self) -> str:
        """What it is, for the judge's identity."""
        ...

    async def similarities(self, question: str, others: Sequence[str], *, call: Call) -> tuple[float, ...]:
        """The cosine of `question` with each of `others`, in [-1, 1]. Raises JudgementFailed."""
        ...


class LexicalSimilarity:
    """Cosine of word and letter-trigram counts, words weighed by how rare they are among the golden set's questions.

    The stated stand-in where the provider has no embeddings; values are in [0, 1] and lower than embeddings' are.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for question in questions:
            counts.update(set(_terms(question)))
            total += 1
        self._weights = {term: math.log((1 + total) / (1 + count)) + 1 for term, count in counts.items()}
        self._unknown = math.log(1 + total) + 1

    @property
    def label(self) -> str:
        return "words and trigrams 1"

    async def similarities(self, question: str, others: Sequence[str], *, call: Call) -> tuple[float, ...]:  # noqa: ARG002
        asked = self._vector(question)
        return tuple(_cosine(asked, self._vector(other)) for other in others)

    def _vector(self, text: str) -> dict[str, float]:
        return {term: n * self._weights.get(term, self._unknown) for term, n in Counter(_terms(text)).items()}


@dataclass(slots=True)
class _Waiting:
    texts: tuple[str, ...]
    call: Call
    done: asyncio.Future[np.ndarray]


class EmbeddingSimilarity:
    """Cosine of embeddings. Texts of all samples that arrive within 20 ms share a request, up to 256 of them.

    A request's tokens and cost are divided among the samples by the length of their texts; the request itself is
    counted as a call of the sample that came first.
    """

    def __init__(self, embedder: Embedder, *, scheduler: Scheduler, budget: Budget, tariff: Tariff | None) -> None:
        self._embedder = embedder
        self._scheduler = scheduler
        self._budget = budget
        self._tariff = tariff
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def label(self) -> str:
        return self._embedder.label

    async def similarities(self, question: str, others: Sequence[str], *, call: Call) -> tuple[float, ...]:
        loop = asyncio.get_running_loop()
        texts = tuple(cleaned(text).strip() or "?" for text in (question, *others))
        waiting = _Waiting(texts, call, loop.create_future())
        self._waiting.append(waiting)
        if self._full():
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(_WAIT_S, self._flush)
        return cosines(await waiting.done)

    def _full(self) -> bool:
        texts = sum(len(waiting.texts) for waiting in self._waiting)
        tokens = sum(tokens_at_most(text) for waiting in self._waiting for text in waiting.texts)
        return texts >= _BATCH_TEXTS - 16 or tokens >= _BATCH_TOKENS

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
            reason = error.reason if isinstance(error, Rejected) else "the embeddings have different lengths"
            _fail(batch, JudgementFailed(reason))
            return
        except asyncio.CancelledError:
            for waiting in batch:
                waiting.done.cancel()
            raise
        except Exception as error:
            _fail(batch, error)
            return
        at = 0
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_result(vectors[at : at + len(waiting.texts)])
            at += len(waiting.texts)

    async def _request(self, texts: Sequence[str], batch: Sequence[_Waiting]) -> EmbedReply:
        expected = sum(tokens_at_most(text) for text in texts)
        price = self._tariff.input / 1_000_000 if self._tariff else 0.0
        reserved = await self._budget.reserve(expected * price)
        spent = 0.0
        try:
            reply = await self._scheduler.run(lambda: self._embedder.embed(texts), tokens=expected)
            if len(reply.vectors) != len(texts):
                raise Broken("the reply does not hold one embedding for each text")
            spent = reply.input_tokens * price
        finally:
            self._budget.settle(reserved, spent)
        self._scheduler.heard(reply.room)
        self._scheduler.correct(expected, reply.input_tokens)
        self._book(reply, batch)
        return reply

    def _book(self, reply: EmbedReply, batch: Sequence[_Waiting]) -> None:
        sizes = [sum(len(text) for text in waiting.texts) for waiting in batch]
        whole = max(1, sum(sizes))
        left = reply.input_tokens
        for at, (waiting, size) in enumerate(zip(batch, sizes, strict=True)):
            tokens = left if at == len(batch) - 1 else min(left, round(reply.input_tokens * size / whole))
            left -= tokens
            cost = None if self._tariff is None else self._tariff.cost_usd(Usage(input_tokens=tokens))
            waiting.call.ledger.add(Ledger(calls=int(at == 0), input_tokens=tokens, cost_usd=cost))

    async def close(self) -> None:
        """Drop what is still waiting."""
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def cosines(vectors: np.ndarray) -> tuple[float, ...]:
    """The cosine of the first row with each of the others, in [-1, 1]. Raises JudgementFailed for a row of zeros."""
    # Here and not above: a run that finds all in the cache compares nothing, and starts sooner without numpy.
    import numpy as np

    norms = np.linalg.norm(vectors, axis=1)
    if not (norms > 0).all():
        raise JudgementFailed("the embedding model gave an empty vector")
    unit = vectors / norms[:, None]
    return tuple(float(value) for value in np.clip(unit[1:] @ unit[0], -1.0, 1.0))


def _fail(batch: Sequence[_Waiting], error: Exception) -> None:
    """Hand `error` to all that wait, a copy each: one error in many tasks would gather all their tracebacks."""
    for waiting in batch:
        if waiting.done.done():
            continue
        if isinstance(error, JudgementFailed):
            waiting.done.set_exception(JudgementFailed(error.reason))
        elif isinstance(error, JudgeError):
            waiting.done.set_exception(JudgeError(error.message, where=error.where, mend=error.mend))
        else:
            waiting.done.set_exception(error)


def _terms(text: str) -> list[str]:
    words = _WORD.findall(cleaned(text).casefold())
    grams = [f"#{word[at : at + 3]}" for word in (f" {word} " for word in words) for at in range(len(word) - 2)]
    return words + grams


def _cosine(one: dict[str, float], other: dict[str, float]) -> float:
    dot = sum(weight * other.get(term, 0.0) for term, weight in one.items())
    norms = math.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in other.values()))
    return min(1.0, dot / norms) if norms else 0.0
