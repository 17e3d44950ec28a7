"""How many questions does the system not answer, answer though it shouldn't, or answer
with something broken?

A share of broken answers moves a mean as little as a small loss of all does, and floors
may only warn. So the answers are counted, with any judge and any policy: a check fails
if more than the policy allows is shown by an exact test, or if more than in the
baseline is, by a sign test on the questions that changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragstone.evaluation.answer_kinds import MALFORMED, UNANSWERED, AnswerKind
from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.evaluation.ranked import evidence_ranks
from ragstone.evaluation.scores import MetricScores, RunScores
from ragstone.formatting import counted, percent, tally
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.citations import false_citations
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import groups_of, mean_of
from ragstone.gate.policy_table import (
    COMPARED_GUARD,
    DEFAULT_MAX_DROP,
    GUARDS,
    SystemRules,
)
from ragstone.gate.source import KeyPath
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.gate.word_comparison import is_by_words
from ragstone.stats.intervals import p_proportion_at_most
from ragstone.system.response import RETRIEVAL

SHOWN = 0.02
"""A share is shown to be larger than is allowed at this probability of as many, if it
were not."""
WORSE = 0.0005
"""The probability of as many more than before by chance at which a check fails.

There are five checks, so a healthy change fails one of them with a probability of at
most .0025.
"""
SUSPECTED = 0.02
"""The probability of as many more than before by chance at which a check is
inconclusive."""

MIN_ALIKE = 5
"""The same answer to this many questions with different references is not one to any of
them."""

FALSE_UP_TO: Mapping[str, float] = {
    "faithfulness": 0.5,
    "answer_relevancy": 0.2,
    "answer_correctness": 0.1,
}
"""An answer with such a score is broken, by any judge."""
FALSE_OFFLINE: Mapping[str, float] = {
    **FALSE_UP_TO,
    "faithfulness": 0.65,
    "answer_relevancy": 0.4,
}
"""By the offline judge, whose scores are probabilities: what it doesn't believe gets
more than nothing."""
FRUITLESS_UP_TO: Mapping[str, float] = {
    "context_recall": 0.2,
    "context_precision": 0.1,
    "mrr": 0.0,
}
LOWER = 0.1
"""Contexts are in a worse order than before if the reciprocal rank of the first
evidence is lower by more."""

_TELLS_ABSTAINING = ("faithfulness", "answer_correctness")
_WORDS: Mapping[str, str] = {
    AnswerKind.EMPTY: "empty",
    AnswerKind.ABSTAINS: "abstaining",
    AnswerKind.ECHOES: "repeating the question",
    AnswerKind.EVADES: "evasive",
    AnswerKind.COPIES: "copied from the contexts",
    AnswerKind.LOOPS: "repeating one sentence",
    "citations": "citing contexts that don't exist",
    AnswerKind.DISORDERED: "with their words in no order",
    AnswerKind.CUT: "cut off",
    AnswerKind.FOREIGN: "in another language than the question",
    "same": "the same as to other questions",
    "faithfulness": "not supported by the contexts",
    "answer_relevancy": "not about the question",
    "answer_correctness": "unlike the reference",
    **{
        metric: f"with a {metric.replace('_', ' ')} of at most {line}"
        for metric, line in FRUITLESS_UP_TO.items()
    },
    "mrr": "without a relevant document",
}

Hits = Mapping[str, str]
"""The samples that count, each with the sign by which it does."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One share of the answers to check."""

    name: str
    title: str
    hits: Callable[[RunScores, Evidence], Hits]
    """The samples of a run that count."""
    what: str
    """What is wrong with their answers, for a sentence."""
    answerable: bool = True
    """Whether the share is one of the answerable samples, or of the others."""

    @property
    def only_compared(self) -> bool:
        """Whether it counts nothing without a baseline: its key limits the rise, and a
        pass is no check."""
        return self.name == COMPARED_GUARD


def _unanswered(run: RunScores, _: Evidence) -> Hits:
    return {name: kind for name, kind in _kinds(run).items() if kind in UNANSWERED}


def _guessed(run: RunScores, _: Evidence) -> Hits:
    if not any(metric in run.metrics for metric in _TELLS_ABSTAINING):
        return {}
    kinds = _kinds(run)
    return {
        name: "" for name in run.system.answers if kinds.get(name) not in UNANSWERED
    }


def _broken(run: RunScores, evidence: Evidence) -> Hits:
    kinds = _kinds(run)
    hits: dict[str, str] = {
        sample_id: kind for sample_id, kind in kinds.items() if kind in MALFORMED
    }
    for sample_id in _alike(run, kinds):
        hits.setdefault(sample_id, "same")
    for sample_id in sorted(false_citations(run)):
        hits.setdefault(sample_id, "citations")
    lines = FALSE_OFFLINE if run.offline else FALSE_UP_TO
    for sample_id, sign in _low(
        run, lines, evidence, evidence.policy.system.max_broken
    ).items():
        if kinds.get(sample_id) not in UNANSWERED:
            hits.setdefault(sample_id, sign)
    return hits


def _fruitless(run: RunScores, evidence: Evidence) -> Hits:
    return _low(run, FRUITLESS_UP_TO, evidence, evidence.policy.system.max_fruitless)


def _misranked(run: RunScores, evidence: Evidence) -> Hits:
    """The samples whose evidence ranks lower than in the other run, among the contexts
    that both returned."""
    if evidence.compared is None:
        return {}
    current = evidence.current.system.ranked
    baseline = evidence.compared.baseline.system.ranked
    lower: dict[str, str] = {}
    for sample_id in current.keys() & baseline.keys():
        ranks = evidence_ranks(current[sample_id], baseline[sample_id])
        if ranks is None:
            continue
        rank, rank_elsewhere = ranks if run is evidence.current else reversed(ranks)
        if 1 / rank < 1 / rank_elsewhere - LOWER:
            lower[sample_id] = ""
    return lower


_GUARDS = (
    Guard("system.unanswered", "Unanswered questions", _unanswered, "not answered"),
    Guard("system.guessed", "Unanswerable questions", _guessed, "answered", False),
    Guard("system.broken", "Broken answers", _broken, "answered with something broken"),
    Guard(
        "system.fruitless",
        "Fruitless retrieval",
        _fruitless,
        "given contexts that hardly help",
    ),
    Guard(
        "system.misranked",
        "Ranking",
        _misranked,
        "given the evidence at a lower rank than in the other run",
    ),
)
_BY_NAME = {guard.name: guard for guard in _GUARDS}
_OF_RETRIEVAL = ("system.fruitless", "system.misranked")


@dataclass(frozen=True, slots=True)
class _Change:
    """What became of a guard's share since the baseline, on the samples in both
    runs."""

    before: int
    """How many samples it counted in the baseline."""
    share_before: float
    rise: float
    """By how much their share rose."""
    p: float
    """The probability of such a rise by chance."""


class Broken(Checker):
    """One check per guard, of a finished run whose answers are known. Always blocks."""

    kinds = (CheckKind.SHARE,)
    policy_key = ("system",)
    share = True
    at = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        if evidence.finished and run.system.answers:
            for guard in _GUARDS:
                if guard.name in _OF_RETRIEVAL or run.part != RETRIEVAL:
                    yield from _check(guard, evidence)

    def key(self, check: Check) -> KeyPath:
        return ("system", GUARDS[check.name])

    def title(self, check: Check) -> str:
        return _BY_NAME[check.name].title


def _check(guard: Guard, evidence: Evidence) -> Iterator[Check]:
    run = evidence.current
    samples = [
        name
        for name in run.system.answers
        if run.samples[name].answerable is guard.answerable
    ]
    if not samples:
        return
    all_hits = guard.hits(run, evidence)
    hits = {name: all_hits[name] for name in samples if name in all_hits}
    change = _against_baseline(guard, all_hits, samples, evidence)
    status, limit = _decide(guard, hits, samples, change, evidence)
    if guard.only_compared and status is Status.PASS:
        return
    n = len(samples)
    share = len(hits) / n
    questions = counted(
        n, "answerable question" if guard.answerable else "unanswerable question"
    )
    verb = "is" if len(hits) == 1 else "are"
    before = "" if change is None else f" ({change.before} before)"
    reason = f"{len(hits)} of {questions} {verb} {guard.what}{before}, {limit}{_signs(hits)}."
    allowed = _limit(evidence.policy.system, guard)
    check = limit_check(
        guard.name, CheckKind.SHARE, status, reason, value=share, limit=allowed, n=n
    )
    if change is not None:
        check = replace(
            check,
            current=change.share_before + change.rise,
            baseline=change.share_before,
        )
    yield check


def _decide(
    guard: Guard,
    hits: Hits,
    samples: Sequence[str],
    change: _Change | None,
    evidence: Evidence,
) -> tuple[Status, str]:
    """The status of a guard, and how its share compares with the limit, for a
    sentence."""
    allowed = _limit(evidence.policy.system, guard)
    most_allowed = allowed * len(samples)
    is_over = not guard.only_compared and len(hits) > most_allowed
    rose = (
        change is not None
        and change.rise > _rise_allowed(guard, evidence)
        and change.p <= SUSPECTED
    )
    limit = f"more than the {percent(allowed)} allowed"
    if is_over and _is_shown(hits, samples, allowed, evidence.current):
        # A change fails only for what it adds to its base, but what was broken before
        # must not pass in silence.
        as_before = change is not None and change.before > most_allowed and not rose
        return (Status.INCONCLUSIVE if as_before else Status.FAIL), limit
    if change is not None and rose:
        if change.p > WORSE:
            return Status.INCONCLUSIVE, "which may be more than chance"
        return Status.FAIL, "more than chance explains"
    if is_over:
        # No tick stands beside a limit that is exceeded.
        return Status.INCONCLUSIVE, f"{limit}, but too few to decide"
    return Status.PASS, "no more than is allowed"


def _limit(system: SystemRules, guard: Guard) -> float:
    key = GUARDS[guard.name]
    allowed: float = getattr(system, key)
    if key == "max_unanswered":
        return max(allowed, system.max_empty)
    return allowed


def _rise_allowed(guard: Guard, evidence: Evidence) -> float:
    """A rise of the share that is no loss: what is accepted, or what an accepted drop
    of a metric can bring.

    A broken answer takes at least half of its score from the mean.
    """
    rise = (
        evidence.policy.system.max_misranked
        if guard.only_compared
        else DEFAULT_MAX_DROP
    )
    for (name, tag), entry in evidence.policy.widened.items():
        if name == guard.name:
            rise = max(rise, entry.drop)
        elif name not in GUARDS and name != GOLDEN_SET and tag is None:
            rise = max(rise, 2.0 * entry.drop)
    return rise


def _is_shown(
    hits: Collection[str], samples: Sequence[str], allowed: float, run: RunScores
) -> bool:
    if any(groups_of(run, samples)):
        values = [float(sample_id in hits) for sample_id in samples]
        return mean_of(run, samples, values, confidence=1.0 - 2.0 * SHOWN).low > allowed
    return p_proportion_at_most(len(hits), len(samples), allowed) <= SHOWN


def _against_baseline(
    guard: Guard, hits: Hits, samples: Collection[str], evidence: Evidence
) -> _Change | None:
    """The change since the baseline; None if no sample is in both."""
    pairing = evidence.compared
    if pairing is None:
        return None
    in_both = pairing.baseline.system.answers.keys() & set(pairing.samples)
    paired = [sample_id for sample_id in samples if sample_id in in_both]
    if not paired:
        return None
    baseline_hits = guard.hits(pairing.baseline, evidence)
    votes: Counter[str] = Counter()  # related samples vote together
    for sample_id, group in zip(
        paired, groups_of(evidence.current, paired), strict=True
    ):
        voter = group or sample_id
        votes[voter] += int(sample_id in hits)
        votes[voter] -= int(sample_id in baseline_hits)
    worse = sum(vote > 0 for vote in votes.values())
    better = sum(vote < 0 for vote in votes.values())
    p = p_proportion_at_most(worse, worse + better, 0.5) if worse else 1.0
    count = sum(sample_id in baseline_hits for sample_id in paired)
    return _Change(count, count / len(paired), sum(votes.values()) / len(paired), p)


def _signs(hits: Hits) -> str:
    """Which signs there were, the most frequent first: ``: 20 abstaining, 3 empty``."""
    signs = Counter(_WORDS[sign] for sign in hits.values() if sign)
    if not signs:
        return ""
    return f": {', '.join(tally(dict(signs.most_common())))}"


def _kinds(run: RunScores) -> dict[str, AnswerKind]:
    """What most answers to each sample are, where they don't just answer."""
    kinds_of: dict[str, AnswerKind] = {}
    for sample_id, kinds in run.system.kinds.items():
        most_common, times = Counter(kinds).most_common(1)[0]
        unanswered = [kind for kind in kinds if kind in UNANSWERED]
        if 2 * times > len(kinds):
            kinds_of[sample_id] = most_common
        elif 2 * len(unanswered) > len(kinds):
            kinds_of[sample_id] = unanswered[0]
    return kinds_of


def _alike(run: RunScores, kinds: Mapping[str, AnswerKind]) -> Iterator[str]:
    """The samples that have the same answer as others with another reference."""
    samples_by_answer: defaultdict[str, list[str]] = defaultdict(list)
    for sample_id, answers in run.system.answers.items():
        just_answers = kinds.get(sample_id, AnswerKind.ANSWERS) is AnswerKind.ANSWERS
        if just_answers and answers[0] and len(set(answers)) == 1:
            samples_by_answer[answers[0]].append(sample_id)
    for samples in samples_by_answer.values():
        references = {run.samples[sample_id].reference for sample_id in samples} - {
            None
        }
        if len(references) >= MIN_ALIKE:
            yield from samples


def _of_one_answer(scores: MetricScores) -> Mapping[str, float]:
    """The score of one answer to each sample, the newest: a mean of several is seldom
    as low as one of them."""
    newest = dict(scores.values)
    for sample_id in scores.answers.keys() & newest.keys():
        values = [value for value in scores.answers[sample_id] if value is not None]
        newest[sample_id] = values[-1]
    return newest


def _low(
    run: RunScores, lines: Mapping[str, float], evidence: Evidence, allowed: float
) -> Hits:
    """The samples with a score of at most one of `lines`, unless the policy says that
    such means are fine.

    `allowed` is the share of them that it allows. Of the offline judge, a low score may
    only say that the answer has other words.
    """
    floors = {
        rule.metric: rule.min
        for rule in evidence.rules
        if rule.written and rule.slice is None
    }
    reworded = run.system.reworded if run.offline else {}
    signs: dict[str, str] = {}
    for metric, line in lines.items():
        floor = floors.get(metric)
        if floor is not None and floor < 1.0 - allowed:
            continue
        for name, value in _of_one_answer(run.scores_of(metric)).items():
            has_reference = run.samples[name].reference is not None
            if value <= line and not is_by_words(
                metric, reworded.get(name), has_reference=has_reference
            ):
                signs.setdefault(name, metric)
    return signs
