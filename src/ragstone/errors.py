"""The error tree: one class per cause, one exit code per class.

Every message is written for the person who sees it: what was found, where, what was
expected, and how to fix it. Only the entry points (`cli/main.py` and
`github/run_job.py`) turn an error into an exit code.
"""

from __future__ import annotations

import difflib
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ragstone.printable import shown_name

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, ValidationError

EXIT_PASS = 0
EXIT_GATE_FAILED = 1
EXIT_INCONCLUSIVE = 8
ENDING_SIGNALS = (
    (signal.SIGTERM, signal.SIGHUP) if sys.platform != "win32" else (signal.SIGTERM,)
)
"""The signals that end a job besides Ctrl-C: a runner cancels it, or its terminal or
connection is closed."""

EXIT_BUG = 70
"""An unexpected error, as in sysexits.h; never 1, which means that the gate failed."""


class RagstoneError(Exception):
    """The base class of all errors that a user can cause and fix.

    `where` is a location such as ``golden.jsonl:12``. `hint` is a sentence that says how
    to fix the error.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    @classmethod
    def of(cls, error: RagstoneError, prefix: str = "") -> Self:
        """An error of this class with the message of `error`, after a `prefix`."""
        return cls(prefix + error.message, where=error.where, hint=error.hint)

    def __str__(self) -> str:
        text = (
            f"{shown_name(self.where)}: {self.message}" if self.where else self.message
        )
        return f"{text}\n  {self.hint}" if self.hint else text


class ConfigError(RagstoneError):
    """Usage or configuration is wrong: a flag, ragstone.toml, thresholds.toml, the
    environment."""

    exit_code = 2


class GoldenSetError(RagstoneError):
    """The golden set can't be read, or is not valid."""

    exit_code = 3


class SystemUnderTestError(RagstoneError):
    """The system under test could not be started, or failed as a whole."""

    exit_code = 4


class JudgeError(RagstoneError):
    """The judge failed as a whole (it is down, refused the key or is out of budget), or
    coverage is too low."""

    exit_code = 5


class BaselineError(RagstoneError):
    """A baseline is required but missing, unreadable or not comparable."""

    exit_code = 6


class GitHubError(RagstoneError):
    """GitHub refused a request that the job depends on."""

    exit_code = 7


class Interrupted(RagstoneError):  # noqa: N818 - nobody's mistake
    """The run was interrupted by a signal. The exit code is 128 + its number, as in
    shells: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("interrupted.")
        self.exit_code = 128 + signal_number


class TimeLimitReached(RagstoneError):  # noqa: N818 - nobody's mistake
    """The time limit of the whole run was reached. The exit code is that of
    timeout(1)."""

    exit_code = 124

    def __init__(
        self,
        during: str = "",
        *,
        hint: str = "Finished samples are saved. Continue with --resume, or raise the limit.",
    ) -> None:
        super().__init__(
            f"the time limit was reached{during}.",
            where="run.time_limit_s",
            hint=hint,
        )


class RunDirectoryError(ConfigError):
    """A run directory is missing, truncated beyond use, or has another schema
    version."""


def suggestion(found: str, known: Iterable[str]) -> str:
    """A hint about an unknown name: ``Did you mean 'x'?`` for the closest known one, or
    else the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(found, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known: {', '.join(names)}."


_MAX_PLACE_CHARACTERS = 200

_EXPECTED = {
    "missing": "is missing",
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "date_type": "must be a date such as 2027-01-31, without quotation marks",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a string",
    "finite_number": "must be a number, not NaN or infinity",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
}
"""The expectation behind each of pydantic's types of errors."""


def expected(details: ErrorDetails) -> str:
    """What pydantic expected of a value, as a clause such as ``must be a number``."""
    clause = _EXPECTED.get(details["type"])
    if clause is None:
        message = details["msg"].removeprefix("Value error, ")
        return message.replace("Input should be", "must be")
    return clause.format(**details.get("ctx", {}))


@contextmanager
def disk_errors(
    where: Path | str,
    what: str = "can't be read",
    *,
    kind: type[RagstoneError] = ConfigError,
    hint: str | None = None,
) -> Iterator[None]:
    """Raise an OSError in the block as `kind`, such as ``can't be read: Permission
    denied.``"""
    try:
        yield
    except OSError as error:
        raise kind(
            f"{what}: {error.strerror or error}.", where=str(where), hint=hint
        ) from None


@contextmanager
def parse_errors(
    where: Path | str | None,
    what: str,
    *,
    kind: type[RagstoneError] = ConfigError,
    hint: str | None = None,
) -> Iterator[None]:
    """Raise the first problem that pydantic or msgspec finds in the block as `kind`.
    The message is `what`, a colon and the problem."""
    from msgspec import DecodeError
    from pydantic_core import ValidationError

    try:
        yield
    except ValidationError as error:
        problem = first_problem(error)
    except DecodeError as error:
        problem = str(error)
    except RecursionError:
        problem = "its values are nested too deeply"
    else:
        return
    raise kind(
        f"{what}: {problem}.", where=None if where is None else str(where), hint=hint
    )


def first_problem(error: ValidationError) -> str:
    """The place and the expectation of the first problem that pydantic found. If the
    problem is with the value as a whole, there is no place."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))[:_MAX_PLACE_CHARACTERS]
    expectation = expected(first)
    if not place:
        return expectation
    colon = ":"
    if expectation.startswith(("must ", "is ")):
        colon = ""
    return f"'{place}'{colon} {expectation}"


def first_in(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in `group`, or in the groups in it."""
    first = group.exceptions[0]
    return first_in(first) if isinstance(first, BaseExceptionGroup) else first


def first_invalid(
    errors: Sequence[ErrorDetails],
) -> tuple[tuple[int | str, ...], str, object]:
    """The place, the expectation and the value of the first of `errors`.

    For a value that may be of several types, pydantic has an error for each type, with
    the type at the end of its place. Their expectations are joined.
    """
    first = errors[0]
    place, value = first["loc"], first["input"]
    of_same_value = [
        error
        for error in errors
        if error["loc"][:-1] == place[:-1] and error["input"] is value
    ]
    has_types = len(of_same_value) >= 2 and len(place) >= 3
    if not has_types or not isinstance(place[-1], str):
        return place, expected(first), value
    expectations = dict.fromkeys(map(expected, of_same_value))
    joined = " or ".join(expectations).replace(" or must be ", " or ")
    return place[:-1], joined, value
