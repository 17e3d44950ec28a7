"""The lines of history.jsonl, strictly parsed: one per run, and one per set of samples
of these."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter

from ragstone.evaluation.manifest import AcceptedDrop, Part, Text

SCHEMA_VERSION: Literal[1] = 1

Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{8}$")]
Event = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]
_MAX_WHOLE = 2**53 - 1
"""Every reader of JSON has whole numbers up to here."""
Count = Annotated[int, Field(ge=0, le=_MAX_WHOLE)]
Number = Annotated[int, Field(ge=1, le=_MAX_WHOLE)]
Verdict = Literal["pass", "fail", "inconclusive", "error", "none"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


def _in_utc(value: datetime) -> datetime:
    try:
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC, it is not in the years 1 to 9999") from None


Time = Annotated[datetime, AfterValidator(_in_utc)]


class MeanPart(Part):
    """A mean with its 95 % interval."""

    mean: Share
    low: Share
    high: Share
    n: Number
    """The number of samples."""


class BelowPart(Part):
    """A loss of a metric on the main branch that is not over, or is over with this
    run."""

    metric: Text
    slice: Text | None = None
    since: Key
    """The run with which it began."""
    commit: Text | None = None
    """The commit of that run."""
    loss: Share
    shown: bool
    """It is False for a suspicion."""
    merges: Count = 0
    """The runs after the one with which it began."""
    until: Key | None = None
    """The first run that counts as healthy again."""


class FigurePart(Part):
    """A figure of a window: its value, and of how many answers it is (0: it is a
    count)."""

    value: float = Field(ge=0.0, allow_inf_nan=False)
    n: Count = 0


class WindowPart(Part):
    """A window of production, from the `time` of its line to `end`: its figures, and
    the means of its metrics."""

    end: Time
    figures: dict[Text, FigurePart]
    alerts: tuple[Text, ...] = ()
    """Figures and metrics that were beyond what is allowed."""


class RunLine(Part):
    """One run of the main branch; without a verdict, any run, which is shown and
    compared with nothing by itself."""

    kind: Literal["run"] = "run"
    schema_version: Literal[1] = SCHEMA_VERSION
    run: Key
    """The run's fingerprint."""
    time: Time
    """When it started."""
    commit: Text | None = None
    pull_request: Number | None = None
    """The one that was merged, where it is known."""
    release: Text | None = None
    """The release or tag of this commit."""
    github_run: Number | None = None
    """GitHub's id of the workflow run."""
    event: Event | None = None
    """What started the job, as GitHub names it."""
    verdict: Verdict
    eligible: bool
    """Whether it may be a baseline."""
    judge: Text
    """Its name, for people."""
    judge_key: Key
    """Hash of all that tells one judge from another."""
    golden: Text
    """Hash of the golden set."""
    system: Text | None = None
    """The version that the system under test names."""
    part: Literal["retrieval", "generation"] | None = None
    """The half of the system that was evaluated; null: the whole."""
    metrics: dict[Text, MeanPart]
    versions: dict[Text, Text]
    """Metric to its version."""
    slices: dict[Text, dict[Text, MeanPart]] = Field(default_factory=dict)
    coverage: Share
    latency_p50_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cost_usd: float | None = Field(default=0.0, ge=0, allow_inf_nan=False)
    accepted: tuple[AcceptedDrop, ...] = ()
    """The accepted drops that were in force."""
    below: tuple[BelowPart, ...] = ()
    """Losses that are not over, or are over with this run."""
    samples: Key | None = None
    """Key of the line that names the samples of `scores`."""
    scores: dict[Text, str] = Field(default_factory=dict)
    """Metric to base64 of two bytes a sample."""
    window: WindowPart | None = None
    """What was logged in production; null for other runs."""

    @property
    def attempt(self) -> tuple[str, int | None, str | None]:
        """What tells it from other runs: those that began in the same second may have
        the same name."""
        return self.run, self.github_run, self.commit

    @property
    def figures(self) -> dict[str, FigurePart]:
        """The figures of its window."""
        if self.window is None:
            return {}
        return self.window.figures


class SamplesLine(Part):
    """The samples that lines refer to, each by its code, and the numbers of their
    groups, if there are any."""

    kind: Literal["samples"] = "samples"
    schema_version: Literal[1] = SCHEMA_VERSION
    key: Key
    ids: tuple[Code, ...]
    groups: tuple[Count, ...] | None = None


AnyLine = RunLine | SamplesLine


@cache
def line_adapter() -> TypeAdapter[AnyLine]:
    """Parses a line of either kind."""
    return TypeAdapter(Annotated[AnyLine, Field(discriminator="kind")])


def line_text(line: AnyLine) -> str:
    """`line` as JSON without a line end, in ASCII, without defaults."""
    body = {"kind": line.kind, "schema_version": line.schema_version}
    body.update(line.model_dump(mode="json", exclude_defaults=True))
    return json.dumps(body, separators=(",", ":"), allow_nan=False)
