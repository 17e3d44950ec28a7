"""command: entrypoints: any program that reads one JSON object per line and writes one
JSON object per line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.child import Child, ChildContext
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields, has_folder
from ragstone.system.payload import failed, read
from ragstone.system.pool import Attempt, Pool, lost
from ragstone.system.response import (
    Response,
    System,
    SystemFailureKind,
    beside_question,
)
from ragstone.system.worker.wording import shown

MAX_LINE_BYTES = 10_000_000
_AT_ONCE_S = 0.3
_SECRET_OPTION = re.compile(
    r"(?i)(?P<option>-{0,2}[\w-]*(?:key|token|secret|passw(?:or)?d|credential|auth)[\w-]*)(?P<between>\s+|=)(?P<value>\S+)"
)


@dataclass(eq=False)
class CommandPeer:
    """One process of the command. A question is one line; the next line of its stdout
    is the answer."""

    argv: Sequence[str]
    settings: SystemSettings
    context: ChildContext
    _child: Child | None = field(default=None, init=False)
    _answers: int = field(default=0, init=False)

    async def start(self) -> None:
        """Start the program. Raises SystemUnderTestError if it can't be started, or
        fails at once."""
        child = self._child = await Child.spawn(
            self.argv, self.context, limit=MAX_LINE_BYTES
        )
        if await child.wait(_AT_ONCE_S) and child.status != 0:
            output = child.tail.text()
            detail = f"\n\n{output}\n" if output else ""
            raise SystemUnderTestError(
                f"the command {await child.ending()} immediately after it was started.{detail}",
                where=f"command:{self.argv[0]}",
                hint=f"Run it by hand in {self.context.directory}; it must wait for questions on stdin.",
            )

    async def ask(self, sample: Sample) -> Attempt:
        child = self._child
        if child is None or (child.exited and self._answers > 0):
            return Attempt(None, reusable=False)
        child.tail.clear()
        question = {"id": sample.id, "question": sample.question}
        request = {**question, **beside_question(sample, self.settings.part)}
        child.write(json.dumps(request).encode("ascii") + b"\n")
        timeout_s = self.settings.timeout_s
        if self._answers == 0:
            timeout_s += self.settings.startup_timeout_s
        kind = SystemFailureKind.BAD_RETURN
        try:
            async with asyncio.timeout(timeout_s):
                value, latency_s = await self._reply(child)
            if isinstance(value, dict) and str(value.get("id", sample.id)) != sample.id:
                raise ValueError(
                    f"Answered with id {shown(value['id'], 80)}; expected {sample.id!r}, or no id."
                )
        except TimeoutError:
            kind = SystemFailureKind.TIMEOUT
            message = f"No answer within {timeout_s:g} s."
            if self._answers == 0:
                message += " If it did print one, it must flush each line (in Python: print(line, flush=True))."
        except EOFError:
            how = await child.ending()
            if child.status == 0 and self._answers > 0:
                # It exits after some questions; the next process gets this one.
                return Attempt(None, reusable=False)
            kind = SystemFailureKind.CRASHED
            message = f"The command {how} while answering this question."
        except ValueError as error:
            message = str(error)
        else:
            self._answers += 1
            return Attempt(self._response(sample, value, latency_s, child), True)
        return lost(sample, kind, message, child)

    def _response(
        self, sample: Sample, value: object, latency_s: float, child: Child
    ) -> Response:
        """The response in a reply: an answer, or the error it reports."""
        error = value.get("error") if isinstance(value, dict) else None
        if isinstance(error, str) and "answer" not in value:
            kind = SystemFailureKind.RAISED
            return failed(sample.id, kind, error, child.tail.text(), latency_s)
        return read(sample.id, value, latency_s, answer_fields(self.settings))

    async def end(self, *, kill: bool) -> None:
        if self._child is not None:
            await self._child.end(patience_s=0.0 if kill else 2.0)

    async def _reply(self, child: Child) -> tuple[object, float]:
        """The next line as JSON, and the seconds it took. Raises EOFError, or
        ValueError with the line."""
        started = perf_counter()
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:
                raise ValueError(
                    f"Wrote a line longer than {MAX_LINE_BYTES:,} bytes."
                ) from None
            if not line:
                raise EOFError
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                raise ValueError(
                    f"Wrote a line that is not JSON: {shown(line.decode('utf-8', 'replace').strip())}. "
                    "Expected one JSON object per line on stdout; logs go to stderr."
                ) from None
            is_ready = isinstance(value, dict) and value.get("ready") is True
            if not is_ready or self._answers > 0:
                return value, perf_counter() - started
            started = perf_counter()


class ShellCommand(EntrypointKind):
    schemes = ("command",)
    form = "command:./program --flag"

    def paths(self, target: str) -> tuple[Path, ...]:
        return tuple(Path(word) for word in _words(target)[1:])

    def build(
        self, target: str, settings: SystemSettings, around: Surroundings
    ) -> System:
        context = around.child_context(settings)
        argv = _words(target)
        if has_folder(argv[0]):  # relative to the working directory
            argv[0] = str(context.directory / argv[0])
        else:
            argv[0] = shutil.which(argv[0], path=context.environ.get("PATH")) or argv[0]
        new_peer = partial(CommandPeer, argv, settings, context)
        return Pool(f"command:{without_secrets(target)}", settings, new_peer, context)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise ConfigError(
            f"the command can't be split into words: {error}.",
            where="system.entrypoint",
            hint="Balance its quotes.",
        ) from None
    if os.name != "posix":  # without posix rules, quotes are kept
        words = [
            word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word
            for word in words
        ]
    return words


def without_secrets(command: str) -> str:
    """`command` with the values of options and variables that look like secrets
    replaced."""
    return _SECRET_OPTION.sub(
        lambda match: f"{match['option']}{match['between']}***", command
    )
