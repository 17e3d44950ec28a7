"""One job on GitHub, as its event and its plan have it: all that follows is made from
it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from ragstone.evaluation.redact import Redactor
from ragstone.github.annotations import Places
from ragstone.github.api.client import GitHubApi
from ragstone.github.api.event import Event
from ragstone.github.api.reviewed import ReviewedBase
from ragstone.github.container.container import Container
from ragstone.github.inputs import ActionInputs
from ragstone.github.plan import JobPlan
from ragstone.report.parts import Links
from ragstone.settings.settings import Settings
from ragstone.settings.variables import Environ


class Job(Struct, frozen=True):
    """What a job is asked to do, and what it works with.

    `settings` are those of the checkout, which a pull request may have written. `base`
    is what the job trusts. `temporary` is a folder of the job's own.
    """

    settings: Settings
    environ: Environ
    inputs: ActionInputs
    out: TextIO
    container: Container | None
    event: Event
    base: ReviewedBase
    plan: JobPlan
    redact: Redactor
    places: Places
    api: GitHubApi | None
    temporary: Path
    now: Callable[[], datetime]

    def links(self, sha: str, run: str, baseline: str | None) -> Links:
        """The addresses in a report: of the files at commit `sha`, of the `run`, of
        what it is compared with."""
        blob = self.event.address_of("blob", sha)
        return Links(
            origin=lambda origin: self.places.link(origin, blob),
            run=run,
            baseline=baseline,
        )
