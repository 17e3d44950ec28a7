"""What the offline judge must reach on labelled sets. Slow: it judges some six thousand cases."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path

import pytest
from judge_opinions import TaskResult, run_judge, summarise
from labelled_sets import load_items
from model_answers import RAGTRUTH, by_model

from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.lexicon import load_data
from tests.judge.offline.answer_shares import (
    BEGIN,
    MODELS,
    WICE,
    Labelled,
    by_label,
    composed,
    copied,
    difference,
    flagged,
    labelled,
    own,
)
from tests.judge.offline.rewordings import measure as measure_rewordings
from tests.needs import need_data

DATA = Path(__file__).parents[4] / "shared" / "data"

pytestmark = pytest.mark.heavy


@cache
def results(file: str) -> dict[str, TaskResult]:
    path = DATA / file
    need_data(path)
    items = load_items(path)
    judge = OfflineJudge()
    return {result.task.value: result for result in summarise(asyncio.run(run_judge(judge, items)))}


@pytest.mark.parametrize(
    ("file", "task", "measure", "least"),
    [
        ("begin.jsonl.gz", "faithfulness", "auroc", 0.926),
        ("wice_claim.jsonl.gz", "faithfulness", "auroc", 0.755),
        ("wikieval.jsonl", "faithfulness", "pairwise_accuracy", 0.98),
        ("wikieval.jsonl", "answer_relevancy", "pairwise_accuracy", 0.90),
        ("wikieval.jsonl", "context_relevance", "pairwise_accuracy", 0.70),
        ("clapnq_dev.jsonl.gz", "answerability", "auroc", 0.82),
        ("ragchecker_meta_eval.jsonl.gz", "correctness", "pearson", 0.45),
        ("ragchecker_meta_eval.jsonl.gz", "completeness", "pearson", 0.58),
        ("ragchecker_meta_eval.jsonl.gz", "overall", "pearson", 0.56),
    ],
)
def test_the_judge_agrees_with_people_as_well_as_required(file: str, task: str, measure: str, least: float) -> None:
    result = results(file)[task]
    assert result.measures[measure].value >= least
    assert result.failed == 0
    assert result.scored >= 0.98 * result.items, "a figure on a part of the set is not the figure"


@pytest.mark.parametrize(("file", "most"), [("begin.jsonl.gz", 0.09), ("wice_claim.jsonl.gz", 0.18)])
def test_its_probability_is_a_probability(file: str, most: float) -> None:
    assert results(file)["faithfulness"].measures["calibration_error"].value <= most


@cache
def labelled_answers() -> dict[str, list[Labelled]]:
    need_data(DATA / "begin.jsonl.gz")
    return labelled(DATA)


@pytest.mark.parametrize(("name", "most"), [(BEGIN, 0.12), (WICE, 0.20), ("own", 0.12)])
def test_faithfulness_is_the_share_of_what_is_supported(name: str, most: float) -> None:
    cases = own() if name == "own" else composed(*by_label(labelled_answers()[name]))
    error, bias, _ = difference(cases)
    assert error <= most
    assert abs(bias) <= 0.05


@pytest.mark.parametrize(("name", "least"), [(BEGIN, 0.926), (WICE, 0.755), (MODELS, 0.825)])
def test_hallucination_ranks_answers_as_people_do(name: str, least: float) -> None:
    share, people, area = flagged(labelled_answers()[name])
    assert area >= least
    assert abs(share - people) <= 0.08


def test_what_hallucination_misses_on_begin_is_partly_in_the_labels() -> None:
    cases = labelled_answers()[BEGIN]
    others = [(case, share) for case, share in cases if share or not copied(case)]
    assert len(cases) - len(others) <= 25
    assert flagged(others)[2] >= 0.935


def test_faithfulness_of_what_models_write_is_near_peoples_share() -> None:
    error, bias, _ = difference(labelled_answers()[MODELS])
    assert error <= 0.15
    assert abs(bias) <= 0.12


def test_equal_answers_score_alike_whichever_model_wrote_them() -> None:
    labelled_answers()
    found = by_model(DATA / RAGTRUTH)
    right = [means[True] for means in found.values()]
    assert max(right) - min(right) <= 0.12
    less = {name: means[True] - means[False] for name, means in found.items() if False in means}
    assert all(by > 0 for by in less.values())
    assert sum(by >= 0.10 for by in less.values()) >= 3, "one model has a single answer with something unsupported"


def test_the_shipped_weights_are_those_that_the_training_script_makes() -> None:
    need_data(DATA / "begin.jsonl.gz")
    from train_offline_judge import train

    assert train(DATA) == load_data("weights.json")


def test_other_words_for_the_same_facts_move_faithfulness_little_and_wrong_ones_much() -> None:
    found = measure_rewordings()
    assert found.mean_move <= 0.03
    assert found.mean_unseen <= 0.055
    assert max(found.moves.values()) <= 0.12
    assert found.facts_seen >= 0.9
    assert found.negations_seen >= 0.85
