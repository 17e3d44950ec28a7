"""Groups: which samples the statistics take as one case."""

from __future__ import annotations

from ragstone.evaluation.scores import RunScores, SampleFacts
from ragstone.gate.grouping import group_labels
from ragstone.history.codes import compact, group_codes


def run(**groups: str | None) -> RunScores:
    return RunScores("run", {}, {name: SampleFacts(group=group) for name, group in groups.items()})


def test_a_sample_without_a_group_is_a_case_of_its_own() -> None:
    labels = group_labels(run(a="shoes", b="shoes", c=None, d=None), ["a", "b", "c", "d"])
    assert labels is not None
    assert labels[0] == labels[1]
    assert len(set(labels)) == 3
    assert group_labels(run(a=None, b=None), ["a", "b"]) is None


def test_a_sample_is_in_the_group_that_has_its_id() -> None:
    scores = run(refund=None, typos="refund", other=None)
    labels = group_labels(scores, ["refund", "typos", "other"])
    assert labels is not None
    assert labels[0] == labels[1] != labels[2]
    codes = group_codes(compact(scores, ()).samples)
    assert codes is not None
    assert len(set(codes)) == 2
