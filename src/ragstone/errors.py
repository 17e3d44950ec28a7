"""The error tree: one class per cause, one exit code per class.

Every message is written for the person who sees it: what was found, where, what was
expected, and how to fix it. `cli.py` and `action.py` are the only places that turn an
error into an exit code.
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
"""What ends a job besides Ctrl-C: a runner that cancels it, a terminal or a connection
that is closed."""

EXIT_BUG = 70
"""An unexpected error, as in sysexits.h; never 1, which means that the gate failed."""


class RagstoneError(Exception):
    """Root of all errors that a user can cause and fix.

    `hint` is one sentence that says what to do; `where` is a location such as
    ``golden.jsonl:12``.
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
    def of(cls, error: RagstoneError, before: str = "") -> Self:
        """An `error` of another kind as one of this, with a text `before` its
        message."""
        return cls(before + error.message, where=error.where, hint=error.hint)

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
    """The judge failed as a whole (down, refused the key, out of budget), or coverage
    is too low."""

    exit_code = 5


class BaselineError(RagstoneError):
    """A baseline is required but missing, unreadable or not comparable."""

    exit_code = 6


class GitHubError(RagstoneError):
    """GitHub refused a request that the job depends on."""

    exit_code = 7


class Interrupted(RagstoneError):  # noqa: N818 - not an error of anyone
    """The run was interrupted by a signal: 128 + its number, as in shells (130 Ctrl-C,
    143 SIGTERM, 129 SIGHUP)."""

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
    """A run directory is missing, truncated beyond use, or has another schema
    version."""


def suggestion(found: str, known: Iterable[str]) -> str:
    """`Did you mean 'x'?` for the closest known name, else the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(found, names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Known: {', '.join(names)}."


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
"""What pydantic's types of errors say of a value."""


def expected(found: ErrorDetails) -> str:
    """The expected value, in words."""
    sentence = _EXPECTED.get(found["type"])
    if sentence is None:
        return (
            found["msg"]
            .removeprefix("Value error, ")
            .replace("Input should be", "must be")
        )
    return sentence.format(**found.get("ctx", {}))


@contextmanager
def disk_errors(
    where: Path | str,
    what: str = "can't be read",
    *,
    kind: type[RagstoneError] = ConfigError,
    hint: str | None = None,
) -> Iterator[None]:
    """Raise an OSError of the block as `kind`: "can't be read: Permission denied."."""
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
    """Raise the first problem that pydantic or msgspec found in the block as `kind`,
    after `what` and a colon."""
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
    """Place and expectation of the first problem that pydantic found; the expectation
    alone if it is the whole."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))[:200]
    sentence = expected(first)
    if not place:
        return sentence
    colon = ":"
    if sentence.startswith(("must ", "is ")):
        colon = ""
    return f"'{place}'{colon} {sentence}"


def first_in(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in `group`, or in the groups in it."""
    found = group.exceptions[0]
    return first_in(found) if isinstance(found, BaseExceptionGroup) else found


def first_invalid(
    errors: Sequence[ErrorDetails],
) -> tuple[tuple[int | str, ...], str, object]:
    """Place, expectation and value of the first of `errors`. A value that may be of
    several types has one for each."""
    first = errors[0]
    place, value = first["loc"], first["input"]
    same = [
        one for one in errors if one["loc"][:-1] == place[:-1] and one["input"] is value
    ]
    is_choice = len(same) >= 2 and len(place) >= 3
    if not is_choice or not isinstance(place[-1], str):
        return place, expected(first), value
    either = dict.fromkeys(map(expected, same))
    return place[:-1], " or ".join(either).replace(" or must be ", " or "), value
