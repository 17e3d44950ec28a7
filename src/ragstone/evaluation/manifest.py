"""manifest.json: the description of a run, with everything that decides whether two runs
can be compared."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
)

from ragstone.formatting import percent
from ragstone.judge.protocol import JudgeIdentity, Ledger
from ragstone.settings.settings import SystemPrice

SELECTED = "it asked only the questions that were chosen"
SAME_JOB = "it is the run of a base commit, made for one comparison only"


class Part(BaseModel):
    """A part of a file in a run directory."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class Summed(Part):
    """Numbers and names that can be added over runs."""

    def plus(self, addend: Self) -> Self:
        """Add the numbers, and merge the names. A number that is unknown in one is
        unknown in the sum."""
        total: dict[str, Any] = {}
        for name, value in self:
            added = getattr(addend, name)
            if isinstance(value, tuple):
                total[name] = tuple(sorted({*value, *added}))
            else:
                is_unknown = value is None or added is None
                total[name] = None if is_unknown else value + added
        return type(self)(**total)


class SystemManifest(Part):
    """The system under test.

    - `commit`, `version`: None if they are not known.
    - `part`: the half that was evaluated; None for the whole system.
    - `conversations`: how many samples have earlier turns that the system must be given.
    - `takes_history`: whether it takes earlier turns; None if that can't be known.
    """

    entrypoint: str
    commit: str | None = None
    version: str | None = None
    part: Literal["retrieval", "generation"] | None = None
    conversations: NonNegativeInt = 0
    takes_history: bool | None = None


class Invocation(Part):
    """How the run was started, for the commands that reproduce it."""

    command: Literal["run", "gate"]
    folder: str | None = None
    """The folder of the config in its repository, to which paths are relative; None
    outside of a repository."""
    config: str | None = None
    """The name of the config file; None for the default one."""
    flags: tuple[str, ...] = ()
    """The flags for the settings that differ from the config file, with their values."""
    changed: NonNegativeInt | None = None
    """How many files differed from the commit; None if that is not known."""
    tree: str | None = None
    """The id of the commit's git tree, from GitHub."""
    from_github: bool = False
    """Whether it was a job on GitHub, whose commit may have to be fetched first."""


class GoldenManifest(Part):
    """The golden set of a run.

    - `samples`: how many samples were to be evaluated.
    - `limited`: whether a limit or a selection left samples out.
    - `selected`: whether samples were selected by id or tag.
    """

    files: tuple[str, ...]
    content_hash: str
    samples: NonNegativeInt
    limited: bool = False
    selected: bool = False


class Counts(Part):
    """The number of samples by state.

    - `scored`: every score was computed, or does not apply.
    - `partly_failed`: a score failed.
    - `system_failed`: a response of the system failed.
    """

    scored: NonNegativeInt = 0
    partly_failed: NonNegativeInt = 0
    system_failed: NonNegativeInt = 0

    @property
    def total(self) -> int:
        return self.scored + self.partly_failed + self.system_failed


class Cost(Summed):
    """The cost of judging. `usd` is None if the price of a call is unknown."""

    calls: NonNegativeInt = 0
    cached_calls: NonNegativeInt = 0
    input_tokens: NonNegativeInt = 0
    cached_input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    usd: NonNegativeFloat | None = 0.0

    @classmethod
    def of(cls, ledger: Ledger) -> Cost:
        amounts = asdict(ledger)
        return cls(usd=amounts.pop("cost_usd"), **amounts)

    @property
    def cached_share(self) -> str:
        """The share of the input that the provider read from its prompt cache, in
        words; empty if it rounds to 0 %."""
        share = self.cached_input_tokens / max(1, self.input_tokens)
        if share < 0.005:
            return ""
        return f"{percent(share)} of the input from the provider's cache"


class BaselineUsed(Part):
    """The run that a run was compared with.

    - `run_id`: the id of its workflow run, if it came from GitHub.
    - `artifact_run_id`, `artifact`: the workflow run and name of the artifact that it
      was read from.
    """

    fingerprint: str
    created_at: str
    commit: str | None = None
    run_id: int | None = None
    artifact_run_id: int | None = None
    artifact: str | None = None


GOLDEN_SET = "golden set"
"""Stands for the metric of an accepted edit of the golden set, whose size is a share of
the baseline's samples."""


_MAX_TEXT_CHARACTERS = 500


def _clip(text: str) -> str:
    return text[:_MAX_TEXT_CHARACTERS]


Text = Annotated[str, AfterValidator(_clip)]
"""A text, clipped."""


class AcceptedDrop(Part):
    """An accepted drop in force in a run: its id in accepted.toml, and its size."""

    id: Text
    metric: Text
    slice: Text | None = None
    drop: float = Field(ge=0, le=1)


class BaselineFact(Part):
    """Whether later runs can be compared with this run, and what it was itself compared
    with.

    - `eligible`: whether the run can be a baseline; `reason` says why, or why not.
    - `used`: the run that it was compared with.
    - `lineage`: the fingerprints of the baselines before it, the newest first.
    - `accepted`: the accepted drops that were in force in this run.
    - `spent`: the ids of all accepted drops that its scores include: its own, and those
      of its baselines.
    """

    eligible: bool
    reason: str
    used: BaselineUsed | None = None
    lineage: tuple[str, ...] = ()
    accepted: tuple[AcceptedDrop, ...] = ()
    spent: tuple[str, ...] = ()


class Manifest(Part):
    """The description of a run."""

    schema_version: Literal[2] = 2
    ragstone_version: str
    state: Literal["running", "finished", "stopped"]
    created_at: str
    golden: GoldenManifest
    judge: JudgeIdentity
    system: SystemManifest
    metrics: dict[str, str]
    """The version of each metric."""
    repeats: PositiveInt = 1
    """How often each answer was judged."""
    answers: PositiveInt = 1
    """How often the system was asked each question."""
    earlier: tuple[PositiveInt, ...] = ()
    """How many of the answers come from each earlier run of the same files, the newest
    run first."""
    policy_hash: str | None = None
    counts: Counts = Counts()
    cost: Cost = Cost()
    price: SystemPrice | None = None
    """The price of the system's tokens."""
    wall_s: NonNegativeFloat = 0.0
    verdict: Literal["pass", "fail", "inconclusive", "error"] | None = None
    stop_reason: str | None = None
    baseline: BaselineFact | None = None
    same_job: bool = False
    """Whether this is the run of a base commit, evaluated in the same job as the run
    that is compared with it."""
    oracle_of: str | None = None
    """The start time of the run that this is the oracle half of; None if it is none."""
    invocation: Invocation | None = None

    @property
    def own_answers(self) -> int:
        """How many answers to each question this run got itself; they come before those
        of earlier runs."""
        return self.answers - sum(self.earlier)

    @property
    def day(self) -> date:
        """The start date of the run, in UTC; the earliest date if it is not valid."""
        try:
            return datetime.fromisoformat(self.created_at).astimezone(UTC).date()
        except (ValueError, OverflowError):
            return date.min

    @property
    def used(self) -> BaselineUsed | None:
        """The run that this one was compared with; None if there was none."""
        return None if self.baseline is None else self.baseline.used

    @property
    def standing(self) -> BaselineFact:
        """Whether this run can be a baseline, and why. Without a recorded decision, its
        state and verdict decide."""
        reason = ""
        if self.state != "finished":
            reason = f"the run was {self.state}, not finished"
        elif self.oracle_of is not None:
            reason = "it is the oracle half of a run, with the contexts given"
        elif self.golden.selected:
            reason = SELECTED
        elif self.baseline is not None:
            return self.baseline
        elif self.verdict in ("fail", "error"):
            reason = f"its verdict was {self.verdict}"
        return BaselineFact(
            eligible=not reason,
            reason=reason or "it finished, and no verdict is against it",
        )
