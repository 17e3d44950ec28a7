"""Did a metric apply to so few answers that a rule on it says nothing of the others?"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, listed, usual_reason
from ragstone.gate.checks.checker import Checker
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
from ragstone.gate.verdict import MIN_SAMPLES, Action, Check, CheckKind, Status
from ragstone.metrics.registry import is_relative

MIN_APPLICABLE_SHARE = 0.2
"""A metric that applies to a smaller share of the answers applies to hardly any."""

HASH_OF_NO_CONTEXTS = hash(())
"""The hash by which a run keeps the contexts of an answer without any."""
NO_CONTEXTS_RETURNED = "The system returned no contexts with any answer"
RETURN_THEM = (
    "return them with the answer, or name their field in contexts_field under [system]"
)
_METRICS_OF_CONTEXTS = frozenset(
    {"faithfulness", "hallucination", "context_recall", "context_precision"}
)
"""Metrics that need contexts."""

REASONS_OF_GOLDEN_SET = ("the sample ", "the reference ")
"""How reasons begin that are about the golden set, and not about the answer."""


class Applicability(Checker):
    """Inconclusive for each rule whose metric applied to hardly any answer.

    A rule that the policy does not name counts only if this is because of the answers:
    that the golden set has hardly any labels for a metric is no news. Also inconclusive
    for a first run by the default rules whose system never returned a context.
    """

    kinds = (CheckKind.APPLICABILITY,)
    policy_key = ("metrics",)
    is_share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        unjudged = [
            rule
            for rule in evidence.rules
            if rule.min is not None
            and rule.metric in _METRICS_OF_CONTEXTS
            and not run.scores_of(rule.metric).applies_to
        ]
        is_first = not (evidence.has_baseline or evidence.policy.metrics)
        if is_first and unjudged and returns_no_contexts(run):
            titles = [rule.title.lower() for rule in unjudged]
            names = listed(titles)
            reason = f"{NO_CONTEXTS_RETURNED}, so {names} could not be judged: {RETURN_THEM}."
            check = unjudged[0].check(
                CheckKind.APPLICABILITY, Status.INCONCLUSIVE, Action.BLOCK, reason
            )
            n = len(run.samples)
            yield replace(check, reason=reason, estimate=0.0, n=n)
        for check, decides in _rarely_applicable(evidence):
            if decides:
                yield check


def rarely_applicable_metrics(evidence: Evidence) -> Iterator[str]:
    """A warning for each metric that applied to hardly any answer, unless line one of
    the report says it."""
    blocking_reasons = (
        check.reason for check in evidence.checks if check.blocks and not check.passed
    )
    line_one = next(blocking_reasons, "")
    for check, _ in _rarely_applicable(evidence):
        if check.reason != line_one:
            yield check.reason


def _rarely_applicable(evidence: Evidence) -> Iterator[tuple[Check, bool]]:
    """The check of each metric, or family of metrics, that applied to hardly any
    answer, and whether it is a part of the verdict."""
    families: dict[tuple[str, str | None], list[Rule]] = {}
    for rule in evidence.rules:
        if not is_relative(rule.metric):
            family = (rule.key, rule.slice)
            families.setdefault(family, []).append(rule)
    run = evidence.current
    for rules in families.values():
        first_rule = rules[0]
        rule = replace(first_rule, metric=first_rule.key)
        samples = set(rule.covered(run.samples))
        applies: set[str] = set()
        excuses: dict[str, str] = {}
        for member in rules:
            scores = run.scores_of(member.metric)
            applies |= scores.applies_to & samples
            excuses |= scores.not_applicable
        inapplicable = [
            sample_id
            for sample_id in samples - applies
            if run.samples[sample_id].answerable
        ]
        excused = [
            excuses[sample_id] for sample_id in inapplicable if sample_id in excuses
        ]
        of_golden_set = sum(
            reason.startswith(REASONS_OF_GOLDEN_SET) for reason in excused
        )
        is_by_answers = 2 * of_golden_set < len(excused)
        count = len(applies)
        total = len(inapplicable) + count
        # Labels for a part of the questions may be intended, but not for so few.
        is_unintended = is_by_answers or count < MIN_SAMPLES
        if is_unintended and 0 < count < MIN_APPLICABLE_SHARE * total:
            answers = counted(total, "answer")
            reason = f"only {count:,} of {answers} could be judged"
            if excused:
                most_often = usual_reason(excused)
                reason += f", most often because {most_often}"
            check = rule.check(
                CheckKind.APPLICABILITY, Status.INCONCLUSIVE, rule.action, f"{reason}."
            )
            check = replace(check, estimate=count / total, n=total)
            yield check, rule.written or is_by_answers


def returns_no_contexts(run: RunScores) -> bool:
    """Whether no answer came with a context, although there are metrics that need
    contexts."""
    contexts = {
        contexts
        for sample_id, contexts in run.system.contexts.items()
        if sample_id not in run.system.failures
    }
    reads_contexts = bool(_METRICS_OF_CONTEXTS & run.metrics.keys())
    return contexts == {HASH_OF_NO_CONTEXTS} and reads_contexts
