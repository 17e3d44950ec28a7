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

    One failure in a small set would be beyond any share, and may be a time-out: it
    takes two samples to fail, unless the policy allows none. A policy that doesn't set
    the share has the check only where it fails.
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
        if n == 0:
            return
        allowed = system.max_error_rate
        times = answers_per_sample(run)
        failures = sum(run.system.failed_answers.values())
        rate = failures / (n * times)
        is_over = rate > allowed
        is_shown = len(run.system.failed_answers) > 1 or allowed == 0.0
        if (
            not (is_over and is_shown)
            and "max_error_rate" not in system.model_fields_set
        ):
            return
        if is_over and is_shown:
            status = Status.FAIL
            limit = f"more than the {percent(allowed)} allowed"
        elif is_over:
            status = Status.INCONCLUSIVE
            limit = f"more than the {percent(allowed)} allowed, but one failure alone may be chance"
        else:
            status = Status.PASS
            limit = f"within the {percent(allowed)} allowed"
        answers = counted(n, "sample")
        if times > 1:
            answers = f"{n * times:,} answers to {answers}"
        why = ""
        if run.system.failures:
            why = f" (most often: {usual_reason(run.system.failures.values())})"
        reason = f"the system under test failed on {failures} of {answers} ({percent(rate)}), {limit}{why}."
        yield limit_check(
            "system.error_rate",
            self.kinds[0],
            status,
            reason,
            value=rate,
            limit=allowed,
            n=n,
            action=system.action,
        )
