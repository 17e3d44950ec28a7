"""One job on GitHub: its event, its plan, and what it works with."""

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
from ragstone.github.job_plan import JobPlan
from ragstone.report.parts import Links
from ragstone.settings.settings import Settings
from ragstone.settings.variables import Environ


class Job(Struct, frozen=True):
    """What a job is to do, and what it works with."""

    settings: Settings
    """Those of the checkout, which the author of a pull request may have written."""
    environ: Environ
    inputs: ActionInputs
    out: TextIO
    container: Container | None
    event: Event
    base: ReviewedBase
    """What the job trusts."""
    plan: JobPlan
    redact: Redactor
    places: Places
    api: GitHubApi | None
    """None without a token."""
    temporary: Path
    """A folder that only this job uses."""
    now: Callable[[], datetime]

    def links(self, sha: str, run_url: str, baseline_url: str | None) -> Links:
        """The links of a report: to files at commit `sha`, to the run, and to what the
        run is compared with."""
        blob_url = self.event.address_of("blob", sha)
        return Links(
            origin=lambda origin: self.places.link(origin, blob_url),
            run=run_url,
            baseline=baseline_url,
        )
