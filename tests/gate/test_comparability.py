"""What two runs are compared on, and the sentence for what differs."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.gate.comparability import new_ids, pair_runs, with_ids_of
from ragstone.gate.decide import decide_gate
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Status
from tests.gate.conftest import build_run as run
from tests.gate.conftest import make_manifest as manifest

SCORES = {"faithfulness": [1.0, 0.5, 1.0], "recall@5": [1.0, 0.0, 1.0]}


def test_equal_runs_are_compared_on_everything_without_a_note() -> None:
    one = run(SCORES, manifest=manifest())
    found = pair_runs(one, one).comparability
    assert found.comparable
    assert (found.paired, found.total, found.notes) == (3, 3, ())
    assert found.metrics == ("faithfulness", "recall@5")


def test_changed_new_and_gone_samples_are_counted_and_left_out() -> None:
    baseline = run({"faithfulness": [1.0] * 4}, hashes={"s0": "a", "s1": "b", "s2": "c", "s3": "d"})
    current = run({"faithfulness": [1.0] * 4}, hashes={"s1": "b", "s2": "other", "s3": "d", "s4": "e"}, offset=1)
    pairing = pair_runs(current, baseline)
    assert pairing.samples == ("s1", "s3")
    (note,) = pairing.comparability.notes
    assert "2 of 4 samples" in note
    refused = pair_runs(current, baseline, unmatched="refuse").comparability
    assert not refused.comparable
    assert 'unmatched = "refuse"' in refused.notes[0]


@pytest.mark.parametrize(
    ("offset", "hashes", "says"),
    [(50, {}, "no sample is the same"), (0, {"s0": "x", "s1": "x", "s2": "x"}, "no sample is the same")],
)
def test_a_baseline_of_another_golden_set_is_not_comparable(offset: int, hashes: dict[str, str], says: str) -> None:
    baseline = run(SCORES, offset=offset, hashes=hashes)
    found = pair_runs(run(SCORES, hashes={"s0": "a", "s1": "b", "s2": "c"}), baseline).comparability
    assert not found.comparable
    assert "a different golden set" in found.notes[0]
    assert says in found.notes[0]


@pytest.mark.parametrize(
    ("differs", "says"),
    [
        ({"model": "judge-2"}, "the judge changed from openai judge-2 to openai judge-1"),
        ({"version": "prompts-0"}, "the prompts of the judge changed"),
        ({"embeddings": "small"}, "the judge's embedding model, endpoint or parameters changed"),
    ],
)
def test_under_another_judge_only_metrics_that_need_none_are_compared(differs: dict[str, Any], says: str) -> None:
    found = pair_runs(run(SCORES, manifest=manifest()), run(SCORES, manifest=manifest(**differs))).comparability
    assert found.metrics == ("recall@5",)
    assert found.skipped.keys() == {"faithfulness"}
    assert found.skipped["faithfulness"].startswith(says)
    assert found.skipped["faithfulness"].endswith("metrics that use the judge are not compared.")


def test_a_metric_of_another_version_or_that_the_baseline_lacks_is_not_compared() -> None:
    now, then = run(SCORES, versions={"faithfulness": "2"}), run(SCORES, versions={"faithfulness": "1"})
    found = pair_runs(now, then).comparability
    assert found.metrics == ("recall@5",)
    assert "version 1 in the baseline and is 2 now" in found.skipped["faithfulness"]
    lacking = pair_runs(run(SCORES), run({"faithfulness": [1.0] * 3})).comparability
    assert list(lacking.skipped) == ["recall@5"]


def test_an_unfinished_baseline_is_said() -> None:
    now, then = manifest(repeats=3), manifest(state="stopped")
    notes = pair_runs(run(SCORES, manifest=now), run(SCORES, manifest=then)).comparability.notes
    assert any("did not finish" in note for note in notes)


def test_a_mean_of_several_answers_is_compared_with_a_single_one() -> None:
    """One of four answers to each question is bad. Where it is not the baseline's, the question has lost."""
    rules = policy_from_mapping({"metrics": {"faithfulness": {"max_drop": 0.0}}})
    then = run({"faithfulness": [1.0] * 16}, manifest=manifest())
    three = run({"faithfulness": [(1.0, 0.0, 1.0)] * 8}, manifest=manifest(answers=3))
    one = run({"faithfulness": [0.8] * 16}, manifest=manifest())
    assert decide_gate(one, then, rules).status is Status.FAIL
    then = run({"faithfulness": [1.0] * 8}, manifest=manifest())
    few = run({"faithfulness": [(1.0, 0.0, 1.0)] * 2 + [1.0] * 6}, manifest=manifest(answers=3))
    assert decide_gate(few, then, rules).status is not Status.FAIL  # the baseline may have been lucky
    worse = run({"faithfulness": [(0.0, 0.4, 0.0)] * 8}, manifest=manifest(answers=3))
    assert decide_gate(worse, then, rules).status is Status.FAIL
    as_many = run({"faithfulness": [(1.0, 1.0, 1.0)] * 8}, manifest=manifest(answers=3))
    assert decide_gate(three, as_many, rules).status is Status.FAIL


def test_scores_that_do_not_say_who_judged_are_taken_on_trust_aloud() -> None:
    found = pair_runs(run(SCORES, manifest=manifest()), run(SCORES, label="old.csv")).comparability
    assert found.comparable
    assert found.notes[0].startswith("old.csv does not name its judge")


def test_samples_that_were_given_ids_are_paired_by_their_content() -> None:
    baseline = run({"faithfulness": [0.1, 0.2, 0.3]}, hashes={"s0": "a", "s1": "b", "s2": "c"})
    current = run({"faithfulness": [0.5, 0.6, 0.7]}, hashes={"s10": "a", "s11": "b", "s12": "c"}, offset=10)
    named, stored = with_ids_of(current, baseline)
    assert stored == {"s10": "s0", "s11": "s1", "s12": "s2"}
    assert named.metrics["faithfulness"].values == {"s10": 0.1, "s11": 0.2, "s12": 0.3}
    assert pair_runs(current, named).samples == ("s10", "s11", "s12")
    assert pair_runs(current, named).comparability.notes == ()


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ({"new": "a", "other": "a"}, {"old": "a"}),  # two samples with this content: which one was renamed?
        ({"new": "a"}, {"old": "a", "older": "a"}),
        ({"new": None}, {"old": None}),
        ({"new": "a"}, {"old": "b"}),
    ],
)
def test_samples_are_not_paired_by_content_in_doubt(now: dict[str, str | None], then: dict[str, str | None]) -> None:
    assert new_ids(now, then) == {}


@pytest.mark.parametrize(
    ("now", "then", "ids"),
    [
        ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "b", "b": "a"}),
        ({"new": "1", "old": "2"}, {"old": "1"}, {"old": "new"}),
        ({"a": "2", "b": "3", "c": "4"}, {"a": "1", "b": "2", "c": "3", "d": "4"}, {"b": "a", "c": "b", "d": "c"}),
    ],
    ids=["swapped", "another question under the old id", "numbered by rows, of which the first is gone"],
)
def test_a_question_is_known_by_its_content_also_under_the_id_of_another(
    now: dict[str, str | None], then: dict[str, str | None], ids: dict[str, str]
) -> None:
    assert new_ids(now, then) == ids


def test_a_question_that_lost_its_id_to_another_gets_the_one_that_is_free() -> None:
    baseline = run({"faithfulness": [0.1, 0.2, 0.3]}, hashes={"s0": "1", "s1": "2", "s2": "3"})
    current = run({"faithfulness": [0.2, 0.3]}, hashes={"s0": "2", "s1": "3"})
    named, stored = with_ids_of(current, baseline)
    assert named.metrics["faithfulness"].values == {"s0": 0.2, "s1": 0.3, "s2": 0.1}
    assert stored == {"s0": "s1", "s1": "s2", "s2": "s0"}
    assert with_ids_of(current, named) == (named, {})
