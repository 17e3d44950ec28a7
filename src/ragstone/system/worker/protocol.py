"""The worker process: lines from and to Ragstone, questions one at a time.

Ragstone sends the joined source of these modules in the first line of the child's stdin
(see `join.py` and `python_worker.py`), so the interpreter needs neither Ragstone nor
read access to its files. The worker then moves stdin and stdout to other descriptors,
points descriptor 1 at the log, and exchanges lines of ASCII JSON.

Part of the worker: standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from ragstone.system.worker.adapters import (
    SESSION,
    Asker,
    EntrypointError,
    adapt,
    create,
    is_class_or_factory,
    load,
    refuse_modules_from,
)
from ragstone.system.worker.fields import BadReturn, Fields, Json
from ragstone.system.worker.metric_functions import Functions
from ragstone.system.worker.returns import normalise
from ragstone.system.worker.wording import formatted, summary

if TYPE_CHECKING:
    import asyncio


class Link:
    """Lines to and from Ragstone, on separate descriptors."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        # Descriptors from dup() are not inherited by programs that user code starts.
        self._in = os.fdopen(os.dup(0), "rb")
        self._out = os.fdopen(os.dup(1), "wb")
        # What hooks of the interpreter printed may not end its line.
        self._write("\n")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(
                    encoding="utf-8", errors="backslashreplace", line_buffering=True
                )

    def receive(self) -> Any:
        """The next message; None at the end of stdin."""
        line = self._in.readline()
        return json.loads(line) if line else None

    def send(self, message: Json) -> None:
        """Send `message`."""
        if os.getpid() != self._pid:
            os._exit(
                0
            )  # a forked child of user code returned from the call; only its parent may answer
        self._write(json.dumps(message, allow_nan=False) + "\n")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text.encode("ascii"))
            self._out.flush()
        except OSError as error:
            sys.exit(
                f"The worker can't answer ({error.strerror}). Has your system closed descriptors that are not its own?"
            )


class Loop:
    """One event loop for all async code, which lives as long as the worker and is made
    when it is needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def resolve(self, value: Any) -> Any:
        """`value`, awaited if it is awaitable."""
        if not inspect.isawaitable(value):
            return value
        import asyncio  # takes longer to load than everything else, and only async code needs it

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(value)

    def show_stacks_on_signal(self) -> None:
        """On SIGUSR1 (sent on a timeout), write the stacks of all threads and tasks to
        the log."""
        if (
            sys.platform != "win32"
        ):  # no such signal on Windows: a timeout is reported without a stack
            import faulthandler
            import signal

            if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
                signal.signal(signal.SIGUSR1, lambda *_: self._show_tasks())
                faulthandler.register(
                    signal.SIGUSR1, file=2, all_threads=True, chain=True
                )

    def _show_tasks(self) -> None:
        """Show where each task waits. Follows the awaits, since asyncio shows only a
        task's outermost frame."""
        if self._loop is None:
            return
        import asyncio

        for task in asyncio.all_tasks(self._loop):
            lines = ["Task (most recent call last):\n"]
            coroutine: Any = task.get_coro()
            while inspect.iscoroutine(coroutine):
                lines += traceback.format_stack(coroutine.cr_frame)
                coroutine = coroutine.cr_await
            os.write(2, "".join(lines).encode("utf-8", "replace"))


class Service:
    """Answers the questions of one entrypoint, or calls the functions of custom
    metrics."""

    def __init__(self, link: Link, loop: Loop, hello: Json) -> None:
        """Import what `hello` names. Raises EntrypointError, and whatever the user's
        code raises."""
        self._link = link
        self._loop = loop
        self._fields = Fields(**hello["fields"])
        self._entrypoint: str = hello["entrypoint"]
        self._part: str | None = hello["part"]
        self._builds = False
        self._session: str | None = None
        if hello["functions"]:
            specs = hello["functions"].items()
            functions = Functions({metric: load(spec)[0] for metric, spec in specs})
            self._asker = Asker(functions.answer)
            self._fields = Fields()
        else:
            target, is_created = load(self._entrypoint)
            self._builds = is_created or is_class_or_factory(target)
            self._asker = self._adapted(target)
        self._session_asker = self._asker
        if hello["forbidden_imports"]:
            refuse_modules_from(hello["forbidden_imports"])

    def _adapted(self, target: Any) -> Asker:
        if is_class_or_factory(target):
            target = self._loop.resolve(create(target))
        return adapt(target, self._part)

    @property
    def accepts(self) -> list[str]:
        """What the entrypoint takes besides the question."""
        accepts = self._asker.accepts
        return sorted({*accepts, SESSION} if self._builds else accepts)

    def serve(self) -> None:
        """Answer until stdin ends."""
        while True:
            request = self._link.receive()
            if request is None:
                return
            self._link.send(self._reply(request))

    def _reply(self, request: Json) -> Json:
        identity = request.pop("id")
        try:
            reply = self._answer(**request)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of user code cost one sample, not the worker
            reply = _failure(error)
        return {**reply, "id": identity}

    def _answer(self, question: str, **beside: Any) -> Json:
        """The answer to a question, in the fields that any system may return."""
        asker = self._asker_of(beside.get(SESSION))
        value = asker.begin(question, **beside)
        return normalise(self._loop.resolve(value), self._fields)

    def _asker_of(self, session: str | None) -> Asker:
        """What answers in `session`: an object of its own, if the entrypoint builds
        one."""
        if session is None or not self._builds:
            return self._asker
        if session != self._session:
            self._session, self._session_asker = None, self._asker
            self._session_asker = self._adapted(load(self._entrypoint)[0])
            self._session = session
            self._link.send({"ready": True})
        return self._session_asker


def _failure(error: BaseException) -> Json:
    """What is said of an error: the user's own has a traceback."""
    if isinstance(error, (BadReturn, EntrypointError)):
        detail = getattr(error, "detail", None)
        return {"error": str(error), "kind": "bad_return", "detail": detail}
    return {"error": summary(error), "detail": formatted(error)}


def main(hello: Json) -> NoReturn:
    """Serve questions until stdin ends."""
    link = Link()
    # When memory runs out, let the kernel kill the worker, not Ragstone.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("500")
    loop = Loop()
    loop.show_stacks_on_signal()
    directory = os.getcwd()  # noqa: PTH109
    others = [entry for entry in sys.path if entry not in ("", directory)]
    sys.path[:] = [directory, *others]
    try:
        service = Service(link, loop, hello)
    except BaseException as error:
        link.send({"token": hello["token"], **_failure(error)})
        os._exit(1)
    link.send({"token": hello["token"], "ready": service.accepts})
    service.serve()
    sys.exit(0)
