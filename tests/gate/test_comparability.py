"""What two runs are compared on, and the sentence for what differs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.gate.comparability import new_ids, pair_runs, with_ids_of, with_lost_contexts
from ragstone.gate.grouping import group_labels, with_groups_of
from ragstone.gate.verdict import Status
from ragstone.history.codes import compact_scores
from ragstone.system.response import NO_CONTEXTS, NO_TEXTS
from tests.gate.conftest import build_run as run
from tests.gate.conftest import decide
from tests.gate.conftest import make_manifest as manifest

SCORES = {"faithfulness": [1.0, 0.5, 1.0], "recall@5": [1.0, 0.0, 1.0]}
JUDGED = run(SCORES, manifest=manifest())
HASHED = run(SCORES, hashes={"s0": "a", "s1": "b", "s2": "c"})


def with_part(run: RunScores, part: str | None) -> RunScores:
    one = manifest()
    return replace(run, manifest=one.model_copy(update={"system": one.system.model_copy(update={"part": part})}))


def with_parts(run: RunScores, **parts: tuple[str, ...]) -> RunScores:
    facts = {name: replace(one, parts=parts.get(name, ()), content_hash=None) for name, one in run.samples.items()}
    return replace(run, samples=facts)


@pytest.mark.parametrize(
    ("now", "then", "metrics", "notes"),
    [
        (JUDGED, JUDGED, ("faithfulness", "recall@5"), ()),
        (JUDGED, run(SCORES, label="old.csv"), ("faithfulness", "recall@5"), ("old.csv does not name its judge",)),
        (run(SCORES, label="new.csv"), JUDGED, ("faithfulness", "recall@5"), ("new.csv does not name its judge",)),
        (
            run({"pairwise_preference": [1.0], "mrr": [1.0]}),
            run({"pairwise_preference": [1.0], "mrr": [1.0]}),
            ["mrr"],
            (),
        ),
        (JUDGED, run(SCORES, manifest=manifest(state="stopped")), SCORES, ("the baseline run did not finish",)),
        (run(SCORES, manifest=manifest(state="stopped")), JUDGED, SCORES, ()),
        (JUDGED, run({"faithfulness": [1.0] * 3}, manifest=manifest()), ("faithfulness",), ()),
        (run(SCORES, offset=50), HASHED, (), ("the baseline has a different golden set: no sample is the same",)),
        (run(SCORES, hashes=dict.fromkeys(("s0", "s1", "s2"), "x")), HASHED, (), ("the baseline has a different",)),
        (with_part(JUDGED, "retrieval"), JUDGED, (), ("this run is of retrieval alone, and the baseline of the",)),
        (with_part(JUDGED, "retrieval"), with_part(JUDGED, "retrieval"), SCORES, ()),
        (with_part(JUDGED, "retrieval"), run(SCORES), SCORES, ("run does not name its judge",)),
    ],
)
def test_what_is_compared(now: RunScores, then: RunScores, metrics: Any, notes: tuple[str, ...]) -> None:
    found = pair_runs(now, then)
    assert found.metrics == tuple(metrics)
    assert found.comparable is bool(metrics)
    assert [said[: len(note)] for said, note in zip(found.notes, notes, strict=True)] == list(notes)


def test_changed_new_and_gone_samples_are_counted_and_left_out() -> None:
    baseline = run({"faithfulness": [1.0] * 4}, hashes={"s0": "a", "s1": "b", "s2": "c", "s3": "d"})
    current = run({"faithfulness": [1.0] * 4}, hashes={"s1": "b", "s2": "other", "s3": "d", "s4": "e"}, offset=1)
    pairing = pair_runs(current, baseline)
    assert pairing.samples == ("s1", "s3")
    assert (pairing.paired, pairing.total) == (2, 4)


PARTS = ("why", "reference", "contexts", "ids", "", "", "")


@pytest.mark.parametrize(
    ("other", "part", "compared", "recalled"),
    [
        (PARTS, None, True, True),
        (("when", *PARTS[1:]), None, False, False),
        (("why", "another", *PARTS[2:]), None, True, False),
        (("why", "reference", "others", *PARTS[3:]), None, True, True),
        (("why", "reference", "others", *PARTS[3:]), "generation", False, False),  # it is asked with them
        ((), None, True, True),
    ],
)
def test_a_sample_with_other_labels_is_compared_in_metrics_that_do_not_read_them(
    other: tuple[str, ...], part: str | None, compared: bool, recalled: bool
) -> None:
    scores = {"faithfulness": [1.0, 1.0], "context_recall": [1.0, 1.0]}
    now = with_part(with_parts(run(scores), s0=PARTS), part)
    pairing = pair_runs(now, with_part(with_parts(run(scores), s0=other), part))
    assert ("s0" in pairing.changes("faithfulness")) is compared
    assert ("s0" in pairing.changes("context_recall")) is recalled
    assert any(pairing.edited.values()) is (compared and other not in (PARTS, ()))


@pytest.mark.parametrize(
    ("differs", "says"),
    [
        ({"model": "judge-2"}, "the judge changed from openai judge-2 to openai judge-1"),
        ({"version": "prompts-0"}, "the prompts of the judge changed"),
        ({"embeddings": "small"}, "the judge's embedding model, endpoint or parameters changed"),
    ],
)
def test_under_another_judge_only_metrics_that_need_none_are_compared(differs: dict[str, Any], says: str) -> None:
    found = pair_runs(JUDGED, run(SCORES, manifest=manifest(**differs)))
    assert found.metrics == ("recall@5",)
    assert found.skipped.keys() == {"faithfulness"}
    assert found.skipped["faithfulness"].startswith(says)
    assert found.skipped["faithfulness"].endswith("metrics that use the judge are not compared.")


def test_a_metric_of_another_version_or_that_the_baseline_lacks_is_not_compared() -> None:
    now, then = run(SCORES, versions={"faithfulness": "2"}), run(SCORES, versions={"faithfulness": "1"})
    found = pair_runs(now, then)
    assert found.metrics == ("recall@5",)
    assert "version 1 in the baseline and is 2 now" in found.skipped["faithfulness"]
    for one, other in ((now, run(SCORES)), (run(SCORES), then)):
        assert pair_runs(one, other).metrics == ("faithfulness", "recall@5"), "an unknown version"
    lacking = pair_runs(run(SCORES), run({"faithfulness": [1.0] * 3}))
    assert list(lacking.skipped) == ["recall@5"]
    apart = run({"faithfulness": [1.0, 1.0, 1.0], "mrr": [1.0]})
    late = replace(apart, metrics={**apart.metrics, "mrr": replace(apart["mrr"], values={"s2": 1.0})})
    assert "no sample with a score in both runs" in pair_runs(apart, late).skipped["mrr"]


@pytest.mark.parametrize(("reason", "lost"), [(NO_TEXTS, True), (NO_CONTEXTS, True), ("the answer abstains", False)])
def test_a_score_that_is_lost_for_want_of_contexts_is_a_failure_of_the_system(reason: str, lost: bool) -> None:
    excused = run({"faithfulness": []}, not_applicable={"faithfulness": {"s0": reason, "s9": reason}})
    found = with_lost_contexts(excused, run({"faithfulness": [1.0]}))["faithfulness"]
    assert [failure.by for failure in found.failed.values()] == ["system"] * lost
    assert found.not_applicable.keys() == ({"s9"} if lost else {"s0", "s9"})
    halves = with_part(excused, "generation"), with_part(run({"faithfulness": [1.0]}), None)
    assert with_lost_contexts(*halves) is halves[0]


def test_a_mean_of_several_answers_is_compared_with_a_single_one() -> None:
    """One of four answers to each question is bad. Where it is not the baseline's, the question has lost."""
    thrice = manifest(answers=3)
    one, all_right = run({"faithfulness": [1.0] * 8}, manifest=manifest()), [(1.0, 1.0, 1.0)] * 8
    three = run({"faithfulness": [(1.0, 0.0, 1.0)] * 8}, manifest=thrice)
    few = run({"faithfulness": [(1.0, 0.0, 1.0)] * 2 + [1.0] * 6}, manifest=thrice)
    worse = run({"faithfulness": [(0.0, 0.4, 0.0)] * 8}, manifest=thrice)

    def status(now: RunScores, then: RunScores) -> Status:
        return decide(now, then, metrics={"faithfulness": {"max_drop": 0.0}}).status

    assert status(run({"faithfulness": [0.8] * 16}), run({"faithfulness": [1.0] * 16})) is Status.FAIL
    assert status(few, one) is not Status.FAIL, "the baseline may have been lucky"
    assert status(worse, one) is Status.FAIL
    assert status(three, run({"faithfulness": all_right}, manifest=thrice)) is Status.FAIL


# -- ids ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "then", "ids"),
    [
        # In doubt, samples are not paired by content: which of two was renamed?
        ({"new": "a", "other": "a"}, {"old": "a"}, {}),
        ({"new": "a"}, {"old": "a", "older": "a"}, {}),
        ({"new": None}, {"old": None}, {}),
        ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "b", "b": "a"}),
        ({"new": "1", "old": "2"}, {"old": "1"}, {"old": "new"}),
        ({"new": "1", "old": None}, {"old": "1"}, {}),
        ({"a": "2", "b": "3", "c": "4"}, {"a": "1", "b": "2", "c": "3", "d": "4"}, {"b": "a", "c": "b", "d": "c"}),
    ],
)
def test_a_question_is_known_by_its_content_also_under_the_id_of_another(now: Any, then: Any, ids: Any) -> None:
    assert new_ids(now, then) == ids


def test_samples_with_other_ids_are_paired_and_one_that_lost_its_id_gets_the_one_that_is_free() -> None:
    current = run({"faithfulness": [0.5, 0.6, 0.7]}, hashes={"s10": "a", "s11": "b", "s12": "c"}, offset=10)
    named, stored = with_ids_of(current, HASHED)
    assert stored == {"s10": "s0", "s11": "s1", "s12": "s2"}
    assert named.metrics["faithfulness"].values == {"s10": 1.0, "s11": 0.5, "s12": 1.0}
    assert pair_runs(current, named).samples == ("s10", "s11", "s12")
    moved = run({"faithfulness": [0.2, 0.3]}, hashes={"s0": "b", "s1": "c"})
    named, stored = with_ids_of(moved, HASHED)
    assert named.metrics["faithfulness"].values == {"s0": 0.5, "s1": 1.0, "s2": 1.0}
    assert stored == {"s0": "s1", "s1": "s2", "s2": "s0"}
    assert with_ids_of(moved, named) == (named, {})


# -- groups ------------------------------------------------------------------------------------------------------------


def test_a_sample_is_in_its_group_or_in_the_one_that_has_its_id_or_alone() -> None:
    scores = run({"faithfulness": [1.0] * 5}, groups={"s0": "shoes", "s1": "shoes", "s3": "s2"})
    labels = group_labels(scores, list(scores.samples))
    assert labels is not None
    assert labels[0] == labels[1]
    assert labels[2] == labels[3]
    assert len(set(labels)) == 3
    assert group_labels(run({"faithfulness": [1.0] * 2}), ["s0", "s1"]) is None
    codes = compact_scores(scores, ()).samples.groups
    assert codes is not None
    assert len(set(codes)) == 3


@pytest.mark.parametrize(
    ("parts", "baseline_parts", "group"), [(PARTS, PARTS, "then"), ((), PARTS, "now"), (PARTS, (), "now")]
)
def test_no_edit_of_groups_hides_a_loss(parts: tuple[str, ...], baseline_parts: tuple[str, ...], group: str) -> None:
    now = with_parts(run({"mrr": [1.0, 1.0]}, groups={"s0": "now"}), s0=parts)
    then = with_parts(run({"mrr": [1.0]}, groups={"s0": "then"}), s0=baseline_parts)
    assert with_groups_of(now, then).samples["s0"].group == group
