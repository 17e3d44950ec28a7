"""command: entrypoints: any program that reads one JSON object per line and writes one
JSON object per line, or that is run once per question."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

from msgspec import Struct

from ragstone.errors import ConfigError, SystemUnderTestError
from ragstone.golden.sample import Sample
from ragstone.settings.settings import SystemSettings
from ragstone.system.child import Child, ChildContext
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields, has_folder
from ragstone.system.line_peer import LinePeer, response_in
from ragstone.system.payload import failed
from ragstone.system.pool import Attempt, Pool
from ragstone.system.response import System, SystemFailureKind, beside_question
from ragstone.system.worker.fields import Fields

MAX_LINE_BYTES = 10_000_000
_AT_ONCE_S = 0.3
_PIECE = 1 << 16
QUESTION = "{question}"
_PLACEHOLDER = re.compile(r"\{(question|history|session|contexts)\}")
_SECRET_OPTION = re.compile(
    r"(?i)(?P<option>-{0,2}[\w-]*(?:key|token|secret|passw(?:or)?d|credential|auth)[\w-]*)(?P<between>\s+|=)(?P<value>\S+)"
)


class CommandPeer(LinePeer, eq=False, kw_only=True):
    """One process of the command `argv`."""

    argv: Sequence[str]
    noun = "command"
    max_line_bytes = MAX_LINE_BYTES
    garbled = SystemFailureKind.BAD_RETURN
    silence_hint = " If it did print one, it must flush each line (in Python: print(line, flush=True))."

    async def start(self) -> None:
        """Start the program. Raises SystemUnderTestError if it can't be started, or
        fails at once."""
        child = self.child = await Child.spawn(
            self.argv, self.context, limit=self.max_line_bytes
        )
        if await child.wait(_AT_ONCE_S) and child.status != 0:
            raise self.not_started(
                f"the command {await child.ending()} immediately after it was started.",
                child.tail.text(),
                where=f"command:{self.argv[0]}",
                hint=f"Run it by hand in {self.context.directory}; it must wait for questions on stdin.",
            )


class OneShotPeer(Struct, eq=False):
    """Runs the command `argv` once per question, with the question among its words. Its
    output is the answer: a JSON object, or else text.

    No process is kept between questions.
    """

    settings: SystemSettings
    context: ChildContext
    fields: Fields
    argv: Sequence[str]

    @property
    def accepts(self) -> frozenset[str]:
        return frozenset(_PLACEHOLDER.findall(" ".join(self.argv)))

    async def start(self) -> None:
        """Raises SystemUnderTestError if the program doesn't exist."""
        program = self.argv[0]
        if shutil.which(program, path=self.context.environ.get("PATH")) is None:
            raise SystemUnderTestError(
                f"can't start '{program}': there is no such program, or it is not executable.",
                where=f"command:{program}",
                hint=f"Paths start from {self.context.directory}, and no shell is used.",
            )

    async def ask(self, sample: Sample) -> Attempt:
        try:
            child = await Child.spawn(
                self._words(sample), self.context, limit=MAX_LINE_BYTES
            )
        except SystemUnderTestError as error:
            # A question that can't be an argument: too long, or with a zero byte.
            response = failed(sample.id, SystemFailureKind.RAISED, error.message)
            return Attempt(response, reusable=True)
        timeout_s = self.settings.timeout_s
        started = perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                output = await _output(child)
                latency_s = perf_counter() - started
                await child.wait(timeout_s)  # it may close its output before it ends
                message = f"The command {await child.ending()}."
            if child.status == 0:
                return self._attempt(sample, output, latency_s, child)
            was_killed = child.status is None or child.status < 0
            kind = SystemFailureKind.CRASHED if was_killed else SystemFailureKind.RAISED
        except TimeoutError:
            kind = SystemFailureKind.TIMEOUT
            message = f"No answer within {timeout_s:g} s."
        except ValueError as error:
            kind = SystemFailureKind.BAD_RETURN
            message = str(error)
        finally:
            await child.end()
        response = failed(sample.id, kind, message, child.tail.text())
        return Attempt(response, reusable=True)

    async def end(self, *, kill: bool) -> None:
        """Nothing to end between questions."""

    def _words(self, sample: Sample) -> list[str]:
        """The command with what stands for its placeholders."""
        beside = beside_question(sample, self.settings.part)
        values = {
            "question": sample.question,
            "history": json.dumps(beside.get("history", [])),
            "session": str(beside.get("session", "")),
            "contexts": json.dumps(beside.get("contexts")),
        }
        # In one pass, because a question may itself contain a placeholder.
        fill = partial(_PLACEHOLDER.sub, lambda match: values[match[1]])
        return [self.argv[0], *map(fill, self.argv[1:])]

    def _attempt(
        self, sample: Sample, output: str, latency_s: float, child: Child
    ) -> Attempt:
        """The answer in the output of a command that ended well."""
        fields = self.fields
        try:
            value: object = json.loads(output)
        except (ValueError, RecursionError):
            value = None
        is_list = isinstance(value, list) and fields.contexts_only
        if not isinstance(value, dict) and not is_list:
            value = output.strip()
            fields = Fields(contexts_only=fields.contexts_only)
        response = response_in(value, sample, latency_s, child, fields)
        return Attempt(response, reusable=True)


async def _output(child: Child) -> str:
    """What a command prints, as text. Raises ValueError if it is too much."""
    output = bytearray()
    child.close_stdin()
    while piece := await child.stdout.read(_PIECE):
        output += piece
        if len(output) > MAX_LINE_BYTES:
            raise ValueError(f"Printed more than {MAX_LINE_BYTES:,} bytes.")
    return output.decode("utf-8", "replace")


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
        fields = answer_fields(settings)
        is_one_shot = any(QUESTION in word for word in argv[1:])
        peer = OneShotPeer if is_one_shot else CommandPeer
        new_peer = partial(peer, settings, context, fields, argv=argv)
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
