"""Did the system under test fail more often than the policy allows?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, percent, usual_reason
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Status


class ErrorRate(Checker):
    """Failures ÷ all the times that the system was asked: a fact, compared as it is.

    One failure in a small set would be beyond any share, and may be a time-out: it takes two samples to fail, unless
    the policy allows none. A policy that doesn't set the share has the check only where it fails.
    """

    kinds = (CheckKind.ERROR_RATE,)
    policy_key = ("system", "max_error_rate")
    heading = "System errors"
    share = True
    at = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        system = evidence.policy.system
        n = len(run.samples)
        each = answers_per_sample(run)
        allowed = system.max_error_rate
        failures = sum(run.system.failed_answers.values())
        rate = failures / (n * each) if n else 0.0
        fails = rate > allowed and (len(run.system.failed_answers) > 1 or allowed == 0.0)
        if n == 0 or not (fails or "max_error_rate" in system.model_fields_set):
            return
        status = Status.PASS
        limit = f"within the {percent(allowed)} allowed"
        if fails:
            status = Status.FAIL
            limit = f"more than the {percent(allowed)} allowed"
        elif rate > allowed:
            status = Status.INCONCLUSIVE
            limit = f"more than the {percent(allowed)} allowed, but one failure alone may be chance"
        asked = counted(n, "sample") if each == 1 else f"{n * each:,} answers to {counted(n, 'sample')}"
        why = f" (most often: {usual_reason(run.system.failures.values())})" if run.system.failures else ""
        reason = f"the system under test failed on {failures} of {asked} ({percent(rate)}), {limit}{why}."
        yield limit_check(
            "system.error_rate", self.kinds[0], status, reason, value=rate, limit=allowed, n=n, action=system.action
        )
