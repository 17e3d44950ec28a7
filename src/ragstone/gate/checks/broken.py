"""How many questions does the system not answer, answer though it shouldn't, or answer
with something broken?

A share of broken answers moves a mean as little as a small loss of all does, and floors
may only warn. So the answers are counted, with any judge and any policy: a check fails
if more than the policy allows is shown by an exact test, or if more than in the
baseline is, by a sign test on the questions that changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ragstone.evaluation.answer_kinds import MALFORMED, UNANSWERED, AnswerKind
from ragstone.evaluation.manifest import GOLDEN_SET
from ragstone.evaluation.ranked import evidence_ranks
from ragstone.evaluation.scores import RunScores
from ragstone.files import read_table
from ragstone.formatting import counted, percent, tally
from ragstone.gate.checks.checker import Checker, limit_check
from ragstone.gate.citations import false_citations
from ragstone.gate.evidence import Evidence
from ragstone.gate.grouping import groups_of, mean_of
from ragstone.gate.policy_table import COMPARED_GUARD, DEFAULT_MAX_DROP, GUARDS
from ragstone.gate.verdict import Check, CheckKind, Status
from ragstone.gate.word_comparison import is_by_words
from ragstone.settings.toml_lines import KeyPath
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
Hits = Mapping[str, str]
"""The samples that count, each with the sign by which it does."""


class Guard(Struct, frozen=True):
    """One share of the answers to check."""

    name: str
    title: str
    what: str
    """What is wrong with the answers that count, for a sentence."""
    question: str = "answerable question"
    """Which samples the share is one of, in words."""
    answerable: bool = True
    of_retrieval: bool = False
    """Whether it counts where only the retriever was asked."""


_TEXTS: Mapping[str, Any] = read_table("broken.toml", __package__)
_GUARDS = {name: Guard(name, **row) for name, row in _TEXTS["guards"].items()}
_SIGNS: Mapping[str, str] = _TEXTS["signs"]


class _Change(Struct, frozen=True):
    """What became of a guard's share since the baseline, on the samples in both
    runs."""

    samples: int
    before: int
    """How many of them it counted in the baseline."""
    now: int
    p_value: float
    """The probability of such a rise by chance."""

    @property
    def rise(self) -> float:
        return (self.now - self.before) / max(1, self.samples)


class Broken(Checker):
    """One check per guard, of a finished run whose answers are known. Always blocks."""

    kinds = (CheckKind.SHARE,)
    policy_key = ("system",)
    is_share = True
    comparison = "at most"

    def evaluate(self, evidence: Evidence) -> Iterator[Check]:
        run = evidence.current
        if not evidence.is_finished or not run.system.answers:
            return
        hits = _hits_by_guard(run, evidence)
        baseline_hits = _hits_by_guard(evidence.compared.baseline, evidence)
        for name, guard in _GUARDS.items():
            samples = [
                sample_id
                for sample_id in run.system.answers
                if run.samples[sample_id].answerable is guard.answerable
            ]
            if samples and (guard.of_retrieval or run.part != RETRIEVAL):
                guard_hits = hits[name]
                change = _change(guard_hits, baseline_hits[name], samples, evidence)
                yield from _check(guard, guard_hits, samples, change, evidence)

    def key(self, check: Check) -> KeyPath:
        return ("system", GUARDS[check.name])

    def title(self, check: Check) -> str:
        return _GUARDS[check.name].title


def _hits_by_guard(run: RunScores, evidence: Evidence) -> dict[str, Hits]:
    """The samples of a run that each guard counts."""
    system = evidence.policy.system
    kinds = _kinds(run)
    unanswered = {name: kind for name, kind in kinds.items() if kind in UNANSWERED}
    guessed = {}
    if any(metric in run.metrics for metric in _TELLS_ABSTAINING):
        answered = run.system.answers.keys() - unanswered.keys()
        guessed = dict.fromkeys(answered, "")
    lines = FALSE_OFFLINE if run.offline else FALSE_UP_TO
    false = _low(run, lines, evidence, system.max_broken)
    malformed = {name: kind for name, kind in kinds.items() if kind in MALFORMED}
    broken: dict[str, str] = {
        name: sign for name, sign in false.items() if name not in unanswered
    }
    # The last sign of an answer counts.
    broken |= dict.fromkeys(false_citations(run), "citations")
    broken |= dict.fromkeys(_alike(run, kinds), "same")
    broken |= malformed
    fruitless = _low(run, FRUITLESS_UP_TO, evidence, system.max_fruitless)
    misranked = _misranked(run, evidence)
    return {
        "system.unanswered": unanswered,
        "system.guessed": guessed,
        "system.broken": broken,
        "system.fruitless": fruitless,
        COMPARED_GUARD: misranked,
    }


def _misranked(run: RunScores, evidence: Evidence) -> Hits:
    """The samples whose evidence ranks lower than in the other run, among the contexts
    that both returned."""
    baseline = evidence.compared.baseline.system.ranked
    current = evidence.current.system.ranked
    lower = {}
    for sample_id in current.keys() & baseline.keys():
        ranks = evidence_ranks(current[sample_id], baseline[sample_id])
        if ranks is None:
            continue
        rank, rank_elsewhere = ranks if run is evidence.current else reversed(ranks)
        reciprocal_rank = 1 / rank
        reciprocal_rank_elsewhere = 1 / rank_elsewhere
        if reciprocal_rank < reciprocal_rank_elsewhere - LOWER:
            lower[sample_id] = ""
    return lower


def _check(
    guard: Guard,
    hits: Hits,
    samples: Sequence[str],
    change: _Change,
    evidence: Evidence,
) -> Iterator[Check]:
    system = evidence.policy.system
    n = len(samples)
    signs = [hits[name] for name in samples if name in hits]
    count = len(signs)
    allowed: float = getattr(system, GUARDS[guard.name])
    if guard.name == "system.unanswered":
        allowed = max(allowed, system.max_empty)
    max_count = allowed * n
    allowed_share = percent(allowed)
    only_compared = guard.name == COMPARED_GUARD
    is_over = not only_compared and count > max_count
    rise_allowed = _rise_allowed(guard.name, evidence)
    is_suspected = change.p_value <= SUSPECTED
    rose = is_suspected and change.rise > rise_allowed
    # A change fails only for what it adds to its base, but what was broken before must
    # not pass in silence; and no tick stands beside a limit that is exceeded.
    as_before = change.before > max_count and not rose
    status = Status.INCONCLUSIVE
    beyond = f"more than the {allowed_share} allowed"
    if is_over and _is_shown(hits, samples, allowed, evidence.current):
        if not as_before:
            status = Status.FAIL
    elif rose and change.p_value <= WORSE:
        status = Status.FAIL
        beyond = "more than chance explains"
    elif rose:
        beyond = "which may be more than chance"
    elif is_over:
        beyond += ", but too few to decide"
    elif only_compared:
        return
    else:
        status = Status.PASS
        beyond = "no more than is allowed"
    verb = "is" if count == 1 else "are"
    counts = Counter(_SIGNS[sign] for sign in signs if sign)
    tallied = ""
    if counts:
        by_frequency = dict(counts.most_common())
        tallied_signs = ", ".join(tally(by_frequency))
        tallied = f": {tallied_signs}"
    questions = counted(n, guard.question)
    before = ""
    current = count / n
    share_before = None
    if change.samples:
        before = f" ({change.before} before)"
        share_before = change.before / change.samples
        current = share_before + change.rise
    broken = f"{count} of {questions} {verb} {guard.what}{before}"
    check = limit_check(
        guard.name,
        CheckKind.SHARE,
        status,
        f"{broken}, {beyond}{tallied}.",
        value=count / n,
        limit=allowed,
        n=n,
    )
    yield replace(check, current=current, baseline=share_before)


def _rise_allowed(guard: str, evidence: Evidence) -> float:
    """A rise of the share that is no loss: what is accepted, or what an accepted drop
    of a metric can bring.

    A broken answer takes at least half of its score from the mean.
    """
    rise = DEFAULT_MAX_DROP
    if guard == COMPARED_GUARD:
        rise = evidence.policy.system.max_misranked
    for (name, tag), entry in evidence.policy.accepted_in_force.items():
        if name == guard:
            rise = max(rise, entry.drop)
        elif name not in GUARDS and name != GOLDEN_SET and tag is None:
            rise = max(rise, 2.0 * entry.drop)
    return rise


def _is_shown(
    hits: Collection[str], samples: Sequence[str], allowed: float, run: RunScores
) -> bool:
    """Whether the share of the samples that count is shown to be above `allowed`."""
    values = [sample_id in hits for sample_id in samples]
    share = mean_of(run, samples, values, confidence=1.0 - 2.0 * SHOWN)
    return share.low > allowed


def _change(
    hits: Hits, baseline_hits: Hits, samples: Sequence[str], evidence: Evidence
) -> _Change:
    """The change since the baseline; of no samples if none is in both runs."""
    pairing = evidence.compared
    baseline_answers = pairing.baseline.system.answers
    in_both = baseline_answers.keys() & set(pairing.samples)
    paired = [sample_id for sample_id in samples if sample_id in in_both]
    paired_ids = set(paired)
    groups = groups_of(evidence.current, paired)
    votes: Counter[str] = Counter()  # related samples vote together
    for sample_id, group in zip(paired, groups, strict=True):
        is_hit = sample_id in hits
        was_hit = sample_id in baseline_hits
        voter = group or sample_id
        votes[voter] += is_hit - was_hit
    worse = sum(vote > 0 for vote in votes.values())
    better = sum(vote < 0 for vote in votes.values())
    changed = worse + better
    paired_hits = hits.keys() & paired_ids
    paired_baseline_hits = baseline_hits.keys() & paired_ids
    p_value = p_proportion_at_most(worse, changed, 0.5)
    return _Change(
        samples=len(paired),
        before=len(paired_baseline_hits),
        now=len(paired_hits),
        p_value=p_value,
    )


def _kinds(run: RunScores) -> dict[str, AnswerKind]:
    """What most answers to each sample are, where they don't just answer."""
    kinds_of = {}
    for sample_id, kinds in run.system.kinds.items():
        answers = len(kinds)
        by_frequency = Counter(kinds).most_common(1)
        most_common, times = by_frequency[0]
        unanswered = [kind for kind in kinds if kind in UNANSWERED]
        if 2 * times > answers:
            kinds_of[sample_id] = most_common
        elif 2 * len(unanswered) > answers:
            kinds_of[sample_id] = unanswered[0]
    return kinds_of


def _alike(run: RunScores, kinds: Mapping[str, AnswerKind]) -> Iterator[str]:
    """The samples that have the same answer as others with another reference."""
    samples_by_answer: defaultdict[str, list[str]] = defaultdict(list)
    for sample_id, answers in run.system.answers.items():
        kind = kinds.get(sample_id, AnswerKind.ANSWERS)
        just_answers = kind is AnswerKind.ANSWERS
        if just_answers and answers[0] and len(set(answers)) == 1:
            answer = answers[0]
            samples_by_answer[answer].append(sample_id)
    for samples in samples_by_answer.values():
        references = {run.samples[sample_id].reference for sample_id in samples}
        references.discard(None)
        if len(references) >= MIN_ALIKE:
            yield from samples


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
        if rule.written and rule.slice is None and rule.min is not None
    }
    signs: dict[str, str] = {}
    for metric, line in lines.items():
        if floors.get(metric, 1.0) < 1.0 - allowed:
            continue
        scores = run.scores_of(metric)
        for name, mean in scores.values.items():
            # The newest answer alone: a mean of several is seldom as low as one.
            newest_first = reversed(scores.answers.get(name, ()))
            values = (score for score in newest_first if score is not None)
            by_words = is_by_words(metric, name, run)
            newest = next(values, mean)
            if newest <= line and not by_words:
                signs.setdefault(name, metric)
    return signs
