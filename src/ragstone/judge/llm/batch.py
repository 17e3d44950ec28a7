"""The providers' batch APIs behind the provider port: the same requests and replies, at half the price, hours later.

Calls are collected until no more arrive, sent as one batch, and answered when it has ended. A batch's id is written to
disk before waiting for it, so that a stopped run finds its batches again and pays for none of them twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstone.errors import JudgeError
from ragstone.judge.llm.provider import BatchLost, Broken, Busy, ChatReply, ChatRequest, Fault, LiveProvider, settle
from ragstone.judge.llm.scheduler import Clock

_T = TypeVar("_T")

# Long enough for a slow system to answer the next question: a batch of only a few calls is wasted.
_IDLE_S = 45.0
_POLL_S = 30.0
_MAX_REQUESTS = 10_000
_MAX_BYTES = 90_000_000
_ATTEMPTS = 6
_MAX_REFUSALS = 12
_MAX_BATCHES = 100
_MAX_STATE = 200_000_000


class OpenBatch(BaseModel):
    """A batch that was sent, as stored in batches.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[\w-]{1,128}$")
    judge: str
    requests: tuple[str, ...]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    batches: tuple[OpenBatch, ...] = ()


@dataclass(slots=True)
class _Waiting:
    request: ChatRequest
    replies: list[asyncio.Future[ChatReply]] = field(default_factory=list)

    def answer(self, result: ChatReply | Exception) -> None:
        for reply in self.replies:
            settle(reply, result)


class BatchProvider:
    """A Provider whose replies come from batches.

    A run's first call is sent live, to find out which dialect the model accepts. `judge` names provider, endpoint and
    model; batches of another judge in `state` are left alone.
    """

    def __init__(self, live: LiveProvider, *, judge: str, state: Path | None, clock: Clock) -> None:
        self._live = live
        self._judge = judge
        self._state = state
        self._clock = clock
        self._others, self._open = self._load()
        self._ended: set[str] = set()
        self._claimed: set[str] = set()
        self._collected: dict[str, _Waiting] = {}
        self._bytes = 0
        self._in_batches: dict[str, _Waiting] = {}
        self._results: dict[str, ChatReply | Exception] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._collector: asyncio.Task[None] | None = None
        self._first = asyncio.Lock()
        self._asked_live = False
        self._most = _MAX_REQUESTS
        self._sent: set[str] = set()
        self._refusals = 0

    @property
    def notes(self) -> Sequence[str]:
        return self._live.notes

    async def chat(self, request: ChatRequest) -> ChatReply:
        name = request_id(request)
        found = self._results.pop(name, None)
        if isinstance(found, Exception):
            raise found
        if found is not None:
            self._claimed.add(name)
            return found
        # The unfinished batch that contains this request may be from an earlier run.
        batch = next((one for one in self._open if one.id not in self._ended and name in one.requests), None)
        if batch is None and not self._asked_live:
            async with self._first:
                if not self._asked_live:
                    reply = await self._live.chat(request)
                    self._asked_live = True
                    return reply
        return await self._wait(name, request, batch)

    async def _wait(self, name: str, request: ChatRequest, batch: OpenBatch | None) -> ChatReply:
        place = self._in_batches if batch is not None else self._collected
        waiting = place.setdefault(name, _Waiting(request))
        reply: asyncio.Future[ChatReply] = asyncio.get_running_loop().create_future()
        waiting.replies.append(reply)
        if batch is not None:
            self._watch(batch)
        else:
            self._bytes += _size(waiting)
            self._start_collecting()
        return await reply

    async def _collect(self) -> None:
        """Wait until no new calls arrive or a batch is full, then send the batch."""
        try:
            while self._collected:
                before = len(self._collected)
                if before < self._most and self._bytes < _MAX_BYTES:
                    await self._clock.sleep(_IDLE_S)
                    if len(self._collected) != before:
                        continue
                if self._most < _MAX_REQUESTS:  # the provider bounds what waits: one batch after the other
                    await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                await self._submit()
        except Exception as error:
            self._fail(self._collected, error)

    async def _submit(self) -> None:
        names = list(self._collected)[: self._most]
        size = 0
        for at, name in enumerate(names):
            size += _size(self._collected[name])
            if size > _MAX_BYTES and at:
                names = names[:at]
                break
        taken = {name: self._collected.pop(name) for name in names}
        self._bytes = sum(map(_size, self._collected.values()))
        try:
            batch_id = await self._send({name: waiting.request for name, waiting in taken.items()})
        except Exception as error:
            self._fail(taken, error)
            return
        batch = OpenBatch(id=batch_id, judge=self._judge, requests=tuple(names))
        self._open = (*self._open, batch)
        self._sent.add(batch_id)
        self._save()
        self._in_batches |= taken
        self._watch(batch)

    async def _send(self, requests: Mapping[str, ChatRequest]) -> str:
        """Send a batch; returns its id. One whose sending only seemed to fail (a time-out) is found, not paid twice."""
        attempts = 0

        async def send() -> str:
            nonlocal attempts
            attempts += 1
            found = None
            if attempts > 1:
                with suppress(JudgeError):  # a server that lists no batches
                    found = await self._live.find(requests, {one.id for one in self._open})
            return found or await self._live.submit(requests)

        return await self._persistently(send)

    def _watch(self, batch: OpenBatch) -> None:
        task = self._tasks.get(batch.id)
        if task is None or task.done():
            self._tasks[batch.id] = asyncio.get_running_loop().create_task(self._follow(batch))

    async def _follow(self, batch: OpenBatch) -> None:
        names = set(batch.requests)
        try:
            while await self._persistently(lambda: self._live.progress(batch.id)) != "ended":
                await self._clock.sleep(_POLL_S)
            results = await self._persistently(lambda: self._live.results(batch.id))
        except BatchLost as lost:
            self._drop(batch, lost)
            return
        except Exception as error:
            self._fail({name: self._in_batches[name] for name in names if name in self._in_batches}, error)
            return
        self._ended.add(batch.id)
        for name in batch.requests:
            result = results.get(name, Broken("the batch ended without a reply to this request"))
            waiting = self._in_batches.pop(name, None)
            if waiting is not None:
                self._claimed.add(name)
                waiting.answer(result)
            elif isinstance(result, ChatReply):
                self._results[name] = result
            else:
                self._claimed.add(name)  # it is sent again when it is asked for

    def _drop(self, batch: OpenBatch, lost: BatchLost) -> None:
        """Forget `batch`, and send what waits for it again: in halves if it was too large.

        A batch of this run that was refused for another reason would be again.
        """
        self._open = tuple(one for one in self._open if one.id != batch.id)
        self._save()
        again = {name: self._in_batches.pop(name) for name in batch.requests if name in self._in_batches}
        self._refusals += batch.id in self._sent
        if lost.too_large:
            self._most = max(1, min(self._most, len(batch.requests)) // 2)
        hopeless = self._refusals > (_MAX_REFUSALS if lost.too_large else 0) or (lost.too_large and len(again) == 1)
        if batch.id in self._sent and hopeless:
            hint = "Fix the problem, or remove --batch."
            what = "was not accepted" if lost.refused else "was lost"
            error = JudgeError(f"the batch {batch.id} {what}: {lost.reason}", where="judge.batch", hint=hint)
            self._fail(again, error)
            return
        self._collected |= again
        self._bytes += sum(map(_size, again.values()))
        self._start_collecting()

    def _start_collecting(self) -> None:
        if self._collected and (self._collector is None or self._collector.done()):
            self._collector = asyncio.get_running_loop().create_task(self._collect())

    def _fail(self, waiting: dict[str, _Waiting], error: Exception) -> None:
        for name in list(waiting):
            lost = waiting[name]
            self._in_batches.pop(name, None)
            self._collected.pop(name, None)
            lost.answer(error)

    async def close(self) -> None:
        """Stop waiting. Unfinished batches, and those with replies not read yet, stay on disk."""
        tasks = [*self._tasks.values(), *([self._collector] if self._collector else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._open = tuple(
            batch for batch in self._open if batch.id not in self._ended or not self._claimed.issuperset(batch.requests)
        )
        self._save()
        await self._live.close()

    async def _persistently(self, operation: Callable[[], Awaitable[_T]]) -> _T:
        """Retry `operation` after a pause while the provider is busy or broken."""
        for attempt in range(1, _ATTEMPTS + 1):
            fault: Fault
            try:
                return await operation()
            except (Busy, Broken) as caught:
                fault = caught
            asked_s = fault.retry_after_s if isinstance(fault, Busy) else None
            await self._clock.sleep(min(300.0, asked_s or _POLL_S * attempt))
        raise JudgeError(
            f"the batch API failed {_ATTEMPTS} times: {fault.reason}",
            where="judge.batch",
            hint="Continue with --resume: submitted batches are found again.",
        )

    def _load(self) -> tuple[tuple[OpenBatch, ...], tuple[OpenBatch, ...]]:
        """Batches on disk: other judges' and this one's. An unreadable file counts as none."""
        if self._state is None or not self._state.is_file() or self._state.stat().st_size > _MAX_STATE:
            return (), ()
        try:
            found = _File.model_validate_json(self._state.read_bytes()).batches
        except (OSError, ValidationError):
            return (), ()
        return (
            tuple(batch for batch in found if batch.judge != self._judge),
            tuple(batch for batch in found if batch.judge == self._judge),
        )

    def _save(self) -> None:
        if self._state is None:
            return
        batches = (*self._others, *self._open)[-_MAX_BATCHES:]
        if not batches:
            self._state.unlink(missing_ok=True)
            return
        part = self._state.with_name(self._state.name + ".part")
        part.write_text(_File(batches=batches).model_dump_json(), encoding="utf-8")
        part.replace(self._state)


def _size(waiting: _Waiting) -> int:
    """The bytes that a request takes in a batch, about."""
    return len(waiting.request.static) + len(waiting.request.data) + 2_000


def request_id(request: ChatRequest) -> str:
    """The custom id of a request: a hash of its content, so that a resumed run uses the same id."""
    content = [request.name, request.static, request.data, request.schema]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")).hexdigest()
