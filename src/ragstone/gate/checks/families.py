"""How the error rate of the policy is shared: what blocks and what warns are apart, and in each floors and drops."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.gate.bounds import BoundCheck
from ragstone.gate.calibration import MetricCalibration, calibrated_version, same_judge
from ragstone.gate.confirm import FLOORS
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action, CheckKind


@dataclass(frozen=True, slots=True)
class Family:
    """The checks with one action: the floors that are decided `together` at `alpha`, the `corrected` ones, the `drops`.

    Corrected floors and limits of the system have no joint distribution with the scores, so each is decided apart at
    `alpha_apart`, its share of the error rate by Bonferroni's inequality.
    """

    together: tuple[BoundCheck, ...]
    corrected: tuple[tuple[BoundCheck, MetricCalibration], ...]
    drops: tuple[BoundCheck, ...]
    alpha: float
    alpha_apart: float


def family_of(evidence: Evidence, action: Action) -> Family:
    """The checks of `evidence` with `action`, which share an error rate."""
    policy = evidence.policy
    here = [one for one in evidence.asked if one.action is action]
    drops = tuple(one for one in here if one.kind is CheckKind.DROP)
    floors = [(one, _labels_of(one, evidence)) for one in here if one.kind is CheckKind.FLOOR]
    together = tuple(one for one, labels in floors if labels is None)
    corrected = tuple((one, labels) for one, labels in floors if labels is not None)
    limits = len(policy.system.limits) + len(policy.system.rises)
    apart = len(corrected) + (limits if policy.system.action is action else 0)
    whole = policy.alpha * (FLOORS if drops else 1.0)
    alpha = whole / (len(together) + apart) if apart else 0.0
    return Family(together, corrected, drops, whole - alpha * apart, alpha)


def _labels_of(one: BoundCheck, evidence: Evidence) -> MetricCalibration | None:
    """The human labels that correct this floor; None if it applies to the judge's mean."""
    calibration, metric = evidence.policy.calibration, one.rule.metric
    if calibration is None or evidence.policy.labels.estimate != "corrected":
        return None
    if one.rule.slice is not None:
        return None
    usable = same_judge(calibration, evidence.current) and calibrated_version(calibration, metric, evidence.current)
    return calibration.metrics[metric] if usable else None
