"""How the error rate of the policy is shared: blocking checks are one family, those that warn another."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.gate.bounds import BoundCheck
from ragstone.gate.calibration import MetricCalibration, calibrated_version, same_judge
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, CheckKind


@dataclass(frozen=True, slots=True)
class Family:
    """The floors and drops with one action: those that are decided `together` at `alpha`, and the `corrected` floors.

    Corrected floors and limits of the system have no joint distribution with the scores, so each is decided apart at
    `alpha_apart`, its share of the error rate by Bonferroni's inequality.
    """

    together: tuple[BoundCheck, ...]
    corrected: tuple[tuple[BoundCheck, MetricCalibration], ...]
    alpha: float
    alpha_apart: float


def family_of(evidence: Evidence, action: Action) -> Family:
    """The checks of `evidence` with `action`, which share an error rate."""
    policy = evidence.policy
    asked = [(one, _labels_of(one, evidence)) for one in evidence.asked if one.action is action]
    together = tuple(one for one, labels in asked if labels is None)
    corrected = tuple((one, labels) for one, labels in asked if labels is not None)
    apart = len(corrected) + (len(policy.system.limits) if policy.system.action is action else 0)
    alpha = policy.alpha / (len(together) + apart) if apart else 0.0
    return Family(together, corrected, policy.alpha - alpha * apart, alpha)


def _labels_of(one: BoundCheck, evidence: Evidence) -> MetricCalibration | None:
    """The human labels that correct this floor; None if it applies to the judge's mean."""
    calibration, metric = evidence.policy.calibration, one.rule.metric
    if calibration is None or evidence.policy.labels.estimate != "corrected":
        return None
    if one.kind is not CheckKind.FLOOR or one.rule.slice is not None:
        return None
    usable = same_judge(calibration, evidence.current) and calibrated_version(calibration, metric, evidence.current)
    return calibration.metrics[metric] if usable else None
