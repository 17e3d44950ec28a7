"""How many questions does the system not answer, answer though it shouldn't, or answer
with something broken?

Some broken answers move a mean no more than a small loss of all answers does, and
floors may only warn. So bad answers are counted, with any judge and any policy. A check
fails if an exact test shows that there are more than the policy allows, or if a sign
test on the questions that changed shows that there are more than in the baseline.
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

MAX_P_ABOVE_LIMIT = 0.02
"""A share is shown to be above its limit if chance alone counts as many with at most
this probability."""
MAX_P_RISE = 0.0005
"""A check fails if chance alone counts so many more than in the baseline with at most
this probability.

There are five checks, so an unchanged system fails one of them with a probability of at
most 0.0025.
"""
MAX_P_SUSPECTED_RISE = 0.02
"""A rise makes its check inconclusive up to this p-value."""

MIN_ALIKE_REFERENCES = 5
"""The same answer to questions with at least this many different references answers none
of them."""

MAX_BROKEN_SCORES: Mapping[str, float] = {
    "faithfulness": 0.5,
    "answer_relevancy": 0.2,
    "answer_correctness": 0.1,
}
"""An answer with at most this score in any of these metrics is broken."""
MAX_BROKEN_SCORES_OFFLINE: Mapping[str, float] = {
    **MAX_BROKEN_SCORES,
    "faithfulness": 0.65,
    "answer_relevancy": 0.4,
}
"""MAX_BROKEN_SCORES for the offline judge, whose scores are probabilities: a false
answer gets more than 0."""
MAX_FRUITLESS_SCORES: Mapping[str, float] = {
    "context_recall": 0.2,
    "context_precision": 0.1,
    "mrr": 0.0,
}
MIN_RANK_LOSS = 0.1
"""Contexts are ranked worse if the reciprocal rank of the first evidence falls by
more."""

_METRICS_THAT_SEE_ABSTAINING = ("faithfulness", "answer_correctness")
"""Only with one of these is it known which answers abstain."""
Hits = Mapping[str, str]
"""The ids of the samples that a guard counts, each with the sign of what is wrong:
empty, or a key of the signs in broken.toml."""


class Guard(Struct, frozen=True):
    """One kind of bad answers, whose share is checked."""

    name: str
    title: str
    what: str
    """What is wrong with the answers that it counts, as the end of a sentence."""
    question: str = "answerable question"
    """What a sample of which the share is taken is called."""
    answerable: bool = True
    """Whether the share is taken of the answerable samples, or of the others."""
    of_retrieval: bool = False
    """Whether it also applies to a system that only retrieves."""


_TEXTS: Mapping[str, Any] = read_table("broken.toml", __package__)
_GUARDS = {name: Guard(name, **row) for name, row in _TEXTS["guards"].items()}
_SIGNS: Mapping[str, str] = _TEXTS["signs"]


class _Change(Struct, frozen=True):
    """What became of the share of a guard since the baseline, on the samples in both
    runs."""

    samples: int
    """The number of samples in both runs."""
    before: int
    """The number of these that it counts in the baseline."""
    now: int
    """The number of these that it counts in this run."""
    p_value: float
    """The probability of such a rise by chance."""

    @property
    def rise(self) -> float:
        """The change of the share."""
        return (self.now - self.before) / max(1, self.samples)


class Broken(Checker):
    """One check per guard, of a finished run whose answers are known. All of them
    block."""

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
    unanswered = {
        sample_id: kind for sample_id, kind in kinds.items() if kind in UNANSWERED
    }
    guessed = {}
    if any(metric in run.metrics for metric in _METRICS_THAT_SEE_ABSTAINING):
        answered = run.system.answers.keys() - unanswered.keys()
        guessed = dict.fromkeys(answered, "")
    max_scores = MAX_BROKEN_SCORES_OFFLINE if run.offline else MAX_BROKEN_SCORES
    low = _low_scoring(run, max_scores, evidence, system.max_broken)
    broken: dict[str, str] = {
        sample_id: sign
        for sample_id, sign in low.items()
        if sample_id not in unanswered
    }
    # An answer with several signs is counted by the last one.
    broken |= dict.fromkeys(false_citations(run), "citations")
    broken |= dict.fromkeys(_alike(run, kinds), "same")
    broken |= {
        sample_id: kind for sample_id, kind in kinds.items() if kind in MALFORMED
    }
    fruitless = _low_scoring(run, MAX_FRUITLESS_SCORES, evidence, system.max_fruitless)
    misranked = _misranked(run, evidence)
    return {
        "system.unanswered": unanswered,
        "system.guessed": guessed,
        "system.broken": broken,
        "system.fruitless": fruitless,
        COMPARED_GUARD: misranked,
    }


def _misranked(run: RunScores, evidence: Evidence) -> Hits:
    """The samples whose evidence ranks lower in `run` than in the other run of the
    comparison, among the contexts that both returned."""
    baseline = evidence.compared.baseline.system.ranked
    current = evidence.current.system.ranked
    lower = {}
    for sample_id in current.keys() & baseline.keys():
        ranks = evidence_ranks(current[sample_id], baseline[sample_id])
        if ranks is None:
            continue
        rank, other_rank = ranks if run is evidence.current else reversed(ranks)
        if 1 / rank < 1 / other_rank - MIN_RANK_LOSS:
            lower[sample_id] = ""
    return lower


def _check(
    guard: Guard,
    hits: Hits,
    samples: Sequence[str],
    change: _Change,
    evidence: Evidence,
) -> Iterator[Check]:
    """The check of one guard; none for one that only compares if it finds nothing."""
    system = evidence.policy.system
    n = len(samples)
    signs = [hits[sample_id] for sample_id in samples if sample_id in hits]
    count = len(signs)
    allowed: float = getattr(system, GUARDS[guard.name])
    # An empty answer is an unanswered question, so as many of these are allowed.
    if guard.name == "system.unanswered":
        allowed = max(allowed, system.max_empty)
    max_count = allowed * n
    allowed_share = percent(allowed)
    is_only_compared = guard.name == COMPARED_GUARD
    is_over = not is_only_compared and count > max_count
    max_rise = _max_rise(guard.name, evidence)
    is_suspected = change.p_value <= MAX_P_SUSPECTED_RISE
    has_risen = is_suspected and change.rise > max_rise
    # A pull request fails only for what it makes worse. But what was over the limit
    # before must not pass in silence, so that is inconclusive.
    was_over = change.before > max_count and not has_risen
    status = Status.INCONCLUSIVE
    comparison = f"more than the {allowed_share} allowed"
    if is_over and _is_shown(hits, samples, allowed, evidence.current):
        if not was_over:
            status = Status.FAIL
    elif has_risen and change.p_value <= MAX_P_RISE:
        status = Status.FAIL
        comparison = "more than chance explains"
    elif has_risen:
        comparison = "which may be more than chance"
    elif is_over:
        comparison += ", but too few to decide"
    elif is_only_compared:
        return
    else:
        status = Status.PASS
        comparison = "no more than is allowed"
    verb = "is" if count == 1 else "are"
    counts = Counter(_SIGNS[sign] for sign in signs if sign)
    by_sign = ""
    if counts:
        by_frequency = dict(counts.most_common())
        by_sign = ": " + ", ".join(tally(by_frequency))
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
        f"{broken}, {comparison}{by_sign}.",
        value=count / n,
        limit=allowed,
        n=n,
    )
    yield replace(check, current=current, baseline=share_before)


def _max_rise(guard: str, evidence: Evidence) -> float:
    """The largest rise of the share of a guard that is allowed: by default, because it
    is accepted, or because an accepted drop of a metric can bring it about.

    A broken answer loses at least half of its score, so a drop of a mean can be twice
    as large a share of broken answers.
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
    """Whether the share of `samples` that are hits is shown to be above `allowed`."""
    values = [sample_id in hits for sample_id in samples]
    confidence = 1.0 - 2.0 * MAX_P_ABOVE_LIMIT
    share = mean_of(run, samples, values, confidence=confidence)
    return share.low > allowed


def _change(
    hits: Hits, baseline_hits: Hits, samples: Sequence[str], evidence: Evidence
) -> _Change:
    """The change of the hits among `samples` since the baseline, on those in both
    runs."""
    pairing = evidence.compared
    baseline_answers = pairing.baseline.system.answers
    in_both = baseline_answers.keys() & set(pairing.samples)
    paired = [sample_id for sample_id in samples if sample_id in in_both]
    paired_ids = set(paired)
    groups = groups_of(evidence.current, paired)
    # The samples of one group count as one, which is worse if more of them got worse
    # than better.
    rises: Counter[str] = Counter()
    for sample_id, group in zip(paired, groups, strict=True):
        is_hit = sample_id in hits
        was_hit = sample_id in baseline_hits
        rises[group or sample_id] += is_hit - was_hit
    worse = sum(rise > 0 for rise in rises.values())
    better = sum(rise < 0 for rise in rises.values())
    return _Change(
        samples=len(paired),
        before=len(baseline_hits.keys() & paired_ids),
        now=len(hits.keys() & paired_ids),
        p_value=p_proportion_at_most(worse, worse + better, 0.5),
    )


def _kinds(run: RunScores) -> dict[str, AnswerKind]:
    """The kind of more than half of the answers to each sample; or, if more than half
    answer nothing, in several ways, the first of these. Other samples are left out."""
    kinds_of = {}
    for sample_id, kinds in run.system.kinds.items():
        answers = len(kinds)
        [(most_common, times)] = Counter(kinds).most_common(1)
        unanswered = [kind for kind in kinds if kind in UNANSWERED]
        if 2 * times > answers:
            kinds_of[sample_id] = most_common
        elif 2 * len(unanswered) > answers:
            kinds_of[sample_id] = unanswered[0]
    return kinds_of


def _alike(run: RunScores, kinds: Mapping[str, AnswerKind]) -> Iterator[str]:
    """The samples whose answer is also that of samples with other references, too many
    to be right."""
    samples_by_answer: defaultdict[str, list[str]] = defaultdict(list)
    for sample_id, answers in run.system.answers.items():
        kind = kinds.get(sample_id, AnswerKind.ANSWERS)
        is_plain = kind is AnswerKind.ANSWERS
        if is_plain and answers[0] and len(set(answers)) == 1:
            samples_by_answer[answers[0]].append(sample_id)
    for samples in samples_by_answer.values():
        references = {run.samples[sample_id].reference for sample_id in samples}
        references.discard(None)
        if len(references) >= MIN_ALIKE_REFERENCES:
            yield from samples


def _low_scoring(
    run: RunScores, max_scores: Mapping[str, float], evidence: Evidence, allowed: float
) -> Hits:
    """The samples with at most one of `max_scores`, each with the metric as the sign.

    A metric whose floor in the policy is so low that more than the share `allowed` of
    the answers could have nothing is left out. So are low scores by the offline judge
    that other words explain.
    """
    floors = {
        rule.metric: rule.min
        for rule in evidence.rules
        if rule.written and rule.slice is None and rule.min is not None
    }
    signs: dict[str, str] = {}
    for metric, max_score in max_scores.items():
        if floors.get(metric, 1.0) < 1.0 - allowed:
            continue
        scores = run.scores_of(metric)
        for sample_id, mean in scores.values.items():
            # The newest answer decides: a mean of several is seldom as low as one.
            newest_first = reversed(scores.answers.get(sample_id, ()))
            newest_scores = (score for score in newest_first if score is not None)
            is_low = next(newest_scores, mean) <= max_score
            if is_low and not is_by_words(metric, sample_id, run):
                signs.setdefault(sample_id, metric)
    return signs
