"""The error tree: one class per cause, one exit code per class.

Every message is written for the person who sees it: what was found, where, what was expected, and how to fix it.
`cli.py` and `action.py` are the only places that turn an error into an exit code.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_PASS = 0
EXIT_GATE_FAILED = 1
EXIT_INCONCLUSIVE = 8
EXIT_BUG = 70
"""An unexpected error, as in sysexits.h; never 1, which means that the gate failed."""


class RagstoneError(Exception):
    """Root of all errors that a user can cause and fix.

    `hint` is one sentence that says what to do; `where` is a location such as ``golden.jsonl:12``.
    """

    exit_code = 2

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  {self.hint}" if self.hint else text


class ConfigError(RagstoneError):
    """Usage or configuration is wrong: a flag, ragstone.toml, thresholds.toml, the environment."""

    exit_code = 2


class GoldenSetError(RagstoneError):
    """The golden set can't be read, or is not valid."""

    exit_code = 3


class SystemUnderTestError(RagstoneError):
    """The system under test could not be started, or failed as a whole."""

    exit_code = 4


class JudgeError(RagstoneError):
    """The judge failed as a whole (down, refused the key, out of budget), or coverage is too low."""

    exit_code = 5


class BaselineError(RagstoneError):
    """A baseline is required but missing, unreadable or not comparable."""

    exit_code = 6


class PlatformError(RagstoneError):
    """A CI system or code host refused a request that the job depends on."""

    exit_code = 7


class GitHubError(PlatformError):
    """GitHub refused a request that the job depends on."""


class ExportError(PlatformError):
    """A tracker or a collector could not be reached, or refused what was exported."""


class Interrupted(RagstoneError):  # noqa: N818 - not an error of anyone
    """The run was interrupted by a signal: 128 + its number, as in shells (130 Ctrl-C, 143 SIGTERM)."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted.")
        self.exit_code = 128 + signal_number


class TimeLimitReached(RagstoneError):  # noqa: N818 - not an error of anyone
    """The total time limit was reached; exits like timeout(1)."""

    exit_code = 124

    def __init__(self, during: str = "") -> None:
        super().__init__(
            f"the time limit was reached{during}.",
            where="run.time_limit_s",
            hint="Finished samples are saved: continue with --resume, or raise the limit.",
        )


class RunDirectoryError(ConfigError):
    """A run directory is missing, truncated beyond use, or has another schema version."""


def suggestion(found: str, known: Iterable[str]) -> str:
    """`Did you mean 'x'?` for the closest known name, else the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(found, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known: {', '.join(names)}."
