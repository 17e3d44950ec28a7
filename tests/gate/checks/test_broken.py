"""Shares of questions that are not answered, answered though they can't be, or answered with something broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.answer_kinds import AnswerKind
from ragstone.evaluation.ranked import RankedContexts
from ragstone.evaluation.rewording import Rewording
from ragstone.evaluation.scores import MetricScores, RunScores, SystemFacts, fingerprint
from ragstone.gate.accepted import AcceptedEntry
from ragstone.gate.checks.registry import checker_of, key_of_check
from ragstone.gate.decide import decide_gate
from ragstone.gate.findings import Level
from ragstone.gate.policy import Policy, default_policy, policy_from_mapping
from ragstone.gate.verdict import Check, CheckKind, GateVerdict, Status
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest

ABSTAINS, COPIES = AnswerKind.ABSTAINS, AnswerKind.COPIES


def answering(
    kind: AnswerKind = ABSTAINS,
    times: int = 0,
    *,
    n: int = 60,
    unanswerable: int = 0,
    low: int = 0,
    **groups: Any,
) -> RunScores:
    """A run of 60 samples of which the first have answers of a kind; `unanswerable` are among the last."""
    scores = {"faithfulness": [0.05] * low + [0.95] * (n - low), "context_recall": [0.9] * n}
    found = run(scores, manifest=manifest(provider="offline"), **groups)
    facts = {
        f"s{i}": replace(found.samples[f"s{i}"], question=f"q{i}", reference=f"r{i}", answerable=i < n - unanswerable)
        for i in range(n)
    }
    given = SystemFacts(
        answers={f"s{i}": (fingerprint(f"answer {i}"),) for i in range(n)},
        kinds={f"s{i}": (kind,) for i in range(times)},
    )
    return replace(found, samples=facts, system=given)


def shares(verdict: GateVerdict) -> Mapping[str, tuple[Status, str]]:
    return {check.name: (check.status, check.reason) for check in verdict.checks if check.kind is CheckKind.SHARE}


ACCEPTED = AcceptedEntry.model_construct(id="abcdefgh", metric="answer_correctness", drop=0.3)
GROUPS = {f"s{i}": "one" for i in range(12)}
OTHERS = replace(answering(), system=replace(answering().system, kinds={f"s{i}": (ABSTAINS,) for i in range(12, 24)}))


@pytest.mark.parametrize(
    ("now", "then", "rules", "status"),
    [
        pytest.param(answering(times=30), None, default_policy(), Status.FAIL, id="half of a first run"),
        pytest.param(answering(times=22), None, default_policy(), Status.INCONCLUSIVE, id="not shown to be more"),
        pytest.param(
            answering(times=30),
            None,
            policy_from_mapping({"system": {"max_unanswered": 0.6}}),
            Status.PASS,
            id="allowed by the policy",
        ),
        pytest.param(answering(times=30), answering(times=30), default_policy(), Status.INCONCLUSIVE, id="as before"),
        # An exact sign test of what is new.
        pytest.param(answering(times=5), answering(), default_policy(), Status.PASS, id="5 new"),
        pytest.param(answering(times=6), answering(), default_policy(), Status.INCONCLUSIVE, id="6 new"),
        pytest.param(answering(times=10), answering(), default_policy(), Status.INCONCLUSIVE, id="10 new"),
        pytest.param(answering(times=11), answering(), default_policy(), Status.FAIL, id="11 new"),
        pytest.param(answering(times=12), OTHERS, default_policy(), Status.PASS, id="as many others"),
        pytest.param(
            answering(times=12, groups=GROUPS), answering(groups=GROUPS), default_policy(), Status.PASS, id="one group"
        ),
        pytest.param(
            answering(times=15),
            answering(),
            replace(default_policy(), widened={ACCEPTED.target: ACCEPTED}),
            Status.PASS,
            id="an accepted drop allows a rise",
        ),
    ],
)
def test_unanswered_questions(now: RunScores, then: RunScores | None, rules: Policy, status: Status) -> None:
    found, reason = shares(decide_gate(now, then, rules))["system.unanswered"]
    assert found is status
    assert f"{len(now.system.kinds)} of 60 answerable questions are not answered" in reason
    assert ("before)" in reason) is (then is not None)


def test_answers_that_are_all_there_pass_every_share() -> None:
    assert {status for status, _ in shares(decide_gate(answering(), None, default_policy())).values()} == {Status.PASS}


def test_answering_what_can_not_be_answered_is_a_check_of_its_own() -> None:
    guessing = answering(unanswerable=20)
    rightly = replace(guessing, system=replace(guessing.system, kinds={f"s{i}": (ABSTAINS,) for i in range(40, 60)}))
    assert shares(decide_gate(rightly, None, default_policy()))["system.guessed"][0] is Status.PASS
    status, reason = shares(decide_gate(guessing, rightly, default_policy()))["system.guessed"]
    assert status is Status.FAIL
    assert "20 of 20 unanswerable questions are answered (0 before)" in reason


@pytest.mark.parametrize(
    ("answered", "status"), [(3, Status.PASS), (4, Status.INCONCLUSIVE), (6, Status.INCONCLUSIVE), (7, Status.FAIL)]
)
def test_no_tick_stands_beside_a_share_that_is_over_its_limit(answered: int, status: Status) -> None:
    guessing = answering(unanswerable=8)
    kinds: dict[str, tuple[AnswerKind, ...]] = {f"s{i}": (ABSTAINS,) for i in range(52 + answered, 60)}
    run = replace(guessing, system=replace(guessing.system, kinds=kinds))
    found, reason = shares(decide_gate(run, None, default_policy()))["system.guessed"]
    assert found is status
    assert f"{answered} of 8 unanswerable questions are answered" in reason
    assert ("more than the 40 % allowed, but too few to decide" in reason) is (status is Status.INCONCLUSIVE)


def test_copied_answers_the_same_answers_and_false_ones_are_broken() -> None:
    one = answering(COPIES, 10, low=20)
    same = {f"s{i}": (fingerprint("See our web site."),) for i in range(20, 40)}
    found = replace(one, system=replace(one.system, answers={**one.system.answers, **same}))
    status, reason = shares(decide_gate(found, None, default_policy()))["system.broken"]
    assert status is Status.FAIL
    for part in ("40 of 60", "20 the same as to other questions", "10 copied", "10 not supported"):
        assert part in reason


@pytest.mark.parametrize(
    "rules",
    [default_policy(), policy_from_mapping({"metrics": {"context_recall": {"min": 0.5}}})],
    ids=["default", "names another metric"],
)
def test_a_metric_that_the_policy_does_not_name_is_guarded(rules: Policy) -> None:
    verdict = decide_gate(answering(low=55), None, rules)
    assert shares(verdict)["system.broken"][0] is Status.FAIL
    assert "faithfulness.answers" in {check.name for check in verdict.checks if check.status is Status.FAIL}


def test_a_floor_that_allows_low_means_decides_alone() -> None:
    rules = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.1}}})
    assert decide_gate(answering(low=40), None, rules).status is Status.PASS


def test_a_run_that_did_not_finish_or_whose_answers_are_unknown_has_no_shares() -> None:
    one = answering(times=60)
    assert one.manifest is not None
    stopped = replace(one, manifest=one.manifest.model_copy(update={"state": "stopped"}))
    for unknown in (stopped, replace(one, manifest=None), replace(one, system=SystemFacts())):
        assert shares(decide_gate(unknown, None, default_policy())) == {}


def scored(run: RunScores, metric: str, values: list[float]) -> RunScores:
    """`run` with the scores of one more metric, for its first samples."""
    given = MetricScores({f"s{i}": value for i, value in enumerate(values)})
    return replace(run, metrics={**run.metrics, metric: given})


def judged_by(provider: str, run: RunScores) -> RunScores:
    assert run.manifest is not None
    judge = replace(run.manifest.judge, provider=provider)
    return replace(run, manifest=run.manifest.model_copy(update={"judge": judge}))


@pytest.mark.parametrize("kind", [AnswerKind.DISORDERED, AnswerKind.CUT, AnswerKind.FOREIGN])
def test_answers_that_are_broken_in_their_form_are_counted(kind: AnswerKind) -> None:
    assert shares(decide_gate(answering(kind, 30), None, default_policy()))["system.broken"][0] is Status.FAIL


def test_finding_no_relevant_document_is_fruitless() -> None:
    one = scored(answering(), "mrr", [0.0] * 30 + [1.0] * 30)
    status, reason = shares(decide_gate(one, None, default_policy()))["system.fruitless"]
    assert status is Status.FAIL
    assert "30 of 60 answerable questions" in reason
    assert "30 without a relevant document" in reason


@pytest.mark.parametrize(
    ("metric", "value", "provider", "status"),
    [
        ("answer_relevancy", 0.3, "offline", Status.FAIL),  # the offline judge's scores are probabilities
        ("answer_relevancy", 0.3, "openai", Status.PASS),
        ("faithfulness", 0.6, "offline", Status.FAIL),
        ("faithfulness", 0.6, "openai", Status.PASS),
        ("faithfulness", 0.5, "openai", Status.FAIL),  # half of it is unsupported
    ],
)
def test_answers_with_low_scores_are_broken(metric: str, value: float, provider: str, status: Status) -> None:
    one = judged_by(provider, scored(answering(), metric, [value] * 30 + [1.0] * 30))
    assert shares(decide_gate(one, None, default_policy()))["system.broken"][0] is status


def at_rank(rank: int, *behind: int) -> RankedContexts:
    """Three contexts that each answer has, with the evidence at this rank, and more behind them."""
    texts = [7, 8]
    texts.insert(rank - 1, 0)
    return RankedContexts(texts=(*texts, *behind), evidence=(rank - 1,))


def ordered(*contexts: RankedContexts) -> RunScores:
    run = answering()
    by_sample = {f"s{i}": each for i, each in enumerate(contexts)}
    return replace(run, system=replace(run.system, ranked=by_sample))


def misranked(now: RunScores, then: RunScores, policy: Policy | None = None) -> Check | None:
    checks = decide_gate(now, then, policy or default_policy()).checks
    return next((check for check in checks if check.name == "system.misranked"), None)


@pytest.mark.parametrize(
    ("worse", "better", "status"), [(5, 0, None), (6, 0, Status.INCONCLUSIVE), (11, 0, Status.FAIL), (11, 9, None)]
)
def test_evidence_at_a_lower_rank_than_before_is_counted(worse: int, better: int, status: Status | None) -> None:
    then = ordered(*[at_rank(2)] * 60)
    now = ordered(*[at_rank(3)] * worse, *[at_rank(1)] * better, *[at_rank(2)] * (60 - worse - better))
    check = misranked(now, then)
    assert (None if check is None else check.status) is status
    assert "system.misranked" not in shares(decide_gate(now, None, default_policy()))
    if check is not None:
        assert f"{worse} of 60 answerable questions" in check.reason
        assert (checker_of(check).title(check), key_of_check(check)) == ("Ranking", ("system", "max_misranked"))


def test_more_contexts_after_the_same_ones_are_no_worse_order() -> None:
    then = ordered(*[at_rank(2)] * 60)
    assert misranked(ordered(*[at_rank(2, *range(10, 26))] * 60), then) is None
    precise = scored(then, "context_precision", [0.9] * 60)
    assert misranked(scored(then, "context_precision", [0.3] * 60), precise) is None


@pytest.mark.parametrize(
    "policy",
    [
        policy_from_mapping({"system": {"max_misranked": 0.2}}),
        replace(
            default_policy(),
            widened={
                ("system.misranked", None): AcceptedEntry.model_construct(
                    id="abcdefgh", metric="system.misranked", drop=0.2
                )
            },
        ),
    ],
    ids=["by its key", "accepted"],
)
def test_a_worse_order_can_be_allowed_up_to_a_share(policy: Policy) -> None:
    then = ordered(*[at_rank(1)] * 60)
    assert misranked(ordered(*[at_rank(2)] * 12, *[at_rank(1)] * 48), then, policy) is None
    more = misranked(ordered(*[at_rank(2)] * 14, *[at_rank(1)] * 46), then, policy)
    assert more is not None
    assert more.status is Status.FAIL


def test_accepting_one_guard_leaves_the_others_as_they_are() -> None:
    entry = AcceptedEntry.model_construct(id="abcdefgh", metric="system.misranked", drop=0.9)
    policy = replace(default_policy(), widened={entry.target: entry})
    assert shares(decide_gate(answering(times=11), answering(), policy))["system.unanswered"][0] is Status.FAIL


def cited(false: int, right: int) -> RunScores:
    run = answering()
    citations = {f"s{i}": i >= false for i in range(false + right)}
    return replace(run, system=replace(run.system, citations=citations))


@pytest.mark.parametrize(
    ("now", "then", "counts"),
    [
        (cited(10, 50), None, 10),
        (cited(15, 45), cited(0, 60), 15),
        (cited(16, 44), cited(0, 60), 0),  # many answers cite something else than positions
        (cited(60, 0), None, 0),
        (cited(60, 0), cited(0, 60), 0),
        (cited(1, 3), None, 0),  # too few to tell
    ],
)
def test_a_citation_is_false_only_where_the_run_proves_its_numbering(
    now: RunScores, then: RunScores | None, counts: int
) -> None:
    verdict = decide_gate(now, then, default_policy())
    _, reason = shares(verdict)["system.broken"]
    assert reason.startswith(f"{counts} of 60 answerable questions")
    unclear = [finding for finding in verdict.findings if finding.kind == "citations"]
    assert len(unclear) == (0 if counts else 1)
    if unclear:
        assert unclear[0].level is (Level.NOTE if then is None else Level.WARNING)
        assert "not checked" in unclear[0].text


def test_a_low_score_of_words_is_not_broken_where_the_facts_are_there() -> None:
    low = answering(low=30)
    worded = replace(low, system=replace(low.system, reworded={f"s{i}": Rewording(True) for i in range(30)}))
    assert shares(decide_gate(low, None, default_policy()))["system.broken"][0] is Status.FAIL
    assert shares(decide_gate(worded, None, default_policy()))["system.broken"][0] is Status.PASS
    by_model = judged_by("openai", worded)
    assert shares(decide_gate(by_model, None, default_policy()))["system.broken"][0] is Status.FAIL


def test_one_answer_is_compared_with_one_of_the_runs_that_are_the_level() -> None:
    """A mean of six runs is seldom as low as one of them, so that healthy answers would seem new."""
    now = answering(low=9)
    six = [[0.95] * 5 + [0.05 if 20 <= index < 29 else 0.95] for index in range(60)]
    level = run({"faithfulness": six, "context_recall": [0.9] * 60}, manifest=manifest(provider="offline"))
    then = replace(answering(), metrics=level.metrics)
    status, reason = shares(decide_gate(now, then, default_policy()))["system.broken"]
    assert status is Status.PASS
    assert reason.startswith("9 of 60 answerable questions are answered with something broken (9 before)")
