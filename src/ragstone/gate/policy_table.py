"""What thresholds.toml may say: every key with its type, range, default and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from ragstone.gate.verdict import Action

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]
Name = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
POLICY_FILE = "thresholds.toml"

KeyPath = tuple[str, ...]
"""A key as its parts, such as ``("metrics", "faithfulness", "min")``; parts may hold dots."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GateRules(_Table):
    """[gate]: what holds for every check."""

    min_coverage: Share = Field(
        default=0.98,
        description="Smallest share of samples, of those a metric applies to, that must have a score. "
        "Below it the run is an error, not a low or a high score.",
    )
    confidence: Annotated[float, Field(gt=0.5, lt=1.0, strict=True)] = Field(
        default=0.95,
        description="1 minus the share of unchanged runs that may fail by chance, over all blocking checks together.",
    )
    decision: Literal["evidence", "assured", "point"] = Field(
        default="evidence",
        description="evidence: fail what is shown to be broken, pass what has no evidence against it. assured: "
        "pass only what is shown to hold, fail the rest. point: compare the bare means.",
    )
    inconclusive: Literal["pass", "warn", "fail"] = Field(
        default="warn",
        description="What an inconclusive check does (some evidence against it, but not enough to fail): pass lets it "
        "through, warn lets it through and says so in the verdict, fail ends the job with exit code 8.",
    )
    on_no_baseline: Literal["pass", "warn", "fail"] = Field(
        default="pass",
        description="What happens to drop checks when there is no comparable baseline: pass says so at the top of the "
        "report, warn makes the run inconclusive, fail ends the job with exit code 6.",
    )
    unmatched: Literal["pair", "refuse"] = Field(
        default="pair",
        description="When the two runs do not hold the same samples: pair compares those that both have and says how "
        "many that is, refuse does not compare at all.",
    )


class MetricRule(_Table):
    """[metrics.NAME]: the floor and the allowed drop of one metric."""

    min: Share | None = Field(default=None, description="Floor: the mean must be at least this.")
    max_drop: Share | None = Field(
        default=None,
        description="Allowed drop: the mean must be at most this far below the baseline, on the same samples.",
    )
    max_drift: Share | None = Field(
        default=None,
        description="Largest loss against an older run of the main branch, see [drift]; for all samples only.",
    )
    action: Action | None = Field(
        default=None,
        description="block: a failed check fails the run. warn: it is shown and nothing more. Default: block.",
    )


class SliceRules(_Table):
    """[slices.TAG]: rules for the samples that carry one tag."""

    metrics: dict[Name, MetricRule] = Field(
        min_length=1, description="As [metrics], for the samples that carry the tag only."
    )


class DriftRules(_Table):
    """[drift]: slow losses, measured over the history of the main branch."""

    max_drift: Share = Field(
        default=0.05,
        description="Largest loss against the anchor, for every metric that has no max_drift of its own. "
        "An alarm comes between half of it and the whole.",
    )
    anchor: Literal["oldest", "release", "off"] = Field(
        default="oldest",
        description="What a run is compared with. oldest: the first comparable runs of the last `days` days. "
        "release: those from the newest release or tag on. off: nothing.",
    )
    days: Annotated[int, Field(ge=7, le=366, strict=True)] = Field(
        default=90, description="How old the anchor may be, with anchor = oldest."
    )
    action: Action = Field(default=Action.BLOCK, description="block or warn.")


class SystemRules(_Table):
    """[system]: limits of the system under test."""

    latency_p95_s: Annotated[float, Field(gt=0.0, allow_inf_nan=False, strict=True)] | None = Field(
        default=None, description="95 of 100 answers must take at most so many seconds."
    )
    max_error_rate: Share | None = Field(
        default=None, description="Largest share of samples that the system under test may fail to answer."
    )
    max_empty: Share = Field(
        default=0.2,
        description="Largest share of the answerable samples that may get an empty answer. Always blocks.",
    )
    action: Action = Field(default=Action.BLOCK, description="block or warn, for latency and error rate.")


class MustPass(_Table):
    """[must_pass]: samples that may never go wrong. A plain list of ids is the short form."""

    samples: tuple[Name, ...] = Field(default=(), description="Ids of the samples.")
    metrics: tuple[Name, ...] | None = Field(
        default=None, description="Metrics that each sample must reach; default: every metric with a floor."
    )
    min: Share | None = Field(
        default=None, description="What each sample must reach; default: the floor of each metric."
    )
    action: Action = Field(default=Action.BLOCK, description="block or warn.")


class LabelRules(_Table):
    """[labels]: what human labels, gathered by `ragstone calibrate`, do to the gate."""

    file: Name | None = Field(
        default=None,
        description="The calibration that `ragstone calibrate --out` wrote, relative to this file. "
        "The two keys below need it.",
    )
    min_agreement: Share | None = Field(
        default=None,
        description="Smallest agreement of judge and people (Krippendorff's alpha) at which a metric may decide; "
        "below it the run is an error.",
    )
    estimate: Literal["judge", "corrected"] = Field(
        default="judge",
        description="judge: floors hold the judge's mean. corrected: floors hold the mean that people would have "
        "given, estimated from their labels (PPI++).",
    )


DEFAULT_MAX_DROP = 0.02

DEFAULT_METRICS: Mapping[str, MetricRule] = MappingProxyType(
    {
        "faithfulness": MetricRule(min=0.85, max_drop=DEFAULT_MAX_DROP),
        "answer_relevancy": MetricRule(min=0.75, max_drop=DEFAULT_MAX_DROP),
        "context_recall": MetricRule(min=0.80, max_drop=DEFAULT_MAX_DROP),
        "context_precision": MetricRule(min=0.70, max_drop=DEFAULT_MAX_DROP),
        "answer_correctness": MetricRule(max_drop=DEFAULT_MAX_DROP),
    }
)
"""The rules of a policy that names no metric: the floors that the field uses."""

OFFLINE_BLOCKS = frozenset({"faithfulness", "context_recall", "answer_correctness"})
"""Metrics whose drops the offline judge sees well enough to block on, when the policy names no metric."""


class PolicyTable(_Table):
    """The whole of thresholds.toml."""

    gate: GateRules = Field(default=GateRules(), description="What holds for every check.")
    metrics: dict[Name, MetricRule] | None = Field(
        default=None, description="Metric name to its rule. Without this table the default rules hold."
    )
    slices: dict[Name, SliceRules] = Field(default_factory=dict, description="Tag to its rules.")
    drift: DriftRules = Field(default=DriftRules(), description="Slow losses over the history of the main branch.")
    system: SystemRules = Field(default=SystemRules(), description="Limits of the system under test.")
    must_pass: MustPass = Field(default=MustPass(), description="Samples that may never go wrong.")
    labels: LabelRules = Field(default=LabelRules(), description="What human labels do to the gate.")

    @field_validator("must_pass", mode="before")
    @classmethod
    def _ids_alone(cls, value: object) -> object:
        return {"samples": value} if isinstance(value, list | tuple) else value

    def rules(self) -> list[tuple[KeyPath, str, MetricRule]]:
        """Every metric rule as it was written: its key, the metric, the rule."""
        found: list[tuple[KeyPath, str, MetricRule]] = [
            (("metrics", name), name, rule) for name, rule in (self.metrics or {}).items()
        ]
        for tag, part in self.slices.items():
            found += [(("slices", tag, "metrics", name), name, rule) for name, rule in part.metrics.items()]
        return found
