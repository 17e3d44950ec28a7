"""What the command line passes to a use case: the environment, the terminal, the signals
and the secrets of its process."""

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
    """A redactor that removes the secrets of the environment and the config from a
    text."""
    return Redactor(known_secrets(os.environ, settings))


@contextlib.contextmanager
def run_context(settings: Settings) -> Iterator[RunContext]:
    """What a run is given by its process, at a terminal or in a CI job."""
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private:
        yield RunContext(
            environ=os.environ,
            progress=progress_for(sys.stderr),
            say=lambda line: say(line, err=True),
            redact=redactor(settings),
            system_log=Path(private) / SYSTEM_LOG,
        )


def report_run(run: RunDirectory) -> int:
    """Print what was scored, and return the exit code of the command. Raises JudgeError if the judge
    let the planted wrong answers pass."""
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


def run_until_done(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work`. Ctrl-C and ENDING_SIGNALS cancel it, so that it can save what it has,
    and then raise Interrupted."""
    ending_signal = signal.SIGINT

    async def work_until_signal() -> Result:
        task: Any = asyncio.current_task()

        def cancel(signal_number: signal.Signals) -> None:
            nonlocal ending_signal
            ending_signal = signal_number
            task.cancel()

        loop = asyncio.get_running_loop()
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup ignores SIGHUP, and so do we
            # On Windows, event loops have no signal handlers.
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, cancel, number)
        return await work

    try:
        return asyncio.run(work_until_signal())
    except asyncio.CancelledError:
        raise Interrupted(ending_signal) from None
    except KeyboardInterrupt:
        raise Interrupted(signal.SIGINT) from None
