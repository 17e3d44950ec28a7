"""Did the system under test fail more often than the policy allows?"""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.formatting import counted, percent, usual_reason
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Status


class ErrorRate(Checker):
    """The share of the requests on which the system failed, compared as it is.

    One failure may be a time-out, and in a small set it is beyond any share. So it is
    inconclusive if the system failed on only one sample, unless the policy allows no
    failure. If the policy doesn't set the share, there is a check only if it fails.
    """

    kinds = (CheckKind.ERROR_RATE,)
    policy_key = ("system", "max_error_rate")
    heading = "System errors"
    is_share = True
    comparison = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        system = evidence.policy.system
        n = len(run.samples)
        if n == 0:
            return
        allowed = system.max_error_rate
        failures_by_sample = run.system.failed_answers
        times_asked = n * answers_per_sample(run)
        failures = sum(failures_by_sample.values())
        rate = failures / times_asked
        status = Status.PASS
        allowed_share = percent(allowed)
        limit = f"within the {allowed_share} allowed"
        if rate > allowed:
            status = Status.FAIL
            limit = f"more than the {allowed_share} allowed"
            if len(failures_by_sample) == 1 and allowed > 0.0:
                status = Status.INCONCLUSIVE
                limit += ", but one failure alone may be chance"
        is_set = "max_error_rate" in system.model_fields_set
        if not is_set and status is not Status.FAIL:
            return
        noun = "answer" if times_asked > n else "sample"
        requests = counted(times_asked, noun)
        cause = ""
        if run.system.failures:
            most_often = usual_reason(run.system.failures.values())
            cause = f" (most often: {most_often})"
        failed_words = f"failed on {failures} of {requests} ({percent(rate)})"
        yield limit_check(
            "system.error_rate",
            CheckKind.ERROR_RATE,
            status,
            f"the system under test {failed_words}, {limit}{cause}.",
            value=rate,
            limit=allowed,
            n=n,
            action=system.action,
        )
