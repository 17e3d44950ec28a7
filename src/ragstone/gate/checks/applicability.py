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

MIN_SHARE = 0.2
"""A metric that applies to a smaller share of the answers applied to hardly any."""

NO_CONTEXTS = hash(())
NO_CONTEXTS_RETURNED = "The system returned no contexts with any answer"
RETURN_THEM = (
    "return them with the answer, or name their field in contexts_field under [system]"
)
_READ_CONTEXTS = frozenset(
    {"faithfulness", "hallucination", "context_recall", "context_precision"}
)

OF_THE_GOLDEN_SET = ("the sample ", "the reference ")
"""How a reason begins that is about the golden set, and not about the answer."""


class Applicability(Checker):
    """Inconclusive for each rule whose metric applied to hardly any answer.

    So is a first run by the default rules, if the system never returned a context that
    they could judge. A rule that the policy does not name counts only if it is the
    answers that the metric does not apply to: that the golden set has hardly any label
    for it is no news.
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
            and rule.metric in _READ_CONTEXTS
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
        for check, counts in _hardly_applied(evidence):
            if counts:
                yield check


def hardly_applied(evidence: Evidence) -> Iterator[str]:
    """A warning for each metric that applied to hardly any answer, but for what line
    one says."""
    bad = (
        check.reason for check in evidence.checks if check.blocks and not check.passed
    )
    line_one = next(bad, "")
    for check, _ in _hardly_applied(evidence):
        if check.reason != line_one:
            yield check.reason


def _hardly_applied(evidence: Evidence) -> Iterator[tuple[Check, bool]]:
    """The check of each family of metrics that applied to hardly any answer, and
    whether it counts."""
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
            name for name in samples - applies if run.samples[name].answerable
        ]
        excused = [excuses[name] for name in inapplicable if name in excuses]
        by_the_golden_set = sum(why.startswith(OF_THE_GOLDEN_SET) for why in excused)
        by_the_answers = 2 * by_the_golden_set < len(excused)
        count = len(applies)
        total = len(inapplicable) + count
        # That few of many questions have labels may be meant, but not so few.
        is_few = by_the_answers or count < MIN_SAMPLES
        if is_few and 0 < count < MIN_SHARE * total:
            answers = counted(total, "answer")
            reason = f"only {count:,} of {answers} could be judged"
            if excused:
                most_often = usual_reason(excused)
                reason += f", most often because {most_often}"
            check = rule.check(
                CheckKind.APPLICABILITY, Status.INCONCLUSIVE, rule.action, f"{reason}."
            )
            check = replace(check, estimate=count / total, n=total)
            yield check, rule.written or by_the_answers


def returns_no_contexts(run: RunScores) -> bool:
    """Whether no answer came with a context, where metrics read them."""
    contexts = {
        contexts
        for sample_id, contexts in run.system.contexts.items()
        if sample_id not in run.system.failures
    }
    reads_contexts = bool(_READ_CONTEXTS & run.metrics.keys())
    return contexts == {NO_CONTEXTS} and reads_contexts
