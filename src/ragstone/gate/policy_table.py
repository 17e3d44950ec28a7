"""The keys of thresholds.toml, with type, range and default; what they mean is in
policy_keys.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from ragstone.gate.verdict import Action
from ragstone.settings.toml_lines import KeyPath

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]
Limit = Annotated[float, Field(gt=0.0, allow_inf_nan=False, strict=True)]
Rise = Annotated[float, Field(ge=0.0, allow_inf_nan=False, strict=True)]
Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
POLICY_FILE = "thresholds.toml"


class _Table(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class GateRules(_Table):
    """[gate]: settings for every check."""

    only_named: bool = Field(default=False, strict=True)
    min_coverage: Share = 0.9
    max_failed_judgements: Share = 0.03
    confidence: Annotated[float, Field(gt=0.5, lt=1.0, strict=True)] = 0.95
    decision: Literal["evidence", "assured"] = "evidence"
    inconclusive: Literal["pass", "warn", "fail"] = "warn"
    on_no_baseline: Literal["pass", "warn", "fail"] = "pass"
    on_judge_change: Literal["rejudge", "skip", "fail"] = "rejudge"
    max_edited: Share = 0.05
    min_paired: Share = 0.8
    max_broken_questions: Share = 0.05
    max_unquoted: Share | None = None
    confirm: bool = Field(default=True, strict=True)
    confirm_repeats: Annotated[int, Field(ge=1, le=10, strict=True)] = 5

    @property
    def asks_again(self) -> bool:
        """Whether the system is asked again where a loss is suspected. With
        ``assured`` it is not: more answers say nothing about other questions."""
        return self.confirm and self.decision == "evidence"


class MetricRule(_Table):
    """[metrics.NAME]: the floor and the allowed drop of one metric, or its ceiling and
    the allowed rise."""

    min: Share | None = None
    max: Share | None = None
    max_drop: Share | None = None
    max_rise: Share | None = None
    lower_is_better: bool | None = Field(default=None, strict=True)
    max_drift: Share | None = None
    action: Action | None = None

    @property
    def checks_nothing(self) -> bool:
        """Whether it has neither a floor nor any other limit."""
        keys = {"lower_is_better", "action"}
        return not self.model_dump(exclude=keys, exclude_none=True)

    @property
    def says_lower_is_better(self) -> bool:
        """Whether the keys of this table are for a metric where lower is better."""
        return self.lower_is_better or self.max is not None or self.max_rise is not None


class SliceRules(_Table):
    """[slices.TAG]: rules for the samples with a tag."""

    metrics: dict[Name, MetricRule] = Field(min_length=1)


class DriftRules(_Table):
    """[drift]: slow losses, measured over the history of the main branch."""

    max_drift: Share = 0.05
    days: Annotated[int, Field(ge=7, le=366, strict=True)] = 90
    action: Action = Action.BLOCK


LIMIT_KEYS = ("latency_p95_s", "tokens_mean", "cost_mean_usd")
"""The keys of [system] that limit the latency, tokens or cost of an answer."""

RISE_KEYS = ("max_latency_rise", "max_token_rise", "max_cost_rise")
"""The keys of [system] that limit by how much the latency, tokens or cost of an answer
may rise from the baseline."""


GUARDS: Mapping[str, str] = {
    "system.unanswered": "max_unanswered",
    "system.guessed": "max_guessed",
    "system.broken": "max_broken",
    "system.fruitless": "max_fruitless",
    "system.misranked": "max_misranked",
}
"""The checks that guard the answers of any run, each with the key of [system] that
limits the share of bad ones."""

COMPARED_GUARD = "system.misranked"
"""The guard that compares with the baseline, and counts nothing without one: its key
limits a rise of the share."""


class SystemRules(_Table):
    """[system]: limits of the system under test."""

    latency_p95_s: Limit | None = None
    tokens_mean: Limit | None = None
    cost_mean_usd: Limit | None = None
    max_latency_rise: Rise | None = None
    max_token_rise: Rise | None = None
    max_cost_rise: Rise | None = None
    max_error_rate: Share = 0.02
    max_empty: Share = 0.2
    max_unanswered: Share = 0.3
    max_guessed: Share = 0.4
    max_broken: Share = 0.25
    max_fruitless: Share = 0.25
    max_misranked: Share = 0.02
    action: Action = Action.BLOCK

    @property
    def limits(self) -> dict[str, float]:
        """The limits of `LIMIT_KEYS` that are set, by key."""
        return self.model_dump(include=set(LIMIT_KEYS), exclude_none=True)

    @property
    def rises(self) -> dict[str, float]:
        """The limits of `RISE_KEYS` that are set, by key."""
        return self.model_dump(include=set(RISE_KEYS), exclude_none=True)


class MustPass(_Table):
    """[must_pass]: samples that must always pass. A list of ids, "all" or "baseline" is
    the short form."""

    samples: tuple[Name, ...] = ()
    questions: dict[Name, Name] = Field(default_factory=dict)
    every: bool = Field(default=False, strict=True)
    baseline: bool = Field(default=False, strict=True)
    min: Share | None = None
    action: Action = Action.BLOCK

    @property
    def ids(self) -> tuple[str, ...]:
        """The samples that are named, each once, whether with their question or
        without."""
        return tuple(dict.fromkeys((*self.samples, *self.questions)))


class LabelRules(_Table):
    """[labels]: how human labels, compared by `ragstone calibrate`, affect the gate."""

    file: Name | None = None
    min_agreement: Share | None = None
    estimate: Literal["judge", "corrected"] = "judge"


LogField = Literal[
    "id",
    "timestamp",
    "question",
    "answer",
    "sources",
    "results",
    "latency_ms",
    "latency_s",
    "user_id",
    "session_id",
    "error",
    "feedback",
    "abstained",
]
"""The fields that are read from a logged interaction."""


class MonitorRules(_Table):
    """[monitor]: how `ragstone monitor` reads logs of an application in production, and
    when it alerts."""

    columns: dict[LogField, Name] = Field(default_factory=dict)
    good_feedback: Annotated[float, Field(allow_inf_nan=False, strict=True)] | None = (
        None
    )
    sample: Annotated[int, Field(ge=0, le=100_000, strict=True)] = 200
    slow_s: Limit = 5.0
    max_slow: Share = 0.05
    max_without_sources: Share = 0.05
    max_drop: Share = 0.05
    level_since: date | None = None


DEFAULT_MAX_DROP = 0.02
"""The allowed drop of a metric without one of its own."""

DEFAULT_METRICS: Mapping[str, MetricRule] = {
    "faithfulness": MetricRule(min=0.85, max_drop=DEFAULT_MAX_DROP),
    "answer_relevancy": MetricRule(max_drop=DEFAULT_MAX_DROP),
    "context_recall": MetricRule(min=0.80, max_drop=DEFAULT_MAX_DROP),
    "context_precision": MetricRule(min=0.60, max_drop=DEFAULT_MAX_DROP),
    "answer_correctness": MetricRule(max_drop=DEFAULT_MAX_DROP),
}
"""The rules for the metrics that a policy does not name, unless it says `only_named`.

Those of recall and precision are between the means of good and of bad systems on
WikiEval and CLAPNQ (measured on 2026-11-29 at 5796ca57); that of faithfulness is a share
of statements, which the offline judge grades lower. Answer relevancy has none: it is a
cosine, whose size depends on the embedding model, or on words where there is none.
"""

OFFLINE_BLOCKING_METRICS = frozenset(
    {"faithfulness", "context_recall", "answer_correctness"}
)
"""Metrics whose drops the offline judge measures well enough to block on by default.

Not answer relevancy: shorter answers that are right lose 0.03 to 0.06, and of forty
kinds of broken systems it found no more (2026-11-29, 5796ca57).
"""


class PolicyTable(_Table):
    """The content of thresholds.toml."""

    gate: GateRules = GateRules()
    metrics: dict[Name, MetricRule] = Field(default_factory=dict)
    slices: dict[Name, SliceRules] = Field(default_factory=dict)
    drift: DriftRules = DriftRules()
    system: SystemRules = SystemRules()
    must_pass: MustPass = MustPass()
    labels: LabelRules = LabelRules()
    monitor: MonitorRules = MonitorRules()

    @field_validator("must_pass", mode="before")
    @classmethod
    def _expand_short_form(cls, value: object) -> object:
        """The table for a list of ids, for "all", or for "baseline"."""
        table = value if isinstance(value, dict) else {"samples": value}
        samples = table.get("samples")
        if samples in ("all", "baseline"):
            key = "baseline"
            if samples == "all":
                key = "every"
            return {**table, "samples": (), key: True}
        return table

    @property
    def rules_in_force(self) -> dict[str, MetricRule]:
        """The rules over all samples by metric, default rules included.

        A headline metric that is named without a limit has its default limits.
        """
        rules = {} if self.gate.only_named else dict(DEFAULT_METRICS)
        for name, rule in self.metrics.items():
            default = DEFAULT_METRICS.get(name, rule)
            rules[name] = rule
            if rule.checks_nothing:
                defaults = {"min": default.min, "max_drop": default.max_drop}
                rules[name] = rule.model_copy(update=defaults)
        return rules

    def rules(self) -> Iterator[tuple[KeyPath, str, MetricRule]]:
        """Every rule that is written down, each with its path in the file and the name
        of its metric."""
        for name, rule in self.metrics.items():
            yield ("metrics", name), name, rule
        for tag, part in self.slices.items():
            for name, rule in part.metrics.items():
                yield ("slices", tag, "metrics", name), name, rule
