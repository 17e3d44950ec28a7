"""A plain callable as a system, for notebooks and tests: ``ragstone.evaluate(...,
system=my_function)``.

It is not isolated: it shares Ragstone's process, and a hanging call keeps its thread.
Use an entrypoint string if that matters.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from time import perf_counter
from typing import Any

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.payload import failed, read
from ragstone.system.response import (
    RETRIEVAL,
    Response,
    System,
    SystemFailureKind,
    beside_question,
)
from ragstone.system.worker.adapters import (
    SESSION,
    Asker,
    EntrypointError,
    adapt,
    create,
    is_built,
)
from ragstone.system.worker.fields import BadReturn, Fields
from ragstone.system.worker.wording import formatted, summary


class CallableSystem:
    """A function, class, factory, or object with answer/query/invoke/__call__, called
    in this process.

    Async calls are awaited in the running loop; others run in threads, as many at a
    time as `settings` say. A call that takes longer than their timeout is abandoned
    (its thread ends when the call ends). `entrypoint` is the name in the manifest.
    """

    can_be_asked_again = True

    def __init__(
        self,
        callable_: Callable[..., Any] | object,
        settings: SystemSettings | None = None,
        *,
        entrypoint: str | None = None,
    ) -> None:
        settings = settings or SystemSettings()
        self.entrypoint = entrypoint or _name_of(callable_)
        self.concurrency = settings.concurrency
        self._target = callable_
        self._timeout_s = settings.timeout_s
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._asker: Asker | None = None
        self._part = settings.part
        self._fields = Fields(contexts_only=settings.part == RETRIEVAL)
        self.accepts: frozenset[str] | None = None

    async def start(self) -> None:
        """Call the class or factory, if it is one. Raises SystemUnderTestError."""
        try:
            self._asker = await self._built()
        except EntrypointError as error:
            raise SystemUnderTestError(str(error), where=self.entrypoint) from None
        except Exception as error:
            message = f"{summary(error)}\n\n{formatted(error)}"
            raise SystemUnderTestError(message, where=self.entrypoint) from error
        sessions = {SESSION} if is_built(self._target) else set()
        self.accepts = frozenset(self._asker.accepts | sessions)

    async def _built(self) -> Asker:
        """An asker of the callable. Raises EntrypointError, and whatever a class or
        factory raises."""
        target = self._target
        if is_built(target):
            target = create(target)
        if inspect.isawaitable(target):
            target = await target
        return adapt(target, self._part)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        """A session with an object of its own, if this is a class or a factory."""
        session = copy(self)
        if is_built(self._target):
            session._asker = None
        yield session

    async def ask(self, sample: Sample) -> Response:
        async with self._slots:
            deadline = asyncio.timeout(self._timeout_s)
            try:
                if self._asker is None:
                    self._asker = await self._built()
                async with deadline:
                    return await self._response(self._asker, sample)
            except BadReturn as error:
                kind = SystemFailureKind.BAD_RETURN
                return failed(sample.id, kind, str(error), error.detail)
            except Exception as error:
                if deadline.expired():
                    message = f"No answer within {self._timeout_s:g} s."
                    return failed(sample.id, SystemFailureKind.TIMEOUT, message)
                detail = formatted(error)
                kind = SystemFailureKind.RAISED
                return failed(sample.id, kind, summary(error), detail)

    async def close(self) -> None:
        """Nothing to close."""

    async def _response(self, asker: Asker, sample: Sample) -> Response:
        """The response to `sample`. Raises BadReturn, TimeoutError and whatever the
        callable raises."""
        beside: dict[str, Any] = beside_question(sample, self._part)
        started = perf_counter()
        value = await in_thread(partial(asker.begin, sample.question, **beside))
        if inspect.isawaitable(value):
            value = await value
        latency_s = perf_counter() - started
        # What is returned may run code of the user's too, and block.
        reading = partial(read, sample.id, value, latency_s, self._fields)
        response: Response = await in_thread(reading)
        return response


async def in_thread(call: Callable[[], Any]) -> Any:
    """The value of `call`. Runs in a daemon thread, so that a hanging call can't block
    exit."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except (StopIteration, SystemExit, KeyboardInterrupt) as error:
            # What a future of asyncio can't hold.
            future.set_exception(RuntimeError(summary(error)))
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="ragstone-callable").start()
    return await asyncio.wrap_future(future)


def _name_of(target: object) -> str:
    module = getattr(target, "__module__", None) or type(target).__module__
    return f"callable:{module}.{getattr(target, '__qualname__', None) or type(target).__qualname__}"
