"""Custom metrics: a rubric for the judge, or a Python function of the user's."""

from __future__ import annotations

import hashlib
import json

from ragstone.golden.sample import Label, Sample
from ragstone.judge.judgements import Grade, JudgementFailure, JudgementKind, Judgements
from ragstone.judge.rubric import Rubric
from ragstone.metrics.metric import BaseMetric, MetricInfo
from ragstone.metrics.score import Failed, FailedBy, NotApplicable, Score, Scored
from ragstone.system.response import Response

# How the versions of the two kinds of metrics begin.
_RUBRIC = "rubric "
_FUNCTION = "function "


def rubric_version(rubric: Rubric, prompt: str) -> str:
    """The version of a metric with this rubric, where `prompt` is the version of the
    prompt that asks the judge for the grade."""
    identity = [rubric.text, rubric.levels, sorted(rubric.sees), prompt]
    body = json.dumps(identity, ensure_ascii=False)
    digest = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    return _RUBRIC + digest[:12]


def function_version(digest: str) -> str:
    """The version of a metric with a function whose source has this digest."""
    return _FUNCTION + digest


def is_function(version: str | None) -> bool:
    """Whether a metric of this version is a function of the user's."""
    return (version or "").startswith(_FUNCTION)


def is_rubric(version: str | None) -> bool:
    """Whether a metric of this version is a rubric."""
    return (version or "").startswith(_RUBRIC)


class _CustomMetric(BaseMetric):
    @property
    def labels(self) -> frozenset[Label]:
        return frozenset({"reference"})


class RubricMetric(_CustomMetric):
    """The level of the rubric that the judge chooses: 0 for the worst, 1 for the
    best."""

    reads = frozenset({JudgementKind.CUSTOM})

    def __init__(self, rubric: Rubric, version: str) -> None:
        self.rubric = rubric
        self.info = MetricInfo(
            name=rubric.name,
            version=version,
            title=rubric.name,
            blames="both",
            source="a rubric of this project",
            needs_no_answer="answer" not in rubric.sees,
            is_in_oracle_round="answer" in rubric.sees,
        )

    def why_not_applicable(self, sample: Sample) -> NotApplicable | None:
        if "reference" in self.rubric.sees and not (sample.reference or "").strip():
            return NotApplicable("the sample has no reference")
        return None

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        return _score(judgements, self.info.name, "judge")


class FunctionMetric(_CustomMetric):
    """What the function returns: a number in [0, 1], or true or false."""

    def __init__(self, name: str, version: str) -> None:
        self.info = MetricInfo(
            name=name,
            version=version,
            title=name,
            blames="both",
            source="a function of this project",
            needs_no_answer=True,
            is_in_oracle_round=True,
        )

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        return _score(judgements, self.info.name, "function")


def _score(judgements: Judgements, name: str, by: FailedBy) -> Score:
    """The grade of the metric called `name` as a score; where there is none, it failed
    `by` the judge or the function."""
    match judgements.custom.get(name):
        case None:
            return Failed(by, "no grade was returned")
        case JudgementFailure(reason, not_applicable=True):
            return NotApplicable(reason)
        case JudgementFailure(reason):
            return Failed(by, reason)
        case Grade(None, note):
            return NotApplicable(note or "the function returned None")
        case Grade(int() | float() as value, note) if 0.0 <= value <= 1.0:
            return Scored(value, note)
        case Grade(value):
            return Failed(by, f"a grade is in [0, 1], got {value!r}")
