"""A plain callable as a system, for notebooks and tests: ``ragstone.evaluate(..., system=my_function)``.

It is not isolated: it shares Ragstone's process, and a hanging call keeps its thread. Use an entrypoint string if that
matters.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from ragstone.errors import SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system import worker
from ragstone.system.payload import failed, read
from ragstone.system.response import GENERATION, RETRIEVAL, Response, SystemFailureKind, turns_of


class CallableSystem:
    """A function, class, factory, or object with answer/query/invoke/__call__, called in this process.

    Async calls are awaited in the running loop; others run in threads, as many at a time as `settings` say. A call that
    takes longer than their timeout is abandoned (its thread ends when the call ends). `entrypoint` is the name in the
    manifest.
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
        self._room = asyncio.Semaphore(settings.concurrency)
        self._asker: worker.Asker | None = None
        self._part = worker.Part(settings.part, settings.takes_contexts)
        self._fields = worker.Fields(contexts_only=settings.part == RETRIEVAL)
        self.accepts: frozenset[str] | None = None

    async def start(self) -> None:
        """Call the class or factory, if it is one. Raises SystemUnderTestError."""
        pending: list[Any] = []

        def build(made: Any) -> Any:
            if inspect.isawaitable(made):
                pending.append(made)
                return lambda question: question
            return made

        try:
            asker = worker.adapt(self._target, build, self._part)
            if pending:
                asker = worker.adapt(await pending[0], lambda made: made, self._part)
        except worker.EntrypointError as error:
            raise SystemUnderTestError(str(error), where=self.entrypoint) from None
        except Exception as error:
            raise SystemUnderTestError(
                f"{worker.summary(error)}\n\n{worker.formatted(error, __file__)}", where=self.entrypoint
            ) from error
        self._asker = asker
        self.accepts = frozenset(asker.accepts)

    async def ask(self, sample: Sample) -> Response:
        asker = self._asker
        if asker is None:
            raise SystemUnderTestError("the system has not been started.", where=self.entrypoint)
        async with self._room:
            started = perf_counter()
            try:
                async with asyncio.timeout(self._timeout_s):
                    heard: list[float] = []
                    value, latency_s = await self._value(asker, sample, lambda: heard.append(perf_counter()))
                    first_text_s = heard[0] - started if heard else None
                    reads = partial(read, sample.id, value, latency_s, first_text_s, self._fields)
                    # What is returned may run code of the user's too, and block.
                    return reads() if asker.is_async else (await in_thread(reads))[0]
            except worker.BadReturn as error:
                return failed(sample.id, SystemFailureKind.BAD_RETURN, str(error), error.detail)
            except TimeoutError as error:
                if perf_counter() - started < self._timeout_s:  # raised by the callable itself
                    return self._raised(sample, error)
                return failed(sample.id, SystemFailureKind.TIMEOUT, f"No answer within {self._timeout_s:g} s.")
            except Exception as error:
                return self._raised(sample, error)

    async def close(self) -> None:
        """Nothing to close."""

    async def _value(self, asker: worker.Asker, sample: Sample, heard: Callable[[], None]) -> tuple[object, float]:
        """The returned value, and the seconds it took."""
        given = list(sample.reference_contexts) if self._part.name == GENERATION else None
        asked, fields = (sample.question, turns_of(sample), given), self._fields
        if not asker.is_async:
            value, latency_s = await in_thread(lambda: worker.finish(asker.begin(*asked), heard, fields))
        else:
            value, latency_s = asker.begin(*asked), 0.0
        if inspect.isawaitable(value):
            started = perf_counter()
            value = worker.finish(await value, heard, fields)
            if inspect.isawaitable(value):
                value = await value
            latency_s += perf_counter() - started
        return value, latency_s

    def _raised(self, sample: Sample, error: BaseException) -> Response:
        return failed(sample.id, SystemFailureKind.RAISED, worker.summary(error), worker.formatted(error, __file__))


async def in_thread(call: Callable[[], Any]) -> tuple[Any, float]:
    """The value of `call` and the seconds it took. Runs in a daemon thread, so that a hanging call can't block exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, float]] = loop.create_future()

    def settle(set_result: Callable[[Any], None], result: object) -> None:
        if not future.done():
            set_result(result)

    def run() -> None:
        started = perf_counter()
        outcome: tuple[Callable[[Any], None], object]
        try:
            outcome = future.set_result, (call(), perf_counter() - started)
        except BaseException as error:  # a future can't hold StopIteration, and nothing may end the thread unheard
            own = isinstance(error, Exception) and not isinstance(error, StopIteration)
            outcome = future.set_exception, error if own else RuntimeError(worker.summary(error))
        with contextlib.suppress(RuntimeError):  # the loop is closed; nothing waits for the result
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True, name="ragstone-callable").start()
    return await future


def _name_of(target: object) -> str:
    module = getattr(target, "__module__", None) or type(target).__module__
    return f"callable:{module}.{getattr(target, '__qualname__', None) or type(target).__qualname__}"
