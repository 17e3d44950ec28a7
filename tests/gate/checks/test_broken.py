"""Shares of questions that are not answered, answered though they can't be, or answered with something broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.answer_kinds import AnswerKind
from ragstone.evaluation.ranked import RankedContexts
from ragstone.evaluation.rewording import Rewording
from ragstone.evaluation.scores import MetricScores, RunScores, SystemFacts, fingerprint
from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.checks.broken import Broken
from ragstone.gate.checks.registry import checker_of, key_of_check
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import Level
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import Check, Status
from tests.gate.conftest import build_run, decide, make_manifest, named

ABSTAINS, COPIES, EMPTY, ANSWERS = AnswerKind.ABSTAINS, AnswerKind.COPIES, AnswerKind.EMPTY, AnswerKind.ANSWERS
N = 60
OFFLINE = make_manifest(provider="offline")


def answering(
    *kinds: AnswerKind, times: int = 0, start: int = 0, unanswerable: int = 0, low: int = 0, **groups: Any
) -> RunScores:
    """A run whose samples `start` … have answers of these kinds (or abstain); `unanswerable` are the last ones."""
    scores = {"faithfulness": [0.05] * low + [0.95] * (N - low), "context_recall": [0.9] * N}
    found = build_run(scores, manifest=OFFLINE, **groups)
    facts = {
        name: replace(found.samples[name], question=f"q{i}", reference=f"r{i}", answerable=i < N - unanswerable)
        for i, name in enumerate(named(N))
    }
    answers: dict[str, tuple[str, ...]] = {name: (fingerprint(f"answer {i}"),) for i, name in enumerate(named(N))}
    given = SystemFacts(answers=answers, kinds=dict.fromkeys(named(times, start), kinds or (ABSTAINS,)))
    return replace(found, samples=facts, system=given)


def shares(now: RunScores, then: RunScores | None = None, policy: Policy | None = None) -> Mapping[str, Check]:
    evidence = Evidence.of(now, then, policy or default_policy())
    return {check.name.removeprefix("system."): check for check in Broken().evaluate(evidence)}


def scored(run: RunScores, metric: str, values: Sequence[float]) -> RunScores:
    """`run` with the scores of one more metric, for its first samples."""
    return replace(run, metrics={**run.metrics, metric: MetricScores(dict(zip(named(N), values, strict=False)))})


def judged_by(provider: str, run: RunScores) -> RunScores:
    return replace(run, manifest=make_manifest(provider=provider))


def accepting(metric: str, drop: float, tag: str | None = None) -> Policy:
    entry = AcceptedEntry.model_construct(id="abcdefgh", metric=metric, slice=tag, drop=drop)
    return default_policy().model_copy(update={"accepted_in_force": {entry.target: entry}})


GROUPS = dict.fromkeys(named(12), "one")
PAIRS = {name: f"g{i // 2}" for i, name in enumerate(named(N))}
DOZENS = {name: f"g{i // 12}" for i, name in enumerate(named(N))}
ALLOWS = policy_from_mapping({"system": {"max_unanswered": 0.6}})


@pytest.mark.parametrize(
    ("now", "then", "rules", "status"),
    [
        pytest.param(answering(times=22), None, None, "inconclusive", id="not shown to be more"),
        pytest.param(answering(times=18), None, None, "pass", id="as many as are allowed"),
        pytest.param(answering(times=30), None, ALLOWS, "pass", id="allowed by the policy"),
        pytest.param(answering(times=40, groups=PAIRS), None, None, "fail", id="two thirds, in pairs"),
        pytest.param(answering(times=24, groups=DOZENS), None, None, "inconclusive", id="two of five groups"),
        pytest.param(answering(times=30), answering(times=30), None, "inconclusive", id="as before"),
        pytest.param(answering(times=40), answering(times=20), None, "fail", id="twice as many"),
        # An exact sign test of what is new.
        pytest.param(answering(times=5), answering(), None, "pass", id="5 new"),
        pytest.param(answering(times=6), answering(), None, "inconclusive", id="6 new"),
        pytest.param(answering(times=10), answering(), None, "inconclusive", id="10 new"),
        pytest.param(answering(times=11), answering(), None, "fail", id="11 new"),
        pytest.param(answering(times=12, groups=GROUPS), answering(groups=GROUPS), None, "pass", id="one group"),
        pytest.param(answering(times=15), answering(), accepting("mrr", 0.3), "pass", id="an accepted drop allows it"),
        pytest.param(answering(times=15), answering(), accepting("mrr", 0.3, "x"), "fail", id="a drop of a slice not"),
        pytest.param(answering(times=15), answering(), accepting("system.misranked", 0.9), "fail", id="nor another's"),
    ],
)
def test_unanswered_questions(now: RunScores, then: RunScores | None, rules: Policy | None, status: str) -> None:
    check = shares(now, then, rules)["unanswered"]
    assert check.status == status
    count = len(now.system.kinds)
    assert f"{count} of 60 answerable questions are not answered" in check.reason
    assert ("before)" in check.reason) is (then is not None)
    assert (check.current, check.baseline) == (
        (count / N, None) if then is None else pytest.approx((count / N, len(then.system.kinds) / N))
    )


@pytest.mark.parametrize(
    ("kinds", "unanswered", "broken"),
    [
        ((ABSTAINS,), 30, 0),
        ((ABSTAINS, ABSTAINS, ANSWERS), 30, 0),
        ((ABSTAINS, EMPTY, ANSWERS), 30, 0),
        ((ABSTAINS, EMPTY, ANSWERS, ANSWERS), 0, 0),
        ((COPIES, COPIES, ANSWERS), 0, 30),
        ((COPIES, ANSWERS), 0, 0),
        ((AnswerKind.DISORDERED,), 0, 30),
        ((AnswerKind.CUT,), 0, 30),
        ((AnswerKind.FOREIGN,), 0, 30),
    ],
)
def test_the_kind_of_most_answers_counts(kinds: tuple[AnswerKind, ...], unanswered: int, broken: int) -> None:
    found = shares(answering(*kinds, times=30))
    assert found["unanswered"].reason.startswith(f"{unanswered} of 60")
    assert found["broken"].reason.startswith(f"{broken} of 60")
    assert (found["broken"].status is Status.FAIL) is (broken == 30)


@pytest.mark.parametrize(("answered", "status"), [(3, "pass"), (4, "inconclusive"), (7, "fail")])
def test_answering_what_can_not_be_answered(answered: int, status: str) -> None:
    check = shares(answering(times=8 - answered, start=52 + answered, unanswerable=8))["guessed"]
    assert check.status == status
    assert f"{answered} of 8 unanswerable questions" in check.reason
    assert ("more than the 40 % allowed, but too few to decide" in check.reason) is (status == "inconclusive")


def test_guessing_is_compared_with_the_baseline_and_needs_a_metric_that_tells_it() -> None:
    guessing, rightly = answering(unanswerable=20), answering(times=20, start=40, unanswerable=20)
    check = shares(guessing, rightly)["guessed"]
    assert check.status is Status.FAIL
    assert "20 of 20 unanswerable questions are answered (0 before)" in check.reason
    untold = replace(guessing, metrics={"context_recall": guessing["context_recall"]})
    assert shares(untold)["guessed"].status is Status.PASS


def alike(n: int, references: int, answers: tuple[str, ...] = ("See our web site.",)) -> RunScores:
    """The same answers to the first `n` questions, which have so many references."""
    one = answering()
    same = dict.fromkeys(named(n), tuple(fingerprint(answer) for answer in answers))
    facts = {name: replace(one.samples[name], reference=f"r{i % references}") for i, name in enumerate(named(n))}
    samples = {**one.samples, **facts}
    return replace(one, samples=samples, system=replace(one.system, answers={**one.system.answers, **same}))


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (alike(20, 5), 20),
        (alike(20, 4), 0),
        (alike(20, 20, ("",)), 0),
        (alike(20, 20, ("Yes.", "No.")), 0),
        (alike(20, 20, ("Yes.", "Yes.")), 20),
    ],
)
def test_the_same_answer_to_questions_with_different_references_is_broken(run: RunScores, count: int) -> None:
    assert shares(run)["broken"].reason.startswith(f"{count} of 60")


def test_what_is_broken_is_counted_once_by_its_first_sign() -> None:
    one = answering(COPIES, times=10, low=20)
    same = {name: (fingerprint("See our web site."),) for name in named(20, 20)}
    check = shares(replace(one, system=replace(one.system, answers={**one.system.answers, **same})))["broken"]
    assert check.status is Status.FAIL
    for part in ("40 of 60", "20 the same as to other questions", "10 copied", "10 not supported"):
        assert part in check.reason
    assert shares(answering(times=10, low=20))["broken"].reason.startswith("10 of 60"), "the others are not answered"


@pytest.mark.parametrize(
    ("metric", "value", "provider", "rule", "share"),
    [
        ("faithfulness", 0.65, "offline", {}, "broken"),  # the offline judge's scores are probabilities
        ("faithfulness", 0.66, "offline", {}, None),
        ("faithfulness", 0.6, "openai", {}, None),
        ("faithfulness", 0.5, "openai", {}, "broken"),  # half of it is unsupported
        ("answer_relevancy", 0.3, "offline", {}, "broken"),
        ("answer_relevancy", 0.3, "openai", {}, None),
        ("answer_correctness", 0.1, "openai", {}, "broken"),
        ("context_recall", 0.2, "offline", {}, "fruitless"),
        ("context_recall", 0.21, "offline", {}, None),
        # A floor that allows such means decides alone.
        ("faithfulness", 0.1, "openai", {"min": 0.74}, None),
        ("faithfulness", 0.1, "openai", {"min": 0.75}, "broken"),
        ("faithfulness", 0.1, "openai", {"max_drop": 0.1}, "broken"),
    ],
)
def test_low_scores(metric: str, value: float, provider: str, rule: dict[str, float], share: str | None) -> None:
    one = judged_by(provider, scored(answering(), metric, [value] * 30 + [1.0] * 30))
    rules = policy_from_mapping({"metrics": {metric: rule}} if rule else {})
    failing = [name for name, check in shares(one, None, rules).items() if check.status is Status.FAIL]
    assert failing == ([] if share is None else [share])


@pytest.mark.parametrize(
    ("provider", "metric", "words", "status"),
    [
        ("offline", "faithfulness", Rewording(True), "pass"),
        ("openai", "faithfulness", Rewording(True), "fail"),
        ("offline", "answer_correctness", Rewording(True, True), "pass"),
    ],
)
def test_a_low_score_of_other_words(provider: str, metric: str, words: Rewording, status: str) -> None:
    low = scored(answering(), metric, [0.05] * 30 + [0.95] * 30)
    worded = replace(low, system=replace(low.system, reworded=dict.fromkeys(named(30), words)))
    assert shares(judged_by(provider, worded))["broken"].status == status


def test_one_answer_is_compared_with_one_of_the_runs_that_are_the_level() -> None:
    """A mean of six runs is seldom as low as one of them, so that healthy answers would seem new."""
    six = [[0.95] * 5 + [0.05 if 20 <= index < 29 else 0.95] for index in range(N)]
    level = build_run({"faithfulness": six, "context_recall": [0.9] * N}, manifest=OFFLINE)
    check = shares(answering(low=9), replace(answering(), metrics=level.metrics))["broken"]
    assert check.status is Status.PASS
    assert check.reason.startswith("9 of 60 answerable questions are answered with something broken (9 before)")


def test_which_runs_have_shares() -> None:
    one = answering(times=60)
    stopped = replace(one, manifest=make_manifest(state="stopped"))
    for unknown in (stopped, replace(one, manifest=None), replace(one, system=SystemFacts())):
        assert shares(unknown) == {}
    assert set(shares(one)) == {"unanswered", "broken", "fruitless"}
    retriever = OFFLINE.model_copy(update={"system": OFFLINE.system.model_copy(update={"part": "retrieval"})})
    assert set(shares(replace(one, manifest=retriever))) == {"fruitless"}


def at_rank(rank: int, *behind: int) -> RankedContexts:
    """Four contexts that each answer has, with the evidence at this rank, and more behind them."""
    texts = [7, 8, 9]
    texts.insert(rank - 1, 0)
    return RankedContexts(texts=(*texts, *behind), evidence=(rank - 1,))


def ordered(*counts: tuple[int, int]) -> RunScores:
    """So many answers each with the evidence at a rank."""
    run = answering()
    ranks = [at_rank(rank) for count, rank in counts for _ in range(count)]
    return replace(run, system=replace(run.system, ranked=dict(zip(named(N), ranks, strict=True))))


SECOND = ordered((N, 2))
KEYED = policy_from_mapping({"system": {"max_misranked": 0.2}})


@pytest.mark.parametrize(
    ("now", "then", "rules", "status"),
    [
        (ordered((5, 3), (55, 2)), SECOND, None, None),
        (ordered((6, 3), (54, 2)), SECOND, None, "inconclusive"),
        (ordered((11, 3), (49, 2)), SECOND, None, "fail"),
        (ordered((11, 3), (9, 1), (40, 2)), SECOND, None, None),
        (ordered((N, 4)), ordered((N, 3)), None, None),  # hardly lower
        (ordered((N, 3)), None, None, None),
        (ordered((12, 2), (48, 1)), ordered((N, 1)), KEYED, None),
        (ordered((14, 2), (46, 1)), ordered((N, 1)), KEYED, "fail"),
        (ordered((12, 2), (48, 1)), ordered((N, 1)), accepting("system.misranked", 0.2), None),
        (ordered((14, 2), (46, 1)), ordered((N, 1)), accepting("system.misranked", 0.2), "fail"),
    ],
)
def test_evidence_ranks_lower(now: RunScores, then: RunScores | None, rules: Policy | None, status: str | None) -> None:
    check = shares(now, then, rules).get("misranked")
    assert (None if check is None else check.status) == status
    if check is not None:
        assert (checker_of(check).title(check), key_of_check(check)) == ("Ranking", ("system", "max_misranked"))


def test_more_contexts_after_the_same_ones_are_no_worse_order() -> None:
    more = dict.fromkeys(named(N), at_rank(2, *range(10, 26)))
    longer = replace(SECOND, system=replace(SECOND.system, ranked=more))
    assert "misranked" not in shares(longer, SECOND)
    precise = scored(SECOND, "context_precision", [0.9] * N)
    assert "misranked" not in shares(scored(SECOND, "context_precision", [0.3] * N), precise)


def cited(false: int, right: int) -> RunScores:
    run = answering()
    return replace(run, system=replace(run.system, citations={f"s{i}": i >= false for i in range(false + right)}))


@pytest.mark.parametrize(
    ("now", "then", "count", "level"),
    [
        (cited(15, 45), cited(0, 60), 15, None),
        (cited(16, 44), cited(0, 60), 0, Level.WARNING),  # many answers cite something else than positions
        (cited(60, 0), None, 0, Level.NOTE),
        (cited(60, 0), cited(0, 60), 0, Level.WARNING),
        (cited(60, 0), cited(60, 0), 0, Level.NOTE),
        (cited(1, 4), None, 1, None),
        (cited(1, 3), None, 0, Level.NOTE),  # too few to tell
    ],
)
def test_citations_of_a_known_numbering(
    now: RunScores, then: RunScores | None, count: int, level: Level | None
) -> None:
    verdict = decide(now, then)
    (check,) = (check for check in verdict.checks if check.name == "system.broken")
    assert check.reason.startswith(f"{count} of 60 answerable questions")
    unclear = [finding.level for finding in verdict.findings if finding.kind == "citations"]
    assert unclear == ([] if level is None else [level])
