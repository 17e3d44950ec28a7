"""What the command line passes to a use case: environment, terminal, signals,
secrets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ragstone.cli.output import say
from ragstone.errors import ENDING_SIGNALS, Interrupted, SystemUnderTestError
from ragstone.evaluation.directory import SYSTEM_LOG, RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.planted import credulity_error
from ragstone.formatting import counted
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.printable import shown_name
from ragstone.progress import progress_for
from ragstone.settings.settings import Settings

Result = TypeVar("Result")


def redactor(settings: Settings) -> Redactor:
    """Removes the secrets that are known here from a text: those of the environment,
    and of the config."""
    return Redactor(known_secrets(os.environ, settings))


@contextlib.contextmanager
def run_context(settings: Settings) -> Iterator[RunContext]:
    """The surroundings of a command at a terminal or in a CI job."""
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        yield RunContext(
            environ=os.environ,
            progress=progress_for(sys.stderr),
            say=lambda line: say(line, err=True),
            redact=redactor(settings),
            system_log=Path(private) / SYSTEM_LOG,
        )


def end_of_run(run: RunDirectory) -> int:
    """Say what was scored, and return the exit code. Raises JudgeError for a judge that
    let planted wrong answers pass."""
    counts = run.manifest.counts
    say(
        f"{counted(counts.scored, 'sample')} scored, {counts.partly_failed} with a failed score, "
        f"{counts.system_failed} without an answer. Written to {shown_name(str(run.path))}."
    )
    error = credulity_error(run.manifest.judge, run.rounds.judge.planted)
    if error is not None:
        raise error
    answered = counts.scored + counts.partly_failed
    if counts.system_failed and not answered:
        return SystemUnderTestError.exit_code
    return 0


def run_to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work`; Ctrl-C and the signals of ENDING_SIGNALS cancel it, let it save, and
    raise Interrupted."""
    received = signal.SIGINT

    async def guarded() -> Result:
        task: Any = asyncio.current_task()  # is this

        def end(number: signal.Signals) -> None:
            nonlocal received
            received = number
            task.cancel()

        loop = asyncio.get_running_loop()
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # as nohup leaves it
            with contextlib.suppress(
                NotImplementedError
            ):  # Windows has no signal handlers in the loop
                loop.add_signal_handler(number, end, number)
        return await work

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise Interrupted(received) from None
    except KeyboardInterrupt:
        raise Interrupted(signal.SIGINT) from None
