"""The environment of a use case, passed in by an entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ragstone.evaluation.engine import Progress
from ragstone.evaluation.redact import Redactor
from ragstone.system.response import System


class RunContext(Struct, frozen=True):
    """The environment of a use case, passed in by an entry point.

    `redact` removes Ragstone's secrets from a text; `say` shows one line to the user.
    `trusts_checkout` is False if the files there may come from the author under test
    (on GitHub): then records found there are not resumed from, and judgements found
    there are not reused. `system_log` is a private file for the output of the system
    under test; it is stored in the run directory, redacted. `system_factory` builds
    systems where the entry point does it in a way of its own (a sandbox, an object of
    the caller's).
    """

    environ: Mapping[str, str]
    progress: Progress = field(default_factory=Progress)
    say: Callable[[str], None] = lambda _line: None
    redact: Redactor = field(default_factory=lambda: Redactor(()))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    trusts_checkout: bool = True
    system_log: Path | None = None
    system_factory: Callable[..., System] | None = None

    def quiet(self, log: str | None = None) -> RunContext:
        """The context of a round beside another one: it says nothing. `log` begins the
        name of its system's log."""
        own = self.system_log
        system_log = (
            None if own is None or log is None else own.with_name(f"{log}-{own.name}")
        )
        return replace(
            self, progress=Progress(), say=lambda _line: None, system_log=system_log
        )
