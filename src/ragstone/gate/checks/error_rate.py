"""Did the system under test fail more often than the policy allows?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ragstone.formatting import clipped, counted, most_common, percent
from ragstone.gate.bounds import answers_per_sample
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Check, CheckKind, Interval, Status
from ragstone.stats.intervals import mean_interval, proportion_interval


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
        run, policy, allowed = evidence.current, evidence.policy, evidence.policy.system.max_error_rate
        n, each = len(run.samples), answers_per_sample(run)
        failures = sum(run.system.failed_answers.values())
        rate = failures / (n * each) if n else 0.0
        failed = rate > allowed and (len(run.system.failed_answers) > 1 or allowed == 0.0)
        if n == 0 or not (failed or "max_error_rate" in policy.system.model_fields_set):
            return
        if each == 1:
            asked = counted(n, "sample")
            found = proportion_interval(failures, n, confidence=policy.gate.confidence)
        else:
            asked = f"{n * each:,} questions ({counted(n, 'sample')}, each asked {each} times)"
            shares = [run.system.failed_answers.get(sample_id, 0) / each for sample_id in run.samples]
            found = mean_interval(np.array(shares), confidence=policy.gate.confidence)
        often = most_common(list(run.system.failures.values())).rstrip(".") if run.system.failures else ""
        why = f" (most often: {clipped(often)})" if often else ""
        limit = f"{'more than' if rate > allowed else 'within'} the {percent(allowed)} allowed"
        status = Status.FAIL if failed else Status.PASS
        if rate > allowed and not failed:
            status = Status.INCONCLUSIVE
            limit += ", but one failure alone may be chance"
        yield Check(
            name="system.error_rate",
            kind=CheckKind.ERROR_RATE,
            status=status,
            action=policy.system.action,
            reason=f"the system under test failed on {failures} of {asked} ({percent(rate)}), {limit}{why}.",
            estimate=rate,
            interval=Interval.of(found),
            threshold=allowed,
            current=rate,
            n=n,
        )
