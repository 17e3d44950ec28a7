"""A run's records, read once and replayed as they are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Invocation
from ragstone.evaluation.replay import confirm, same_score, vouch
from ragstone.evaluation.writer import update_manifest
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.metrics.score import NotApplicable, Score, Scored
from tests.evaluation.opened import opened_for_reading
from tests.github.runs import make_run


def test_scores_fingerprint_and_replay_take_one_reading(tmp_path: Path) -> None:
    made = make_run(tmp_path)
    with opened_for_reading("samples.jsonl") as opened:
        run = confirm(RunDirectory.open(made.path))
        changed = run.with_manifest(run.manifest.model_copy(update={"verdict": "fail"}))
        assert changed.scores().metrics == run.scores().metrics
        assert changed.fingerprint == run.fingerprint
        assert changed.scores().manifest == changed.manifest
    assert len(opened) == 1
    assert run.fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("recorded", "replayed", "same"),
    [
        (Scored(0.5), Scored(0.5, "another note"), True),
        (Scored(0.5), Scored(0.5 + 1e-12), True),
        (Scored(0.5), Scored(0.51), False),
        (NotApplicable("empty"), Scored(0.5), False),
        (NotApplicable("empty"), NotApplicable("other words"), True),
    ],
)
def test_scores_are_the_same_but_for_last_digits_and_words(recorded: Score, replayed: Score, same: bool) -> None:
    assert same_score(recorded, replayed) is same


UNCHANGED = Invocation(command="run", changed=0)


@pytest.mark.parametrize(
    ("golden", "invocation", "doubts"),
    [
        (lambda own: own, UNCHANGED, []),
        (lambda own: own, Invocation(command="run", changed=1), ["does not show that the files"]),
        (lambda own: own, None, ["does not show that the files"]),
        (lambda own: own[1:], UNCHANGED, ["different questions"]),
        (lambda own: [*own, Sample("more", "?")], UNCHANGED, ["different questions"]),
        (lambda own: [replace(own[0], question="Another?"), *own[1:]], UNCHANGED, ["different questions"]),
    ],
)
def test_an_untrusted_run_is_compared_with_the_golden_set_of_the_default_branch(
    tmp_path: Path, golden: Any, invocation: Invocation | None, doubts: list[str]
) -> None:
    run = update_manifest(make_run(tmp_path), invocation=invocation)
    own = [record.sample for record in run.records()]
    vouched = vouch(run, GoldenSet(tuple(golden(own))))
    assert len(vouched.doubts) == len(doubts)
    assert all(words in doubt for words, doubt in zip(doubts, vouched.doubts, strict=True))
    assert set(vouched.scores.metrics) == set(run.scores().metrics)


def test_a_metric_of_another_version_is_unverified_and_left_out(tmp_path: Path) -> None:
    run = update_manifest(make_run(tmp_path), metrics={"faithfulness": "0"}, invocation=UNCHANGED)
    vouched = vouch(run, GoldenSet(tuple(record.sample for record in run.records())))
    assert vouched.scores.metrics == {}
    (doubt,) = vouched.doubts
    assert doubt.startswith("faithfulness is unverified and left out: it is version 0 in the run, and version")
