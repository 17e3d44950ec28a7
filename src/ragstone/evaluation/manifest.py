"""manifest.json: describes a run, including everything that decides whether two runs
are comparable."""

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
    """Numbers that add up over runs, and names that are collected. None, which is not
    known, stays so."""

    def plus(self, addend: Self) -> Self:
        total: dict[str, Any] = {}
        for name, value in self:
            added = getattr(addend, name)
            if isinstance(value, tuple):
                total[name] = tuple(sorted({*value, *added}))
            else:
                unknown = value is None or added is None
                total[name] = None if unknown else value + added
        return type(self)(**total)


class SystemManifest(Part):
    """The system under test: its entrypoint, and its commit and version if known.

    `part` is the half that was evaluated, None for the whole. `conversations` is the
    number of samples with earlier turns that it must be given, and `takes_history`
    whether the entrypoint takes these (None if that can't be known).
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
    """The folder of the config in the repository, to which paths are relative; None if
    it is in none."""
    config: str | None = None
    """The name of the config file; None for the usual one."""
    flags: tuple[str, ...] = ()
    """The flags for the settings that differ from the config file, with their values."""
    changed: NonNegativeInt | None = None
    """How many files differed from the commit; None if that is not known."""
    tree: str | None = None
    """Git's name for the commit's files, from GitHub."""
    from_github: bool = False
    """The commit may have to be fetched."""


class GoldenManifest(Part):
    """The golden set: its files, its hash, and how many samples were to be evaluated.

    `limited`: a limit or a selection left samples out. `selected`: some were chosen by
    id or tag.
    """

    files: tuple[str, ...]
    content_hash: str
    samples: NonNegativeInt
    limited: bool = False
    selected: bool = False


class Counts(Part):
    """Samples by state. `scored`: no score failed; `partly_failed`: some did;
    `system_failed`: no response."""

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
        words; empty if none."""
        share = self.cached_input_tokens / max(1, self.input_tokens)
        if share < 0.005:
            return ""
        return f"{percent(share)} of the input from the provider's cache"


class BaselineUsed(Part):
    """The run that a run was compared with. `run_id` is GitHub's id, if it came from
    there.

    `artifact_run_id` and `artifact` say in which artifact of which run it was.
    """

    fingerprint: str
    created_at: str
    commit: str | None = None
    run_id: int | None = None
    artifact_run_id: int | None = None
    artifact: str | None = None


GOLDEN_SET = "golden set"
"""Stands for the metric where an edit of the golden set is accepted; its size is a
share of the baseline's samples."""


_MAX_TEXT = 500


def _cut(text: str) -> str:
    return text[:_MAX_TEXT]


Text = Annotated[str, AfterValidator(_cut)]
"""Of a longer text, what comes first."""


class AcceptedDrop(Part):
    """An accepted drop in force in a run: its id in accepted.toml, and its size."""

    id: Text
    metric: Text
    slice: Text | None = None
    drop: float = Field(ge=0, le=1)


class BaselineFact(Part):
    """Whether later runs can be compared with this one, and what it was itself compared
    with.

    `lineage` has the fingerprints of earlier baselines, newest first. `accepted` are
    the drops in force in this run; `spent` are the ids of all drops that its scores
    include, its own and those of its baselines.
    """

    eligible: bool
    reason: str
    used: BaselineUsed | None = None
    lineage: tuple[str, ...] = ()
    accepted: tuple[AcceptedDrop, ...] = ()
    spent: tuple[str, ...] = ()


class Manifest(Part):
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
    answers: PositiveInt = 1
    """How often the system was asked each question."""
    earlier: tuple[PositiveInt, ...] = ()
    """How many of the answers are of each earlier run of the same files, the newest
    first."""
    policy_hash: str | None = None
    counts: Counts = Counts()
    cost: Cost = Cost()
    price: SystemPrice | None = None
    """Of the system's tokens."""
    wall_s: NonNegativeFloat = 0.0
    verdict: Literal["pass", "fail", "inconclusive", "error"] | None = None
    stop_reason: str | None = None
    baseline: BaselineFact | None = None
    same_job: bool = False
    """Whether it is the run of a base commit, asked in the same job as the run compared
    with it."""
    oracle_of: str | None = None
    """Of an oracle half: when its run was started."""
    invocation: Invocation | None = None

    @property
    def own_answers(self) -> int:
        """How often this run itself asked each question; its answers come before those
        of earlier runs."""
        return self.answers - sum(self.earlier)

    @property
    def day(self) -> date:
        """The start date of the run, in UTC."""
        try:
            return datetime.fromisoformat(self.created_at).astimezone(UTC).date()
        except (ValueError, OverflowError):
            return date.min

    @property
    def used(self) -> BaselineUsed | None:
        """The run that this one was compared with."""
        return None if self.baseline is None else self.baseline.used

    @property
    def standing(self) -> BaselineFact:
        """Whether this run can be a baseline. If it is not recorded, its state and
        verdict decide."""
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
