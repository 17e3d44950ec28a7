"""command: entrypoints: any program that reads questions as lines of JSON, and writes
answers as lines of JSON."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ragstone.errors import ConfigError
from ragstone.settings.settings import SystemSettings
from ragstone.system.child import Child
from ragstone.system.kind import EntrypointKind, Surroundings, answer_fields, has_folder
from ragstone.system.line_peer import LinePeer
from ragstone.system.pool import Pool
from ragstone.system.response import System, SystemFailureKind

MAX_LINE_BYTES = 10_000_000
# How long `start` watches for a program that fails at once.
_EARLY_EXIT_S = 0.3
_SECRET_OPTION = re.compile(
    r"(?i)(?P<option>-{0,2}[\w-]*(?:key|token|secret|passw(?:or)?d|credential|auth)[\w-]*)"
    r"(?P<separator>\s+|=)(?P<value>\S+)"
)


class CommandPeer(LinePeer, eq=False, kw_only=True):
    """One process of the command `argv`."""

    argv: Sequence[str]
    display_name = "command"
    max_line_bytes = MAX_LINE_BYTES
    invalid_line_failure = SystemFailureKind.BAD_RETURN
    timeout_hint = " If the command printed one, it must flush each line (in Python: print(line, flush=True))."

    async def start(self) -> None:
        """Start the program. Raises SystemUnderTestError if it can't be started, or
        fails at once."""
        child = self.child = await Child.spawn(
            self.argv, self.context, max_line_bytes=self.max_line_bytes
        )
        has_exited = await child.wait(_EARLY_EXIT_S)
        if has_exited and child.status != 0:
            raise self.start_error(
                f"the command {await child.describe_ending()} immediately after it was started.",
                child.tail.text(),
                where=f"command:{self.argv[0]}",
                hint=f"Run it by hand in {self.context.directory}; it must wait for questions on stdin.",
            )


class ShellCommand(EntrypointKind):
    schemes = ("command",)
    example = "command:./program --flag"

    def paths(self, target: str) -> tuple[Path, ...]:
        return tuple(map(Path, _split(target)[1:]))

    def build(
        self, target: str, settings: SystemSettings, surroundings: Surroundings
    ) -> System:
        context = surroundings.child_context(settings)
        argv = _split(target)
        if has_folder(argv[0]):  # relative to the working directory
            argv[0] = str(context.directory / argv[0])
        else:
            search_path = context.environ.get("PATH")
            argv[0] = shutil.which(argv[0], path=search_path) or argv[0]
        fields = answer_fields(settings)
        new_peer = partial(CommandPeer, settings, context, fields, argv=argv)
        return Pool(f"command:{without_secrets(target)}", settings, new_peer, context)


def _split(command: str) -> list[str]:
    """The program and arguments of `command`. Raises ConfigError."""
    try:
        words = shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise ConfigError(
            f"the command can't be split into words: {error}.",
            where="system.entrypoint",
            hint="Close each quote that is opened.",
        ) from None
    if os.name != "posix":  # without POSIX rules, shlex keeps the quotes
        words = [
            word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word
            for word in words
        ]
    return words


def without_secrets(command: str) -> str:
    """Mask the values of options and variables in `command` whose names look like those
    of secrets."""
    return _SECRET_OPTION.sub(
        lambda match: f"{match['option']}{match['separator']}***", command
    )
