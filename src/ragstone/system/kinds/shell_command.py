"""command: entrypoints: any program, as one process that is kept, or as one per question."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
from pathlib import Path

from ragstone.config import SystemSettings
from ragstone.errors import ConfigError
from ragstone.system.child import ChildContext
from ragstone.system.command_line import QUESTION, CommandPeer, OneShotPeer, without_secrets
from ragstone.system.kind import EntrypointKind, Surroundings, has_folder
from ragstone.system.pool import Peer, Pool
from ragstone.system.response import System


class ShellCommand(EntrypointKind):
    schemes = ("command",)
    form = "command:./program --flag"
    error_is_reply = True

    def paths(self, rest: str) -> tuple[Path, ...]:
        return tuple(Path(word) for word in _words(rest)[1:])

    def build(self, rest: str, settings: SystemSettings, around: Surroundings) -> System:
        context = around.child_context(settings)
        argv = _words(rest)
        argv[0] = _program(argv[0], context)
        numbers = itertools.count()

        def new_peer() -> Peer:
            if any(QUESTION in word for word in argv[1:]):
                return OneShotPeer(argv, settings, context)
            return CommandPeer(argv, settings, context, first=next(numbers) == 0)

        return Pool(f"command:{without_secrets(rest)}", settings, new_peer, context)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise ConfigError(
            f"the command can't be split into words: {error}.", where="system.entrypoint", hint="Balance its quotes."
        ) from None
    if os.name != "posix":  # without posix rules, quotes are kept
        words = [word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word for word in words]
    return words


def _program(name: str, context: ChildContext) -> str:
    """The path of a program: relative to the working directory if its name has a folder, else looked up on PATH."""
    if has_folder(name):
        return str(context.directory / name)
    return shutil.which(name, path=context.environ.get("PATH")) or name
