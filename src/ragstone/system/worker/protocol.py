"""The worker process: exchanges lines of JSON with Ragstone, and answers one question
at a time.

Ragstone sends the joined source of these modules in the first line of the child's stdin
(see `join.py` and `python_worker.py`), so the interpreter needs neither Ragstone nor
read access to its files. The worker then moves stdin and stdout to other descriptors,
and makes the user's prints go to the log.

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
    """The connection to Ragstone: lines of ASCII JSON on descriptors that the user's
    code doesn't use."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        # Descriptors from dup() are not inherited by programs that user code starts.
        self._in = os.fdopen(os.dup(0), "rb")
        self._out = os.fdopen(os.dup(1), "wb")
        # A hook of the interpreter may have printed text without an end of line.
        self._write("\n")
        # The user's code reads an empty stdin, and its stdout goes where stderr goes.
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
        """Send `message`, as a line of JSON."""
        if os.getpid() != self._pid:
            # The user's code has forked, and its child came back here too. Only the
            # parent may answer.
            os._exit(0)
        self._write(json.dumps(message, allow_nan=False) + "\n")

    def _write(self, text: str) -> None:
        try:
            self._out.write(text.encode("ascii"))
            self._out.flush()
        except OSError as error:
            sys.exit(
                f"The worker can't answer ({error.strerror}). Has your system closed file descriptors that it did not open?"
            )


class Loop:
    """The event loop for all async code. It is made when it is first needed, and lives
    as long as the worker."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def resolve(self, value: Any) -> Any:
        """`value`, or what it gives if it is awaitable."""
        if not inspect.isawaitable(value):
            return value
        # Imported here because it takes longer to load than everything else, and only
        # async code needs it.
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(value)

    def show_stacks_on_signal(self) -> None:
        """Make SIGUSR1, which Ragstone sends on a timeout, write the stacks of all
        threads and tasks to the log."""
        # Windows has no such signal: timeouts are reported without a stack there.
        if sys.platform != "win32":
            import faulthandler
            import signal

            # An entrypoint's own handler stays.
            if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
                signal.signal(signal.SIGUSR1, lambda *_: self._show_tasks())
                faulthandler.register(
                    signal.SIGUSR1, file=2, all_threads=True, chain=True
                )

    def _show_tasks(self) -> None:
        """Write the stack of each task. Follows the awaits, because asyncio shows only
        the outermost frame."""
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
        """Import what `hello`, Ragstone's first message, names. Raises EntrypointError,
        and whatever the user's code raises."""
        self._link = link
        self._loop = loop
        self._fields = Fields(**hello["fields"])
        self._entrypoint: str = hello["entrypoint"]
        self._part: str | None = hello["part"]
        # Whether each session gets an object of the entrypoint's class or factory.
        self._has_session_objects = False
        # The session that `_session_asker` belongs to.
        self._session: str | None = None
        if hello["functions"]:
            specs = hello["functions"].items()
            functions = Functions({metric: load(spec)[0] for metric, spec in specs})
            self._asker = Asker(functions.answer)
            self._fields = Fields()  # the paths are those of the system's answers
        else:
            target, has_new_object = load(self._entrypoint)
            self._has_session_objects = has_new_object or is_class_or_factory(target)
            self._asker = self._build_asker(target)
        self._session_asker = self._asker
        if hello["forbidden_imports"]:
            refuse_modules_from(hello["forbidden_imports"])

    def _build_asker(self, target: Any) -> Asker:
        if is_class_or_factory(target):
            target = self._loop.resolve(create(target))
        return adapt(target, self._part)

    @property
    def accepts(self) -> list[str]:
        """The extras that the entrypoint takes besides the question."""
        accepts = set(self._asker.accepts)
        if self._has_session_objects:
            accepts.add(SESSION)
        return sorted(accepts)

    def serve(self) -> None:
        """Answer questions until stdin ends."""
        while True:
            request = self._link.receive()
            if request is None:
                return
            self._link.send(self._reply(request))

    def _reply(self, request: Json) -> Json:
        identity = request.pop("id")
        try:
            reply = self._answer(**request)
        except BaseException as error:
            # Also for SystemExit and KeyboardInterrupt, so that they cost one sample,
            # not the worker.
            reply = _failure(error)
        return {**reply, "id": identity}

    def _answer(self, question: str, **extras: Any) -> Json:
        """Ask the question. Returns the answer as `normalise` does."""
        asker = self._asker_for(extras.get(SESSION))
        value = asker.begin(question, **extras)
        return normalise(self._loop.resolve(value), self._fields)

    def _asker_for(self, session: str | None) -> Asker:
        """The asker for a question of `session`. Builds a new object for a new session,
        and then sends that the answer begins."""
        if session is None or not self._has_session_objects:
            return self._asker
        if session != self._session:
            # Let go of the earlier object first, also if the new one can't be built.
            self._session = None
            self._session_asker = self._asker
            self._session_asker = self._build_asker(load(self._entrypoint)[0])
            self._session = session
            self._link.send({"ready": True})
        return self._session_asker


def _failure(error: BaseException) -> Json:
    """The reply for an error. An error of the user's code has a traceback as its
    detail."""
    if isinstance(error, (BadReturn, EntrypointError)):
        detail = getattr(error, "detail", None)
        return {"error": str(error), "kind": "bad_return", "detail": detail}
    return {"error": summary(error), "detail": formatted(error)}


def main(hello: Json) -> NoReturn:
    """Import the entrypoint, and answer questions until stdin ends. `hello` is
    Ragstone's first message."""
    link = Link()
    # When memory runs out, Linux kills the process with the highest score: the worker
    # rather than Ragstone.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("500")
    loop = Loop()
    loop.show_stacks_on_signal()
    # Modules of the user's project come first.
    directory = os.getcwd()  # noqa: PTH109
    other_entries = [entry for entry in sys.path if entry not in ("", directory)]
    sys.path[:] = [directory, *other_entries]
    try:
        service = Service(link, loop, hello)
    except BaseException as error:
        link.send({"token": hello["token"], **_failure(error)})
        os._exit(1)
    link.send({"token": hello["token"], "ready": service.accepts})
    service.serve()
    sys.exit(0)
