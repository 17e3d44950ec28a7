"""The lines of history.jsonl, strictly parsed: one for each run, and one for each set of
samples that runs have scores of."""

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
_MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
Count = Annotated[int, Field(ge=0, le=_MAX_INTEGER)]
Number = Annotated[int, Field(ge=1, le=_MAX_INTEGER)]
Verdict = Literal["pass", "fail", "inconclusive", "error", "none"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


def _in_utc(value: datetime) -> datetime:
    try:
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC, it is outside the years 1 to 9999") from None


Time = Annotated[datetime, AfterValidator(_in_utc)]


class MeanPart(Part):
    """A mean with its 95 % interval."""

    mean: Share
    low: Share
    high: Share
    n: Number
    """The number of samples."""


class BelowPart(Part):
    """A loss of a metric on the main branch that is not over, or is over since this
    run."""

    metric: Text
    slice: Text | None = None
    since: Key
    """The fingerprint of the run with which it began."""
    commit: Text | None = None
    """The commit of the run with which it began."""
    loss: Share
    shown: bool
    """False for a suspicion."""
    merges: Count = 0
    """How many runs came after the one with which it began."""
    until: Key | None = None
    """The fingerprint of the first run that is healthy again."""


class FigurePart(Part):
    """A figure of a window."""

    value: float = Field(ge=0.0, allow_inf_nan=False)
    n: Count = 0
    """The number of answers behind the value; 0 if the value is itself a count."""


class WindowPart(Part):
    """The figures of a window of production, from the `time` of its line to `end`."""

    end: Time
    figures: dict[Text, FigurePart]
    alerts: tuple[Text, ...] = ()
    """The figures and metrics that were beyond what is allowed."""


class RunLine(Part):
    """One run of the main branch. A run without a verdict is shown, but not
    compared."""

    kind: Literal["run"] = "run"
    schema_version: Literal[1] = SCHEMA_VERSION
    run: Key
    """The run's fingerprint."""
    time: Time
    """When the run started."""
    commit: Text | None = None
    pull_request: Number | None = None
    """The pull request that was merged, if it is known."""
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
    """The name of the judge, for people."""
    judge_key: Key
    """Hash of everything that distinguishes one judge from another."""
    golden: Text
    """Hash of the golden set."""
    system: Text | None = None
    """The version that the system under test names."""
    part: Literal["retrieval", "generation"] | None = None
    """The half of the system that was evaluated; null for the whole system."""
    metrics: dict[Text, MeanPart]
    versions: dict[Text, Text]
    """The version of each metric."""
    slices: dict[Text, dict[Text, MeanPart]] = Field(default_factory=dict)
    coverage: Share
    latency_p50_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cost_usd: float | None = Field(default=0.0, ge=0, allow_inf_nan=False)
    accepted: tuple[AcceptedDrop, ...] = ()
    """The accepted drops that were in force."""
    below: tuple[BelowPart, ...] = ()
    """Losses that are not over, or are over since this run."""
    samples: Key | None = None
    """The key of the line that lists the samples of `scores`."""
    scores: dict[Text, str] = Field(default_factory=dict)
    """The encoded scores of each metric: base64 of two bytes for each sample."""
    window: WindowPart | None = None
    """The window of production that the run evaluated; null for other runs."""

    @property
    def attempt(self) -> tuple[str, int | None, str | None]:
        """What identifies the run; its fingerprint alone may be that of another run
        that began in the same second."""
        return self.run, self.github_run, self.commit

    @property
    def figures(self) -> dict[str, FigurePart]:
        """The figures of the window of production; empty for other runs."""
        if self.window is None:
            return {}
        return self.window.figures


class SamplesLine(Part):
    """A set of samples that runs have scores of, and refer to by its key."""

    kind: Literal["samples"] = "samples"
    schema_version: Literal[1] = SCHEMA_VERSION
    key: Key
    ids: tuple[Code, ...]
    """The codes of the samples."""
    groups: tuple[Count, ...] | None = None
    """The number of each sample's group; null if there are no groups."""


AnyLine = RunLine | SamplesLine


@cache
def line_adapter() -> TypeAdapter[AnyLine]:
    """The parser of a line of either kind."""
    return TypeAdapter(Annotated[AnyLine, Field(discriminator="kind")])


def line_text(line: AnyLine) -> str:
    """`line` as JSON in ASCII, without default values and without a line end."""
    body = {"kind": line.kind, "schema_version": line.schema_version}
    body.update(line.model_dump(mode="json", exclude_defaults=True))
    return json.dumps(body, separators=(",", ":"), allow_nan=False)
