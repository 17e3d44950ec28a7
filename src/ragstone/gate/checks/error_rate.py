"""Did the system under test fail more often than the policy allows?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ragstone.formatting import counted, percent
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Interval, Status
from ragstone.stats.intervals import mean_interval, proportion_interval


class ErrorRate(Checker):
    """Failures ÷ all the times that the system was asked: a fact, compared as it is."""

    kinds = (CheckKind.ERROR_RATE,)
    policy_key = ("system", "max_error_rate")

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run, policy, allowed = evidence.current, evidence.policy, evidence.policy.system.max_error_rate
        n, each = len(run.samples), answers_per_sample(run)
        if allowed is None or n == 0:
            return
        failures = sum(run.system.failed_answers.values())
        rate = failures / (n * each)
        if each == 1:
            asked = counted(n, "sample")
            found = proportion_interval(failures, n, confidence=policy.gate.confidence)
        else:
            asked = f"{n * each:,} questions ({counted(n, 'sample')}, each asked {each} times)"
            shares = [run.system.failed_answers.get(sample_id, 0) / each for sample_id in run.samples]
            found = mean_interval(np.array(shares), confidence=policy.gate.confidence)
        verb = "more than" if rate > allowed else "within"
        yield Check(
            name="system.error_rate",
            kind=CheckKind.ERROR_RATE,
            status=Status.FAIL if rate > allowed else Status.PASS,
            action=policy.system.action,
            reason=f"the system under test failed on {failures} of {asked} ({percent(rate)}), "
            f"{verb} the {percent(allowed)} allowed.",
            estimate=rate,
            interval=Interval.of(found),
            threshold=allowed,
            current=rate,
            n=n,
        )

    def title(self, check: Check) -> str:  # noqa: ARG002 - the protocol's signature
        return "System errors"

    def found(self, check: Check) -> str:
        return percent(check.estimate)

    def wanted(self, check: Check) -> str:
        return f"at most {percent(check.threshold)}"
