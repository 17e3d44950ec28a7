"""manifest.json: what a run was, in terms that make two runs comparable or not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ragstone.judge.names import OFFLINE_PROVIDERS, judge_label

SCHEMA_VERSION: Literal[1] = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JudgeManifest(_Part):
    """The judge's identity, as judge/protocol.py has it."""

    provider: str
    model: str
    version: str
    endpoint: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    embeddings: str | None = None

    def label(self) -> str:
        return judge_label(self.provider, self.model, self.version)

    @property
    def offline(self) -> bool:
        """Whether it judges without a language model."""
        return self.provider in OFFLINE_PROVIDERS


class Observed(_Part):
    """What the judge said that it is, and how it took to be asked: of all its replies in a run, each once, sorted.

    `models` and `fingerprints` are the provider's words; `ways` are those in which replies were held to a schema.
    Judgements that were taken over from a baseline count with what was observed for that.
    """

    models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()


class Canaries(_Part):
    """Judgements of the baseline that were asked for again: how many answered, and how many verdicts differ.

    `models` is who answered, in the provider's words.
    """

    asked: int = Field(ge=0)
    differing: int = Field(ge=0)
    unanswered: int = Field(default=0, ge=0)
    supported_then: int = Field(default=0, ge=0)
    supported_now: int = Field(default=0, ge=0)
    models: tuple[str, ...] = ()


class SystemManifest(_Part):
    """The system under test: its entrypoint, and the commit and the version of it where they are known."""

    entrypoint: str
    commit: str | None = None
    version: str | None = None


class GoldenManifest(_Part):
    """The golden set: its files, its hash, and how many samples were to be evaluated."""

    files: tuple[str, ...]
    content_hash: str
    samples: int = Field(ge=0)


class Counts(_Part):
    """Samples by state. `scored`: no score failed; `partly_failed`: some did; `system_failed`: no response."""

    scored: int = Field(default=0, ge=0)
    partly_failed: int = Field(default=0, ge=0)
    system_failed: int = Field(default=0, ge=0)


class Cost(_Part):
    """What judging cost. `usd` is None when some call had no known price."""

    calls: int = Field(default=0, ge=0)
    cached_calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    cached_input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    usd: float | None = Field(default=0.0, ge=0)


class BaselineUsed(_Part):
    """The run that a run was compared with. `run_id` is GitHub's, where it came from there."""

    fingerprint: str
    created_at: str
    commit: str | None = None
    run_id: int | None = None


class AcceptedDrop(_Part):
    """An accepted drop that was in force in a run: its id in accepted.toml, and how large it is."""

    id: str
    metric: str
    slice: str | None = None
    drop: float = Field(ge=0, le=1)


class BaselineFact(_Part):
    """Whether later runs may be compared with this one, and what it was itself compared with.

    `lineage` holds the fingerprints of the baselines before it, the newest first. `accepted` are the drops that were
    in force in this run; `spent` are the ids of all drops that its scores hold, its own and those of its baselines.
    """

    eligible: bool
    reason: str
    used: BaselineUsed | None = None
    lineage: tuple[str, ...] = ()
    accepted: tuple[AcceptedDrop, ...] = ()
    spent: tuple[str, ...] = ()


class Manifest(_Part):
    """The whole of manifest.json."""

    schema_version: Literal[1] = 1
    ragstone_version: str
    state: Literal["running", "finished", "stopped"]
    created_at: str
    golden: GoldenManifest
    judge: JudgeManifest
    system: SystemManifest
    metrics: dict[str, str] = Field(description="metric name to version")
    repeats: int = Field(default=1, ge=1)
    observed: Observed | None = None
    canaries: Canaries | None = None
    policy_hash: str | None = None
    counts: Counts = Counts()
    cost: Cost = Cost()
    wall_s: float = Field(default=0.0, ge=0)
    verdict: Literal["pass", "fail", "inconclusive", "error"] | None = None
    stop_reason: str | None = None
    baseline: BaselineFact | None = None

    @property
    def day(self) -> date:
        """The day on which the run was begun, in UTC."""
        try:
            return datetime.fromisoformat(self.created_at).astimezone(UTC).date()
        except ValueError:
            return date.min

    @property
    def standing(self) -> BaselineFact:
        """Whether this run may be a baseline. For a run without a word on it, its state and verdict decide."""
        if self.state != "finished":
            return BaselineFact(eligible=False, reason=f"the run was {self.state}, not finished")
        if self.baseline is not None:
            return self.baseline
        if self.verdict in ("fail", "error"):
            return BaselineFact(eligible=False, reason=f"its verdict was {self.verdict}")
        return BaselineFact(eligible=True, reason="it finished, and no verdict is against it")
