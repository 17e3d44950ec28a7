"""Did a metric apply to so few answers that a rule on it says nothing of the others?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted, listed, usual_reason
from ragstone.gate.checks.checker import Checker, rule_key
from ragstone.gate.evidence import Evidence
from ragstone.gate.rules import Rule
from ragstone.gate.source import KeyPath
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


@dataclass(frozen=True, slots=True)
class Applied:
    """To how many answers the metrics of one rule applied."""

    rule: Rule
    count: int
    total: int
    """All answers to answerable samples that the rule is about."""
    excused: Sequence[str]
    """Why they did not apply to the others."""

    @property
    def hardly(self) -> bool:
        """Whether it applied to hardly any. That few of many questions have labels may
        be meant, but not so few."""
        few = self.by_the_answers or self.count < MIN_SAMPLES
        return few and 0 < self.count < MIN_SHARE * self.total

    @property
    def by_the_answers(self) -> bool:
        """Whether it is the answers, more than the golden set, that the metric does not
        apply to."""
        by_the_golden_set = sum(
            reason.startswith(OF_THE_GOLDEN_SET) for reason in self.excused
        )
        return 2 * by_the_golden_set < len(self.excused)

    def __str__(self) -> str:
        """``could be judged for 2 of 30 answers, most often because the answer makes no
        claim``."""
        why = (
            f", most often because {usual_reason(self.excused)}" if self.excused else ""
        )
        return f"could be judged for {self.count:,} of {counted(self.total, 'answer')}{why}"


class Applicability(Checker):
    """Inconclusive for each rule whose metric applied to hardly any answer.

    So is a first run by the default rules, if the system never returned a context that
    they could judge. A rule that the policy does not name is only said to have hardly
    applied, if it is the golden set that has hardly any label for it: without a single
    one, it would not count either.
    """

    kinds = (CheckKind.APPLICABILITY,)
    policy_key = ("metrics",)
    share = True

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        yield from _without_contexts(evidence)
        for applied in _applicability(evidence):
            rule = applied.rule
            if applied.hardly and (rule.written or applied.by_the_answers):
                check = rule.check(
                    CheckKind.APPLICABILITY,
                    Status.INCONCLUSIVE,
                    rule.action,
                    f"{applied}.",
                )
                share = applied.count / applied.total
                yield replace(
                    check,
                    reason=f"{rule.title} {applied}.",
                    estimate=share,
                    n=applied.total,
                )

    def key(self, check: Check) -> KeyPath:
        return rule_key(check)


def returns_no_contexts(run: RunScores) -> bool:
    """Whether no answer came with a context, where metrics read them."""
    return contexts_of(run) == {NO_CONTEXTS} and bool(
        _READ_CONTEXTS & run.metrics.keys()
    )


def contexts_of(run: RunScores) -> set[int]:
    """The hashes of the contexts of all answers."""
    return {
        contexts
        for name, contexts in run.system.contexts.items()
        if name not in run.system.failures
    }


def _without_contexts(evidence: Evidence) -> Iterator[Check]:
    run = evidence.current
    if (
        evidence.pairing is not None
        or evidence.policy.named
        or not returns_no_contexts(run)
    ):
        return
    unjudged = [
        rule
        for rule in evidence.rules
        if rule.min is not None
        and rule.metric in _READ_CONTEXTS
        and not run.scores_of(rule.metric).applies_to
    ]
    if unjudged:
        names = listed([rule.title.lower() for rule in unjudged])
        reason = (
            f"{NO_CONTEXTS_RETURNED}, so {names} could not be judged: {RETURN_THEM}."
        )
        check = unjudged[0].check(
            CheckKind.APPLICABILITY, Status.INCONCLUSIVE, Action.BLOCK, reason
        )
        yield replace(check, reason=reason, estimate=0.0, n=len(run.samples))


def hardly_applied(evidence: Evidence) -> Iterator[str]:
    """Warnings that name the metrics that applied to hardly any answer, but for what
    line one says."""
    bad = (
        check.reason for check in evidence.decided if check.blocks and not check.passed
    )
    line_one = next(bad, "")
    titles: dict[str, list[str]] = {}
    for applied in _applicability(evidence):
        if applied.hardly and line_one != f"{applied.rule.title} {applied}.":
            titles.setdefault(str(applied), []).append(applied.rule.title)
    yield from (f"{listed(names)} {words}." for words, names in titles.items())


def _applicability(evidence: Evidence) -> Iterator[Applied]:
    """To how many answers to answerable questions each rule applied; a family of
    metrics has one rule."""
    families: dict[tuple[str, str | None], list[Rule]] = {}
    for rule in evidence.rules:
        if not is_relative(rule.metric):
            families.setdefault((rule.key, rule.slice), []).append(rule)
    for (key, _), rules in families.items():
        yield _applied(evidence.current, key, rules)


def _applied(run: RunScores, key: str, rules: Sequence[Rule]) -> Applied:
    """To how many answers the family `key` applied, by the `rules` of its metrics."""
    rule = replace(rules[0], metric=key)
    samples = {
        sample_id
        for sample_id in run.samples
        if rule.samples is None or sample_id in rule.samples
    }
    applies: set[str] = set()
    excuses: dict[str, str] = {}
    for member in rules:
        scores = run.scores_of(member.metric)
        applies |= scores.applies_to & samples
        excuses |= scores.not_applicable
    inapplicable = {
        sample_id
        for sample_id in samples - applies
        if run.samples[sample_id].answerable
    }
    excused = [
        reason for sample_id, reason in excuses.items() if sample_id in inapplicable
    ]
    return Applied(rule, len(applies), len(inapplicable) + len(applies), excused)
