"""The keys of thresholds.toml, with type, range, default and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import Action

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]
Limit = Annotated[float, Field(gt=0.0, allow_inf_nan=False, strict=True)]
Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
POLICY_FILE = "thresholds.toml"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GateRules(_Table):
    """[gate]: settings for every check."""

    only_named: bool = Field(
        default=False,
        strict=True,
        description="Whether to check only the metrics that [metrics] names. Otherwise the others keep their defaults.",
    )
    min_coverage: Share = Field(
        default=0.9,
        description="Minimum share of samples with a score, among those that a metric applies to. "
        "Below it the run is an error, not a low or high score.",
    )
    max_failed_judgements: Share = Field(
        default=0.03,
        description="Share of judgements that fails by chance, and is left out. If more fail than that explains, among "
        "all samples, in a slice or among the answers that changed, they count as the worst score, and the run is an "
        "error if it would fail with those.",
    )
    confidence: Annotated[float, Field(gt=0.5, lt=1.0, strict=True)] = Field(
        default=0.95,
        description="1 minus the share of unchanged runs that may fail by chance, over all blocking checks together.",
    )
    decision: Literal["evidence", "assured", "point"] = Field(
        default="evidence",
        description="evidence: fail what is shown to be violated, pass what has no evidence against it. assured: "
        "pass only what is shown to hold, fail the rest. point: compare means only.",
    )
    inconclusive: Literal["pass", "warn", "fail"] = Field(
        default="warn",
        description="What an inconclusive check does (some evidence against it, but not enough to fail): pass lets it "
        "through, warn lets it through and says so in the verdict, fail ends the job with exit code 8.",
    )
    on_no_baseline: Literal["pass", "warn", "fail"] = Field(
        default="pass",
        description="What happens to drop checks without a comparable baseline: pass says so at the top of the "
        "report, warn makes the run inconclusive, fail ends the job with exit code 6.",
    )
    on_judge_change: Literal["rejudge", "skip", "fail"] = Field(
        default="rejudge",
        description="If the baseline was scored by another judge, with other prompts or by another version of a "
        "metric: rejudge scores its stored answers again and compares like with like, skip does not check those drops "
        "and says so, fail ends the job with exit code 6.",
    )
    unmatched: Literal["pair", "refuse"] = Field(
        default="pair",
        description="If the two runs do not have the same samples: pair compares those that both have and reports "
        "their number, refuse does not compare at all.",
    )
    min_paired: Share = Field(
        default=0.8,
        description="Minimum share of the baseline's samples that the run is compared on: those that it still has with "
        "the same question and the labels that its metrics read, and that the baseline's system answered. Below it "
        "the job ends with exit code 6, unless an edit of the golden set is accepted.",
    )
    confirm: bool = Field(
        default=True,
        strict=True,
        description="Whether to ask the system again where the first answers raise the suspicion of a drop, before it "
        "fails. The error rate over both looks is that of confidence. Only with decision evidence, and where a system "
        "can be asked again.",
    )
    confirm_repeats: Annotated[int, Field(ge=1, le=10, strict=True)] = Field(
        default=5, description="How often each question is asked again at most."
    )

    @property
    def asks_to_confirm(self) -> bool:
        """Whether the policy itself says so: then a run that can't be confirmed is an error."""
        return self.confirm and "confirm" in self.model_fields_set


class MetricRule(_Table):
    """[metrics.NAME]: the floor and the allowed drop of one metric, or its ceiling and the allowed rise."""

    min: Share | None = Field(default=None, description="Floor: the mean must be at least this.")
    max: Share | None = Field(
        default=None, description="Ceiling, for a metric where less is better: the mean must be at most this."
    )
    max_drop: Share | None = Field(
        default=None,
        description="Allowed drop: the mean must be at most this far below the baseline, on the same samples.",
    )
    max_rise: Share | None = Field(
        default=None,
        description="Allowed rise, for a metric where less is better: the mean must be at most this far above the "
        "baseline, on the same samples.",
    )
    target: Share | None = Field(
        default=None,
        description="The ideal, above the floor or below the ceiling: a mean that holds the bound but misses this one "
        "is reported as acceptable, not yet good. Only warns.",
    )
    lower_is_better: bool | None = Field(
        default=None,
        strict=True,
        description="Whether less is better, for a metric that Ragstone doesn't know. Default: true if max or max_rise "
        "is set.",
    )
    max_drift: Share | None = Field(
        default=None,
        description="Largest loss compared with an older run of the main branch, see [drift]; only for all samples.",
    )
    action: Action | None = Field(
        default=None,
        description="block: a failed check fails the run. warn: it is only reported. Default: block.",
    )

    @property
    def checks_nothing(self) -> bool:
        return {self.min, self.max, self.max_drop, self.max_rise, self.max_drift, self.target} == {None}

    @property
    def less_is_better(self) -> bool:
        """Which way is better, as this table says it."""
        return self.lower_is_better or self.max is not None or self.max_rise is not None

    @property
    def says_direction(self) -> bool:
        """Whether this table says which way is better."""
        return self.less_is_better or self.lower_is_better is False or {self.min, self.max_drop} != {None}


class SliceRules(_Table):
    """[slices.TAG]: rules for the samples with a tag."""

    metrics: dict[Name, MetricRule] = Field(
        min_length=1, description="Like [metrics], only for the samples with the tag."
    )


class DriftRules(_Table):
    """[drift]: slow losses, measured over the history of the main branch."""

    max_drift: Share = Field(
        default=0.05,
        description="Largest loss compared with the anchor, for every metric without its own max_drift. "
        "An alarm is raised between half of it and all of it.",
    )
    anchor: Literal["oldest", "release", "off"] = Field(
        default="oldest",
        description="What a run is compared with. oldest: the first comparable runs of the last `days` days. "
        "release: those since the newest release or tag. off: no check.",
    )
    days: Annotated[int, Field(ge=7, le=366, strict=True)] = Field(
        default=90, description="Maximum age of the anchor, with anchor = oldest."
    )
    action: Action = Field(default=Action.BLOCK, description="block or warn.")


LIMITS = ("latency_p95_s", "tokens_mean", "tokens_p95", "cost_mean_usd", "cost_p95_usd")
"""The keys of [system] that limit an answer: those that are decided with an interval."""


class SystemRules(_Table):
    """[system]: limits of the system under test."""

    latency_p95_s: Limit | None = Field(
        default=None, description="95 of 100 answers must take at most this many seconds."
    )
    tokens_mean: Limit | None = Field(
        default=None, description="An answer must take at most this many tokens on average, as the system reports them."
    )
    tokens_p95: Limit | None = Field(default=None, description="95 of 100 answers must take at most this many tokens.")
    cost_mean_usd: Limit | None = Field(
        default=None,
        description="An answer must cost at most this many US dollars on average: its tokens at [system.price].",
    )
    cost_p95_usd: Limit | None = Field(
        default=None, description="95 of 100 answers must cost at most this many US dollars."
    )
    max_error_rate: Share = Field(
        default=0.02,
        description="Maximum share of samples that the system under test may fail to answer. One failure alone is "
        "allowed, unless this is 0.",
    )
    max_empty: Share = Field(
        default=0.2,
        description="Maximum share of the answerable samples with an empty answer. Always blocks.",
    )
    max_unanswered: Share = Field(
        default=0.3,
        description="Maximum share of the answerable samples that are not answered: the answer is empty, abstains, "
        "evades or repeats the question. Always blocks, where it is shown.",
    )
    max_guessed: Share = Field(
        default=0.4,
        description="Maximum share of the unanswerable samples that are answered. Always blocks, where it is shown.",
    )
    max_broken: Share = Field(
        default=0.25,
        description="Maximum share of the answerable samples with a broken answer (copied, cut off, repeated, in no "
        "order, in another language, the same as to other questions, with false citations, or near the worst score), "
        "or with nothing useful retrieved. Always blocks, where it is shown.",
    )
    action: Action = Field(
        default=Action.BLOCK, description="block or warn, for all limits but those that always block."
    )

    @property
    def limits(self) -> dict[str, float]:
        """The limits of an answer that are set, by key."""
        return {key: limit for key in LIMITS if (limit := getattr(self, key)) is not None}


class MustPass(_Table):
    """[must_pass]: samples that must always pass. A plain list of ids, or "all", is the short form."""

    samples: tuple[Name, ...] = Field(default=(), description="Ids of the samples.")
    every: bool = Field(
        default=False, strict=True, description='Whether every sample must pass; must_pass = "all" is the short form.'
    )
    metrics: tuple[Name, ...] | None = Field(
        default=None,
        description="Metrics to check for each sample; default: every metric with a floor or a ceiling, of those that "
        "the policy names, if it names any.",
    )
    min: Share | None = Field(
        default=None,
        description="Minimum for each sample; default: the floor of each metric. Where less is better, the ceiling of "
        "the metric applies.",
    )
    action: Action = Field(
        default=Action.BLOCK, description="block or warn; also for samples with a min or max of their own."
    )


class LabelRules(_Table):
    """[labels]: how human labels, compared by `ragstone calibrate`, affect the gate."""

    file: Name | None = Field(
        default=None,
        description="The file written by `ragstone calibrate -o`, relative to this file. "
        "Required by the two keys below.",
    )
    min_agreement: Share | None = Field(
        default=None,
        description="Minimum agreement between judge and people (Krippendorff's alpha) for a metric to decide; "
        "below it the run is an error.",
    )
    estimate: Literal["judge", "corrected"] = Field(
        default="judge",
        description="judge: floors apply to the judge's mean. corrected: floors apply to the mean that people would "
        "have given, estimated from labels (PPI++).",
    )


DEFAULT_MAX_DROP = 0.02

DEFAULT_METRICS: Mapping[str, MetricRule] = MappingProxyType(
    {
        "faithfulness": MetricRule(min=0.85, max_drop=DEFAULT_MAX_DROP),
        "answer_relevancy": MetricRule(max_drop=DEFAULT_MAX_DROP),
        "context_recall": MetricRule(min=0.80, max_drop=DEFAULT_MAX_DROP),
        "context_precision": MetricRule(min=0.60, max_drop=DEFAULT_MAX_DROP),
        "answer_correctness": MetricRule(max_drop=DEFAULT_MAX_DROP),
    }
)
"""The rules for the metrics that a policy does not name, unless it says `only_named`.

Those of recall and precision are between the means of good and of bad systems that `bench/default_floors.py` measures;
that of faithfulness is a share of statements, which the offline judge grades lower. Answer relevancy has none: it is a
cosine, whose size depends on the embedding model, or on words where there is none.
"""

OFFLINE_BLOCKS = frozenset({"faithfulness", "context_recall", "answer_correctness"})
"""Metrics whose drops the offline judge measures well enough to block on by default.

Not answer relevancy: shorter answers that are right lose 0.03 to 0.06, and `bench/broken_systems.py` finds no more.
"""


class PolicyTable(_Table):
    """The content of thresholds.toml."""

    gate: GateRules = Field(default=GateRules(), description="Settings for every check.")
    metrics: dict[Name, MetricRule] | None = Field(
        default=None, description="Metric name to its rule. The default rules apply to the other metrics."
    )
    slices: dict[Name, SliceRules] = Field(default_factory=dict, description="Tag to its rules.")
    drift: DriftRules = Field(default=DriftRules(), description="Slow losses over the history of the main branch.")
    system: SystemRules = Field(default=SystemRules(), description="Limits of the system under test.")
    must_pass: MustPass = Field(default=MustPass(), description="Samples that must always pass.")
    labels: LabelRules = Field(default=LabelRules(), description="How human labels affect the gate.")

    @field_validator("must_pass", mode="before")
    @classmethod
    def _ids_alone(cls, value: object) -> object:
        table = {"samples": value} if isinstance(value, list | tuple) or value == "all" else value
        if isinstance(table, dict) and table.get("samples") == "all":
            table = {**table, "samples": (), "every": True}
        return table

    @property
    def in_force(self) -> dict[str, MetricRule]:
        """Metric name to rule, defaults included. A headline metric named without a number gets its defaults."""
        named = {name: _filled(name, rule) for name, rule in (self.metrics or {}).items()}
        return named if self.gate.only_named else {**DEFAULT_METRICS, **named}

    def rules(self) -> list[tuple[KeyPath, str, MetricRule]]:
        """Every explicit metric rule: its key, the metric, the rule."""
        found: list[tuple[KeyPath, str, MetricRule]] = [
            (("metrics", name), name, rule) for name, rule in (self.metrics or {}).items()
        ]
        for tag, part in self.slices.items():
            found += [(("slices", tag, "metrics", name), name, rule) for name, rule in part.metrics.items()]
        return found


def _filled(name: str, rule: MetricRule) -> MetricRule:
    default = DEFAULT_METRICS.get(name)
    if default is None or not rule.checks_nothing:
        return rule
    return rule.model_copy(update={"min": default.min, "max_drop": default.max_drop})
