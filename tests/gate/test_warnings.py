"""Warnings and notes of a verdict, and when there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.ranked import RankedContexts
from ragstone.evaluation.scores import RunScores, SystemFacts
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import Policy, default_policy, load_policy, policy_from_mapping
from ragstone.metrics.score import Failed
from ragstone.system.response import NO_TEXTS
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest

TEN = [1.0] * 10
OFFLINE = manifest(provider="offline")
FLOOR = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}})


def about(text: str, current: RunScores, baseline: RunScores | None = None, policy: Policy = FLOOR) -> list[str]:
    """The warnings and notes with this text."""
    verdict = decide_gate(current, baseline, policy)
    return [said for said in (*verdict.warnings, *verdict.notes) if text in said]


def with_system(**fields: Any) -> Manifest:
    one = manifest()
    return one.model_copy(update={"system": one.system.model_copy(update=fields)})


@pytest.mark.parametrize(
    ("conversations", "takes_history", "says"),
    [(0, False, ""), (1, False, "1 sample of"), (2, False, "2 samples of"), (2, True, ""), (2, None, "")],
)
def test_conversations_of_which_the_system_got_the_last_question_only(
    conversations: int, takes_history: bool | None, says: str
) -> None:
    system = with_system(conversations=conversations, takes_history=takes_history)
    found = about("earlier turns", run({"faithfulness": TEN}, manifest=system))
    assert bool(found) is bool(says)
    assert all(one.startswith(says) for one in found)
    assert about("earlier turns", run({"faithfulness": TEN})) == []


@pytest.mark.parametrize(
    ("offline", "in_file", "names_metrics", "says"),
    [
        (False, False, False, "There is no policy file"),
        (True, False, False, "with the offline judge their floors only warn"),
        (True, True, False, ""),  # that is for `ragstone check`
        (False, True, False, ""),
        (True, True, True, ""),
        (True, False, True, ""),
    ],
)
def test_rules_that_apply_because_nothing_is_written(
    tmp_path: Path, offline: bool, in_file: bool, names_metrics: bool, says: str
) -> None:
    policy = FLOOR if names_metrics else default_policy()
    if in_file:
        path = tmp_path / "thresholds.toml"
        path.write_text("[metrics.faithfulness]\nmin = 0.5\n" if names_metrics else "[gate]\n", encoding="utf-8")
        policy = load_policy(path)
    found = about(
        "default rules apply", run({"faithfulness": TEN}, manifest=OFFLINE if offline else None), None, policy
    )
    assert bool(found) is bool(says)
    assert all(says in one for one in found)


@pytest.mark.parametrize(
    ("metric", "tables", "warned"),
    [
        ("error_rate", {}, True),
        ("answerToxicity", {}, True),
        ("helpfulness", {}, False),
        ("faithfulness", {}, False),
        ("error_rate", {"metrics": {"error_rate": {"max_rise": 0.02}}}, False),
        ("error_rate", {"metrics": {"error_rate": {"max_drop": 0.02}}}, False),
    ],
)
def test_scores_of_another_evaluator_that_sound_as_if_less_were_better(
    metric: str, tables: dict[str, Any], warned: bool
) -> None:
    found = about("Assuming higher is better", run({metric: TEN}), None, policy_from_mapping(tables))
    assert bool(found) is warned
    assert all(f"[metrics.{metric}]" in one for one in found)


RUBRIC = {"versions": {"tone": "rubric 1"}}
NOT_GRADED = {"tone": {"s0": "there is no language model"}}


@pytest.mark.parametrize(
    ("scores", "more", "warned"),
    [
        ([], {"manifest": OFFLINE, "not_applicable": NOT_GRADED, **RUBRIC}, True),
        ([], {"manifest": manifest(), "not_applicable": NOT_GRADED, **RUBRIC}, False),
        ([], {"not_applicable": NOT_GRADED, **RUBRIC}, False),
        ([], {"manifest": OFFLINE, "not_applicable": NOT_GRADED}, False),
        ([], {"manifest": OFFLINE, "failed": {"tone": {"s0": Failed("judge", "refused")}}, **RUBRIC}, False),
        (TEN, {"manifest": OFFLINE, **RUBRIC}, False),
    ],
    ids=["offline", "a language model", "unknown", "no rubric", "failed", "graded"],
)
def test_rubrics_that_the_judge_can_not_grade_by(scores: list[float], more: dict[str, Any], warned: bool) -> None:
    found = about("Not scored: tone", run({"faithfulness": TEN, "tone": scores}, **more))
    assert bool(found) is warned


def test_answers_without_the_texts_of_their_contexts() -> None:
    excused = {"recall@5": {"s0": NO_TEXTS, "s1": "there is no label"}}
    lost = {"recall@5": {"s2": Failed("system", NO_TEXTS), "s3": Failed("judge", "refused")}}
    found = about("Of 2 answers", run({"faithfulness": TEN, "recall@5": []}, not_applicable=excused, failed=lost))
    assert len(found) == 1
    assert about("only metrics with relevant_ids", run({"faithfulness": TEN})) == []


def with_rankings(*rankings: RankedContexts) -> RunScores:
    ranked = {f"s{number}": ranking for number, ranking in enumerate(rankings)}
    current = run({"faithfulness": TEN})
    return replace(current, system=replace(current.system, ranked=ranked))


@pytest.mark.parametrize(
    ("label", "returned"),
    [("docs/w0.md", "w0.md"), ("w0.md", "docs/w0.md"), ("A.md", "a.md"), ("a", "a#1"), ("1", "1.0"), ("./a", "a")],
)
def test_ids_that_differ_in_writing_only(label: str, returned: str) -> None:
    found = RankedContexts(relevant_ids=("fine.md",))
    (warning,) = about("are different ids", with_rankings(found, RankedContexts((), (), (), (label,), (returned,))))
    assert f"'{label}'" in warning
    assert f"'{returned}'" in warning


def test_ids_that_were_never_returned() -> None:
    missed = RankedContexts(missed_ids=("page-7",), other_ids=("b2f1",))
    (warning,) = about("was ever returned", with_rankings(missed, missed))
    assert "'page-7'" in warning
    assert "'b2f1'" in warning


@pytest.mark.parametrize(
    "rankings",
    [
        [RankedContexts(missed_ids=("page-7",), other_ids=("b2f1",)), RankedContexts(relevant_ids=("page-1",))],
        [RankedContexts(missed_ids=("README.md",), other_ids=("docs/README.md",), relevant_ids=("README.md",))],
        [RankedContexts(missed_ids=("a.md",), other_ids=("b.md",)), RankedContexts(relevant_ids=("b.md",))],
        [RankedContexts(missed_ids=("a.md#x",), other_ids=("a.md#y",)), RankedContexts(relevant_ids=("b.md",))],
        [RankedContexts()],
    ],
)
def test_a_retriever_that_misses_documents_has_no_other_spelling(rankings: list[RankedContexts]) -> None:
    current = with_rankings(*rankings)
    assert about("different ids", current) == []
    assert about("ever returned", current) == []


@pytest.mark.parametrize(
    ("generated", "names", "noted"),
    [(5, ("faithfulness",), False), (6, ("faithfulness", "recall@5"), True), (6, ("recall@5",), False)],
)
def test_generated_questions_that_nobody_reviewed(generated: int, names: tuple[str, ...], noted: bool) -> None:
    made = manifest()
    made = made.model_copy(update={"golden": made.golden.model_copy(update={"generated": generated})})
    policy = policy_from_mapping({"metrics": {names[0]: {"min": 0.5}}, "gate": {"only_named": True}})
    found = about("generated and not reviewed", run(dict.fromkeys(names, TEN), manifest=made), None, policy)
    assert [("6 of 10" in one, "drops of faithfulness deserve" in one) for one in found] == [(True, True)] * noted


def test_answers_that_say_more_than_their_contexts_are_counted() -> None:
    scores = {"faithfulness": TEN, "hallucination": [1.0] * 3 + [0.4] * 7}
    assert about("in 3 of 10 answers", run(scores))
    assert about("the contexts don't say", run(scores, manifest=OFFLINE)) == []
    assert about("the contexts don't say", run({"faithfulness": TEN, "hallucination": [0.4] * 10})) == []


@pytest.mark.parametrize(("silent", "noted"), [(3, False), (4, True)])
def test_answers_that_stopped_claiming_anything_are_pointed_out(silent: int, noted: bool) -> None:
    excused = {f"s{index}": "the answer abstains" for index in range(60 - silent, 60)}
    policy = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.02}}})
    current = run({"faithfulness": [1.0] * (60 - silent)}, not_applicable={"faithfulness": excused})
    found = about(f"no longer applies to {silent} of 60 samples", current, run({"faithfulness": [1.0] * 60}), policy)
    assert bool(found) is noted
    assert all("abstains" in one for one in found)


@pytest.mark.parametrize(
    ("before", "says"), [(7, "and did in the baseline"), (hash(()), "with any answer: return them")]
)
def test_a_system_that_returns_no_contexts_any_more_lost_them(before: int, says: str) -> None:
    scores = {"faithfulness": TEN}
    now, then = run(scores), run(scores)
    now = replace(now, system=SystemFacts(contexts=dict.fromkeys(now.samples, hash(()))))
    then = replace(then, system=SystemFacts(contexts=dict.fromkeys(then.samples, before)))
    (warning,) = about("returned no contexts", now, then)
    assert says in warning
