"""Warnings and notes of a verdict, and when there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.ranked import RankedContexts
from ragstone.evaluation.scores import RunScores, SystemFacts, VerdictCounts
from ragstone.evaluation.step_facts import StepFacts
from ragstone.gate.checks.quotes import Quotes, quote_notes
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, load_policy, policy_from_mapping
from ragstone.gate.warnings import unchecked_preference
from ragstone.gate.weak_languages import language_warnings
from ragstone.judge.offline.lexicon import load_data
from ragstone.metrics.pairwise import DEPENDS_ON_ORDER, NEITHER_IS_BETTER
from ragstone.system.response import NO_TEXTS
from tests.gate.conftest import build_run as run
from tests.gate.conftest import evidence_of, failed, named
from tests.gate.conftest import make_manifest as manifest

TEN = [1.0] * 10
OFFLINE = manifest(provider="offline")
FLOOR = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}})


def about(text: str, current: RunScores, baseline: RunScores | None = None, policy: Policy = FLOOR) -> list[str]:
    """The warnings and notes with this text."""
    verdict = decide_gate(current, baseline, policy)
    return [said for said in (*verdict.warnings, *verdict.notes) if text in said]


def faithful(**more: Any) -> RunScores:
    return run({"faithfulness": TEN}, **more)


@pytest.mark.parametrize(
    ("conversations", "takes_history", "says"),
    [(0, False, ""), (2, False, "Samples with earlier turns: 2."), (2, True, ""), (2, None, "")],
)
def test_conversations_without_their_history(conversations: int, takes_history: bool | None, says: str) -> None:
    one = manifest()
    system = one.system.model_copy(update={"conversations": conversations, "takes_history": takes_history})
    found = about("earlier turns", faithful(manifest=one.model_copy(update={"system": system})))
    assert [text.startswith(says) for text in found] == [True] * bool(says)
    assert about("earlier turns", faithful()) == []


@pytest.mark.parametrize(
    ("judged", "text", "says"),
    [
        (None, None, "There is no policy file: the default rules apply. "),
        (OFFLINE, None, "with the offline judge their floors only warn"),
        (OFFLINE, "[gate]\n", ""),  # that is for `ragstone check`
        (OFFLINE, FLOOR, ""),
    ],
)
def test_rules_that_apply_because_nothing_is_written(tmp_path: Path, judged: Any, text: Any, says: str) -> None:
    policy = text or default_policy()
    if isinstance(text, str):
        path = tmp_path / "thresholds.toml"
        path.write_text(text, encoding="utf-8")
        policy = load_policy(path)
    found = about("default rules apply", faithful(manifest=judged), None, policy)
    assert [says in one for one in found] == [True] * bool(says)


RUBRIC = {"versions": {"tone": "rubric 1"}}
NOT_GRADED = {"not_applicable": {"tone": {"s0": "there is no language model"}}}


@pytest.mark.parametrize(
    ("scores", "more", "warned"),
    [
        ([], {"manifest": OFFLINE, **NOT_GRADED, **RUBRIC}, True),
        ([], {"manifest": manifest(), **NOT_GRADED, **RUBRIC}, False),
        ([], {**NOT_GRADED, **RUBRIC}, False),
        ([], {"manifest": OFFLINE, **NOT_GRADED}, False),
        ([], {"manifest": OFFLINE, "failed": {"tone": failed(["s0"])}, **RUBRIC}, False),
        (TEN, {"manifest": OFFLINE, **RUBRIC}, False),
    ],
    ids=["offline", "a language model", "unknown", "no rubric", "failed", "graded"],
)
def test_rubrics_that_the_judge_can_not_grade_by(scores: list[float], more: Any, warned: bool) -> None:
    assert bool(about("Not scored: tone", run({"faithfulness": TEN, "tone": scores}, **more))) is warned


def test_answers_without_the_texts_of_their_contexts() -> None:
    excused = {"recall@5": {"s0": NO_TEXTS, "s1": "there is no label"}}
    lost = {"recall@5": failed(["s2"], "system", NO_TEXTS) | failed(["s3"])}
    assert about("Of 2 answers", run({"faithfulness": TEN, "recall@5": []}, not_applicable=excused, failed=lost))
    assert about("only metrics with relevant_ids", faithful()) == []


NOTHING = hash(())


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [(7, NOTHING, "with any answer: return them"), (None, NOTHING, "with any answer: return them"), (7, 7, "")],
)
def test_a_system_that_returns_no_contexts_any_more_lost_them(before: int | None, now: int, says: str) -> None:
    def returning(contexts: int) -> RunScores:
        return replace(faithful(), system=SystemFacts(contexts=dict.fromkeys(named(10), contexts)))

    found = about("returned no contexts", returning(now), None if before is None else returning(before))
    assert [says in one for one in found] == [True] * bool(says)
    other = replace(returning(now), metrics=run({"mrr": TEN}).metrics)
    assert about("returned no contexts", other) == [], "no metric reads them"


MISSED = RankedContexts(unmatched=("page-7", "b2f1"))


@pytest.mark.parametrize(
    ("rankings", "warned"),
    [
        ([MISSED, MISSED], True),
        # A retriever that misses documents has no other spelling.
        ([MISSED, RankedContexts(has_relevant=True)], False),
        ([RankedContexts()], False),
    ],
)
def test_ids_that_were_never_returned(rankings: list[RankedContexts], warned: bool) -> None:
    current = replace(faithful(), system=SystemFacts(ranked=dict(zip(named(10), rankings, strict=False))))
    assert ["'page-7'" in text and "'b2f1'" in text for text in about("was ever returned", current)] == [True] * warned


@pytest.mark.parametrize(("silent", "noted"), [(3, False), (4, True)])
def test_answers_that_stopped_claiming_anything_are_pointed_out(silent: int, noted: bool) -> None:
    excused = {"faithfulness": dict.fromkeys(named(silent, 60 - silent), "the answer abstains")}
    current = run({"faithfulness": [1.0] * (60 - silent)}, not_applicable=excused)
    found = about(f"no longer applies to {silent} of 60 samples", current, run({"faithfulness": [1.0] * 60}))
    assert len(found) == noted


# -- quotes ------------------------------------------------------------------------------------------------------------


def quoting(*counts: VerdictCounts) -> RunScores:
    return replace(faithful(), system=SystemFacts(verdicts=dict(zip(named(10), counts, strict=False))))


@pytest.mark.parametrize(
    ("counts", "begins"),
    [
        ([VerdictCounts(8, unquoted=1), VerdictCounts(2)], "For 1 of 10 supported statements (10 %), the judge quoted"),
        ([VerdictCounts(8)], ""),
    ],
)
def test_what_supported_statements_rest_on(counts: list[VerdictCounts], begins: str) -> None:
    found = list(quote_notes(evidence_of(quoting(*counts))))
    assert [note.startswith(begins) for note in found] == [True] * bool(begins)


@pytest.mark.parametrize(("allowed", "unquoted", "status"), [(0.1, 1, "pass"), (0.09, 1, "error"), (None, 10, None)])
def test_a_policy_may_demand_quotes(allowed: float | None, unquoted: int, status: str | None) -> None:
    gate = {} if allowed is None else {"max_unquoted": allowed}
    found = list(Quotes().evaluate(evidence_of(quoting(VerdictCounts(10, unquoted=unquoted)), gate=gate)))
    assert [(check.status, check.blocks, check.estimate) for check in found] == [(status, True, 0.1)] * bool(status)
    assert list(Quotes().evaluate(evidence_of(quoting(), gate=gate))) == []


# -- tools, languages, preference --------------------------------------------------------------------------------------

REFUND, SEARCH = "refund", "search or browse"


@pytest.mark.parametrize(
    ("expected", "called", "says"),
    [
        ({REFUND, SEARCH}, {"weather"}, "'refund', 'search or browse'; called were 'weather'."),
        ({REFUND, SEARCH}, {"browse"}, "never called: 'refund'; called were 'browse'."),
        ({REFUND}, set(), "'refund'; no tool was."),
        (set(), set(), ""),
        ({REFUND}, {"refund"}, ""),
    ],
)
def test_expected_tools_that_were_never_called(expected: set[str], called: set[str], says: str) -> None:
    facts = StepFacts(expected_tools=frozenset(expected), called_tools=frozenset(called))
    found = about("tools that were never called", replace(faithful(), system=SystemFacts(steps={"s0": facts})))
    assert [says.replace("'", "") in text.replace("'", "") for text in found] == [True] * bool(says)


CHINESE = "灯塔在哪里？"
ACCURACY = f"{100 * load_data('reliability.json')['languages']['zh']:.0f} %"


@pytest.mark.parametrize(
    ("question", "judged", "says"),
    [
        ("Where is the lighthouse?", OFFLINE, ()),
        ("Où se trouve le phare ?", OFFLINE, ()),
        (CHINESE, OFFLINE, ("in the language 'zh'", ACCURACY)),
        ("Где находится маяк?", OFFLINE, ("in the language 'ru'", "never measured")),
        (CHINESE, manifest(), ()),
        (CHINESE, None, ()),
    ],
)
def test_a_language_that_the_judge_is_weak_in(question: str, judged: Manifest | None, says: tuple[str, ...]) -> None:
    asked = faithful(manifest=judged)
    asked = replace(asked, samples={name: replace(one, question=question) for name, one in asked.samples.items()})
    found = list(language_warnings(evidence_of(asked)))
    assert len(found) == bool(says)
    assert all(part in found[0] for part in says)
    assert list(language_warnings(evidence_of(replace(asked, metrics=run({"mrr": TEN}).metrics)))) == []


RULE: dict[str, Any] = {"metrics": {"pairwise_preference": {"min": 0.4}}}


def preferred(*scores: float, equal: int = 0, order: int = 0, other: int = 0) -> RunScores:
    reasons = [NEITHER_IS_BETTER] * equal + [DEPENDS_ON_ORDER] * order + ["there is no language model"] * other
    excused = dict(zip(named(len(reasons), len(scores)), reasons, strict=True))
    return run({"pairwise_preference": scores}, not_applicable={"pairwise_preference": excused})


@pytest.mark.parametrize(
    ("current", "warned"),
    [
        (preferred(1.0, 1.0, 0.0, equal=1, order=2), False),
        (preferred(equal=2, order=1), False),
        (preferred(other=3), True),
        (run({"faithfulness": TEN}), False),
    ],
)
def test_a_floor_on_a_preference_that_nobody_could_tell(current: RunScores, warned: bool) -> None:
    said = "pairwise_preference was not checked: there is no language model."
    assert list(unchecked_preference(evidence_of(current, **RULE))) == [said] * warned
    assert list(unchecked_preference(evidence_of(current))) == [], "nothing is asked of it"
