"""What a use case needs from its surroundings: clock, environment, output."""

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
    """What a use case needs from its surroundings, passed in by an entry point.

    - `environ`: the environment variables that may be read.
    - `say`: shows one line to the user.
    - `redact`: removes Ragstone's secrets from a text.
    - `now`: the clock.
    - `trusts_checkout`: False if the files in the run directory may come from the
      author under test (on GitHub). Then no run there is resumed, and no judgement
      reused.
    - `system_log`: a private file for the output of the system under test. It is
      redacted and stored in the run directory.
    - `system_factory`: builds systems instead of their settings, where the entry point
      has a sandbox, or an object of the caller's.
    """

    environ: Mapping[str, str]
    progress: Progress = field(default_factory=Progress)
    say: Callable[[str], None] = lambda _line: None
    redact: Redactor = field(default_factory=lambda: Redactor(()))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    trusts_checkout: bool = True
    system_log: Path | None = None
    system_factory: Callable[..., System] | None = None

    def quiet(self, log_prefix: str | None = None) -> RunContext:
        """This context for an additional round, which shows nothing to the user. The
        name of its system's log gets `log_prefix`; None for no log."""
        system_log = None
        if self.system_log is not None and log_prefix is not None:
            log_name = f"{log_prefix}-{self.system_log.name}"
            system_log = self.system_log.with_name(log_name)
        return replace(
            self, progress=Progress(), say=lambda _line: None, system_log=system_log
        )
