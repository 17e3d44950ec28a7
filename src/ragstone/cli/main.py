"""The command line: finds the command and maps errors to exit codes."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, cast

import click

from ragstone._version import __version__
from ragstone.errors import (
    EXIT_BUG,
    ConfigError,
    Interrupted,
    RagstoneError,
    suggestion,
)
from ragstone.printable import ZERO_WIDTH_SPACE

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_GATE_COMMANDS = {
    "init": "Write a starter config, policy, golden set and workflow.",
    "check": "Validate the setup, ask one question, estimate the cost.",
    "run": "Evaluate the system and write a run directory.",
    "gate": "Evaluate, compare with thresholds and baseline, and decide.",
    "accept": "Accept the drop of a run on purpose.",
    "rescore": "Score stored answers again: another judge, more metrics.",
    "compare": "Compare two runs or score files, and decide.",
    "report": "Render a run's report in another format.",
    "plan": "Calculate how many samples are needed to detect a drop.",
}

_TOOL_COMMANDS = {
    "monitor": "Watch logged interactions of an application.",
    "history": "List past runs, add finished ones, write a page of them.",
    "generate": "Write draft questions from your documents.",
    "review": "Review the drafts of a golden set.",
    "golden": "Show what is in a golden set, or convert it.",
    "label": "Let people label answers of a run.",
    "calibrate": "Compare the judge with human labels.",
}

COMMANDS = _GATE_COMMANDS | _TOOL_COMMANDS
"""Each command's line of help. The command itself is the function `command` in the
module of the same name."""

_GARBAGE_THRESHOLD = 200_000
"""Objects that are allocated before Python looks for garbage. With its default of 700,
that takes a tenth of the start, because imported objects are never garbage."""

_USAGE_EXIT_CODE = ConfigError.exit_code


class _LazyGroup(click.Group):
    """Loads a command's module only when it is called, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"ragstone.cli.{cmd_name}")
            return cast(click.Command, module.command)
        if not ctx.resilient_parsing:
            hint = suggestion(cmd_name, COMMANDS)
            ctx.fail(f"No such command '{cmd_name}'. {hint}")
        return None

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_GATE_COMMANDS.items()))
        with formatter.section("Tools"):
            formatter.write_dl(list(_TOOL_COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="ragstone", message="%(prog)s %(version)s")
def cli() -> None:
    """A quality gate for RAG systems: golden set in, verdict out.

    Start with `ragstone init`, then `ragstone check`, then `ragstone gate`.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the matching code."""
    _wrap_output_streams()
    # Plugins of other packages must not change how files are validated, and looking for
    # them takes time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # The arrays of scores are small. Threads for them would delay the import of numpy by
    # a tenth of a second.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_GARBAGE_THRESHOLD)
    # Without this, Python looks for garbage once more when the process ends, which takes
    # a fifth of the time of a gate.
    atexit.register(gc.freeze)
    arguments = None if argv is None else list(argv)
    try:
        result = cli.main(args=arguments, standalone_mode=False)
        # Commands return their exit code; click returns that of --help.
        code = result if isinstance(result, int) else 0
    except RagstoneError as error:
        _print_error(str(error))
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = _USAGE_EXIT_CODE
    except (click.Abort, KeyboardInterrupt):
        interrupted = Interrupted(signal.SIGINT)
        _print_error(interrupted.message)
        code = interrupted.exit_code
    except Exception:
        from ragstone.report.escape import escape_terminal

        # A traceback can quote text from anywhere.
        click.echo(escape_terminal(traceback.format_exc()), err=True, nl=False)
        _print_error(
            "this is a bug in Ragstone, not a verdict on your system. Please report it, with the lines above."
        )
        code = EXIT_BUG
    sys.exit(code)


_NO_READER_ERRORS = {errno.EPIPE, errno.ESHUTDOWN}
"""The errors of writing to a pipe that nobody reads any more."""

if os.name == "nt":
    _NO_READER_ERRORS.add(errno.EINVAL)


class _PipeOutput(io.FileIO):
    """An output stream that goes on without its reader: after ``| head`` has read
    enough, the remaining output is discarded."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _NO_READER_ERRORS:
                raise
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, self.fileno())
            os.close(null_device)
            return memoryview(data).nbytes


_ASCII_SUBSTITUTES = {
    "\u2714": "OK",  # the marks of a verdict, which is clear without them
    "\u2718": "X",
    "\u2192": "->",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2013": "-",
    "\u2026": "...",
    "\u00b7": "-",
    "\u201c": '"',
    "\u201d": '"',
    "\u2500": "-",
    "\u2502": "|",
    "\u251c": "|",
    "\u2524": "|",
    "\u25cf": "o",
    "\u202f": " ",
    ZERO_WIDTH_SPACE: "",
}


def _substitute_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace the characters that the output's encoding lacks, such as cp1252 on a
    Windows runner. This is an error handler of `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    text = "".join(_ASCII_SUBSTITUTES.get(character, "?") for character in lacking)
    return text, error.end


_ASCII_ERRORS = "ragstone.ascii"
"""The name under which `codecs` knows `_substitute_ascii`."""

codecs.register_error(_ASCII_ERRORS, _substitute_ascii)


class _TerminalOutput(io.TextIOWrapper):
    """A terminal. The zero-width spaces that keep a log from running commands
    (`report.escape.escape_terminal`) would only be in the way there, and are left out."""

    def write(self, text: str) -> int:
        super().write(text.replace(ZERO_WIDTH_SPACE, ""))
        return len(text)


def _wrap_output_streams() -> None:
    """Make standard output and standard error tolerate a reader that has gone, and
    characters that they can't encode, so that a command ends with its own exit code."""
    for name, stream in (("stdout", sys.__stdout__), ("stderr", sys.__stderr__)):
        is_replaced = getattr(sys, name) is not stream  # as by pytest
        if isinstance(stream, io.TextIOWrapper) and not is_replaced:
            setattr(sys, name, _wrapped(stream))


def _wrapped(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """The stream to use instead of `stream`, with its encoding and its buffering."""
    wrapper: type[io.TextIOWrapper] = _TerminalOutput
    buffer = stream.buffer
    if not stream.isatty():
        wrapper = io.TextIOWrapper
        pipe = _PipeOutput(stream.fileno(), "w", closefd=False)
        buffer = io.BufferedWriter(pipe)
    return wrapper(
        buffer,
        encoding=stream.encoding,
        errors=_ASCII_ERRORS if stream.errors == "strict" else stream.errors,
        newline=None,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _print_error(message: str) -> None:
    from ragstone.cli.output import say

    say(f"error: {message}", err=True, label="error:")
