"""Answers of earlier runs: whose count, and where they stand in a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.earlier import MAX_EARLIER_RUNS, add_answers, can_be_pooled, is_complete
from ragstone.evaluation.lineage import describe_baseline
from ragstone.evaluation.manifest import BaselineFact, SystemManifest
from ragstone.evaluation.replay import confirm
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import Sample
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.registry import select_metrics
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.evaluation.builders import Answering
from tests.github.runs import make_run

FAITHFULNESS = select_metrics(["faithfulness"])
PREFERENCE = select_metrics(["pairwise_preference"])


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run")


def compared_with(run: RunDirectory, baseline: RunDirectory) -> RunDirectory:
    return update_manifest(
        run, baseline=BaselineFact(eligible=False, reason="a test", used=describe_baseline(baseline))
    )


def test_the_newest_runs_count_up_to_a_limit_and_scores_follow_from_all_answers(
    tmp_path: Path, run: RunDirectory
) -> None:
    for number in range(MAX_EARLIER_RUNS + 2):
        run = add_answers(make_run(tmp_path / str(number)), run, FAITHFULNESS)
    assert run.manifest.earlier == (1,) * MAX_EARLIER_RUNS
    assert run.manifest.answers == MAX_EARLIER_RUNS + 1
    assert confirm(RunDirectory.open(run.path)).scores() == run.scores()


def test_a_run_that_is_asked_again_keeps_the_answers_of_earlier_runs(tmp_path: Path, run: RunDirectory) -> None:
    pooled = add_answers(make_run(tmp_path / "pooled"), run, FAITHFULNESS)
    again = add_answers(make_run(tmp_path / "again"), pooled, FAITHFULNESS, adds_own=False)
    assert (again.manifest.answers, again.manifest.earlier) == (2, (1,))
    assert add_answers(again, run, FAITHFULNESS, adds_own=False) is again, "that has none"


@pytest.mark.parametrize(
    "fields",
    [
        {"repeats": 2},
        {"metrics": {"faithfulness": "0"}},
        {"judge": JudgeIdentity(provider="another", model="m", version="1")},
        {"system": SystemManifest(entrypoint="python:app:another")},
    ],
)
def test_answers_of_another_judge_or_system_do_not_count(
    tmp_path: Path, run: RunDirectory, fields: dict[str, Any]
) -> None:
    earlier = update_manifest(make_run(tmp_path / "earlier"), **fields)
    assert not can_be_pooled(run, earlier, FAITHFULNESS, None)


def test_answers_to_fewer_questions_do_not_count_and_those_of_another_commit_do(
    tmp_path: Path, run: RunDirectory
) -> None:
    assert not can_be_pooled(run, make_run(tmp_path / "fewer", n=5), FAITHFULNESS, None)
    earlier = make_run(tmp_path / "earlier")
    assert can_be_pooled(run, earlier, FAITHFULNESS, None)
    system = earlier.manifest.system.model_copy(update={"commit": "e" * 40})
    assert can_be_pooled(run, update_manifest(earlier, system=system), FAITHFULNESS, None)


def test_a_run_with_an_answer_that_has_no_score_lacks_it(tmp_path: Path, run: RunDirectory) -> None:
    first = next(run.records()).sample.id

    def behave(sample: Sample) -> Response:
        if sample.id == first:
            return Response(sample.id, failure=SystemFailure(SystemFailureKind.CRASHED, "it crashed"))
        return Response(sample.id, "It is so.", (Context("It is so."),))

    failed = make_run(tmp_path / "failed", system=Answering(behave))
    assert (is_complete(run), is_complete(failed)) == (True, False)


def test_what_is_compared_with_the_baselines_answers_counts_beside_that_baseline_only(
    tmp_path: Path, run: RunDirectory
) -> None:
    baseline, another = make_run(tmp_path / "main"), make_run(tmp_path / "another", n=5)
    earlier = compared_with(make_run(tmp_path / "earlier"), baseline)
    assert can_be_pooled(run, earlier, PREFERENCE, baseline)
    assert not can_be_pooled(run, earlier, PREFERENCE, another)
    assert not can_be_pooled(run, earlier, PREFERENCE, None)
    assert can_be_pooled(run, earlier, FAITHFULNESS, another)
