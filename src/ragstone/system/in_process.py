"""A callable as a system, for notebooks and tests: ``ragstone.evaluate(...,
system=my_function)``.

It is not isolated: it runs in Ragstone's process, and the thread of a hanging call runs
on. Use an entrypoint string if that matters.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent import futures
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
    question_extras,
)
from ragstone.system.worker.adapters import (
    SESSION,
    Asker,
    EntrypointError,
    adapt,
    create,
    is_class_or_factory,
)
from ragstone.system.worker.fields import BadReturn, Fields
from ragstone.system.worker.wording import formatted, summary


class CallableSystem:
    """A function, class, factory, or object with answer/query/invoke/__call__, called
    in this process.

    Async calls are awaited in the running loop; others run in threads, as many at a
    time as the concurrency in `settings`. A call that takes longer than `timeout_s` is
    abandoned (its thread ends when the call ends). `entrypoint` is the system's name in
    the manifest of a run; by default it is made from the name of `target`.
    """

    can_be_asked_again = True

    def __init__(
        self,
        target: object,
        settings: SystemSettings | None = None,
        *,
        entrypoint: str | None = None,
    ) -> None:
        settings = settings or SystemSettings()
        self.entrypoint = entrypoint or _name_of(target)
        self.concurrency = settings.concurrency
        self._target = target
        self._timeout_s = settings.timeout_s
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._asker: Asker | None = None
        self._part = settings.part
        self._fields = Fields(contexts_only=settings.part == RETRIEVAL)
        self.accepts: frozenset[str] | None = None

    async def start(self) -> None:
        """Call the class or factory, if it is one. Raises SystemUnderTestError."""
        try:
            self._asker = await self._build_asker()
        except EntrypointError as error:
            raise SystemUnderTestError(str(error), where=self.entrypoint) from None
        except Exception as error:
            message = f"{summary(error)}\n\n{formatted(error)}"
            raise SystemUnderTestError(message, where=self.entrypoint) from error
        accepts = set(self._asker.accepts)
        if is_class_or_factory(self._target):
            accepts.add(SESSION)  # each session gets an object
        self.accepts = frozenset(accepts)

    async def _build_asker(self) -> Asker:
        """Build what answers questions. Raises EntrypointError, and whatever a class or
        factory raises."""
        target = self._target
        if is_class_or_factory(target):
            target = create(target)
        if inspect.isawaitable(target):
            target = await target
        return adapt(target, self._part)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[System]:
        """A session with an object of its own, if this is a class or a factory."""
        session = copy(self)
        if is_class_or_factory(self._target):
            session._asker = None  # built when the first question is asked
        yield session

    async def ask(self, sample: Sample) -> Response:
        async with self._slots:
            deadline = asyncio.timeout(self._timeout_s)
            try:
                if self._asker is None:
                    # Without a timeout, as in `start`: an object may load for long.
                    self._asker = await self._build_asker()
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
        """Ask `sample`. Raises BadReturn, TimeoutError and whatever the callable
        raises."""
        extras: dict[str, Any] = question_extras(sample, self._part)
        started_s = perf_counter()
        value = await run_in_thread(partial(asker.begin, sample.question, **extras))
        if inspect.isawaitable(value):
            value = await _await_user_code(value)
        latency_s = perf_counter() - started_s
        # Reading properties of what was returned may run the user's code, and block.
        read_value = partial(read, sample.id, value, latency_s, self._fields)
        response: Response = await run_in_thread(read_value)
        return response


async def _await_user_code(value: Awaitable[Any]) -> Any:
    """Await `value`. A CancelledError that comes from the user's code is raised as a
    RuntimeError, since it would look like the cancellation of this task."""
    try:
        return await value
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError(summary(error)) from error


async def run_in_thread(call: Callable[[], Any]) -> Any:
    """Run `call` in a daemon thread, so that a hanging call can't keep the interpreter
    from exiting. Returns its value."""
    future: futures.Future[Any] = futures.Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except (StopIteration, futures.CancelledError) as error:
            # asyncio can't raise the first from a future, and takes the second for the
            # cancellation of the task that awaits it.
            future.set_exception(RuntimeError(summary(error)))
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:
            # SystemExit, KeyboardInterrupt or CancelledError, which would end more than
            # this call.
            future.set_exception(RuntimeError(summary(error)))

    threading.Thread(target=run, daemon=True, name="ragstone-callable").start()
    return await asyncio.wrap_future(future)


def _name_of(target: object) -> str:
    module = getattr(target, "__module__", None) or type(target).__module__
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    return f"callable:{module}.{name}"
