"""The command line: finds the command and maps errors to exit codes."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, cast

import click

from ragstone._version import __version__
from ragstone.errors import EXIT_BUG, RagstoneError, suggestion
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
"""Each command's line of help; the command itself is `command` in the module of its
name."""

_OBJECTS_BETWEEN_COLLECTIONS = 200_000


class _Lazy(click.Group):
    """Loads a command's module only when it is called, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            hint = suggestion(cmd_name, COMMANDS)
            return (
                None
                if ctx.resilient_parsing
                else ctx.fail(f"No such command '{cmd_name}'. {hint}")
            )
        return cast(
            click.Command, importlib.import_module(f"ragstone.cli.{cmd_name}").command
        )

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
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="ragstone", message="%(prog)s %(version)s")
def cli() -> None:
    """A quality gate for RAG systems: golden set in, verdict out.

    Start with `ragstone init`, then `ragstone check`, then `ragstone gate`.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the matching code."""
    _outlive_readers()
    # What is installed beside Ragstone does not change how files are validated, and
    # looking for it takes time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Nor do arrays of scores need several threads, which use a tenth of a second while
    # numpy loads them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is imported stays: looking for garbage in it after every 700 objects takes a
    # tenth of a start.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # Nor is it looked through when the process ends, which takes a fifth of a gate.
    atexit.register(gc.freeze)
    try:
        result = cli.main(
            args=list(argv) if argv is not None else None, standalone_mode=False
        )
        code = result if isinstance(result, int) else 0
    except RagstoneError as error:
        _complain(str(error))
        code = error.exit_code
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted.")
        code = 130
    except Exception:
        from ragstone.report.escape import terminal

        click.echo(
            terminal(traceback.format_exc()), err=True, nl=False
        )  # it may quote anything
        _complain(
            "this is a bug in Ragstone, not a verdict on your system. Please report it, with the lines above."
        )
        code = EXIT_BUG
    sys.exit(code)


_CLOSED = {errno.EPIPE, errno.ESHUTDOWN, *((errno.EINVAL,) if os.name == "nt" else ())}
"""What writing to a pipe without a reader fails with."""


class _Outliving(io.FileIO):
    """A stream whose reader may go, as that of ``| head``: then the rest goes
    nowhere."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            return memoryview(data).nbytes


_IN_ASCII = "ragstone.ascii"
_ASCII = {
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


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that the output's encoding lacks, as cp1252 on a
    Windows runner: never an error."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_ASCII.get(character, "?") for character in lacking), error.end


codecs.register_error(_IN_ASCII, _in_ascii)


class _Screen(io.TextIOWrapper):
    """A terminal: what keeps a log from running commands (`report.escape.terminal`) is
    only in the way there."""

    def write(self, text: str) -> int:
        super().write(text.replace(ZERO_WIDTH_SPACE, ""))
        return len(text)


def _outlive_readers() -> None:
    """Let a command end as it would, with its own exit code, when nobody reads what it
    prints any more."""
    for name, stream in (("stdout", sys.__stdout__), ("stderr", sys.__stderr__)):
        if not isinstance(stream, io.TextIOWrapper) or getattr(sys, name) is not stream:
            continue
        screen = stream.isatty()
        raw = (
            stream.buffer
            if screen
            else io.BufferedWriter(_Outliving(stream.fileno(), "w", closefd=False))
        )
        line_buffering, write_through = stream.line_buffering, stream.write_through
        errors = _IN_ASCII if stream.errors == "strict" else stream.errors
        text = (_Screen if screen else io.TextIOWrapper)(
            raw, stream.encoding, errors, None, line_buffering, write_through
        )
        setattr(sys, name, text)


def _complain(message: str) -> None:
    from ragstone.cli.output import say

    say(f"error: {message}", err=True, label="error:")
