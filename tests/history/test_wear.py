from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ragstone.history.codes import compact
from ragstone.history.file import History
from ragstone.history.wear import FEW, MANY, TYPICAL_SD, wear_of
from tests.history.seasons import compacted, line, scores
from tests.history.test_looks import look, samples_of

NOW = samples_of("a", "b")


def seen(count: int, n: int = 100, answers: int = 10_000) -> str | None:
    history = History().with_looks([look(at, answers=f"{at % answers:016x}") for at in range(count)], {})
    wear = wear_of([history], "f" * 64, NOW, {"faithfulness": n})
    return None if wear is None else wear.sentence()


def test_reports_say_it_in_one_sentence() -> None:
    assert seen(214, answers=66) == (
        "The golden set was seen 214 times since it was last refreshed, with 66 versions of the system; choosing the "
        "best of these by chance alone is worth about 3.5 points of faithfulness."
    )


def test_reports_say_nothing_of_few_versions_or_of_what_is_worth_nothing() -> None:
    assert seen(0) is None
    assert seen(FEW - 1) is None
    assert seen(FEW) is not None
    assert seen(FEW, n=100_000) is None
    assert seen(MANY, n=100_000) is not None
    assert seen(MANY, answers=2) is None


def chain(versions: int, groups: int = 0) -> History:
    """Versions that answer all questions anew each time, with scores of 0 and 1, which those of a group share."""
    rng = np.random.Generator(np.random.PCG64(3))
    history = History()
    for number in range(versions):
        values = (rng.random(400 // (groups or 1)) < 0.5).astype(float).repeat(groups or 1)
        history = history.with_run(line(number), compacted(scores({"faithfulness": list(values)}, groups=groups)))
    return history


def test_the_noise_is_measured_where_there_are_versions_enough_and_said_to_be_assumed_elsewhere() -> None:
    for versions, known in ((4, 0), (20, 19)):
        wear = wear_of([chain(versions)], "f" * 64, NOW, {"faithfulness": 400})
        assert wear is not None
        assert wear.metrics[0].versions == known
        assert wear.metrics[0].sd == pytest.approx(0.5 if known else TYPICAL_SD, rel=0.15)


def test_samples_of_a_group_move_together() -> None:
    wear = wear_of([chain(20, groups=4)], "f" * 64, NOW, {"faithfulness": 400})
    assert wear is not None
    assert wear.metrics[0].sd == pytest.approx(1.0, rel=0.2)


def test_a_version_that_changes_no_score_says_nothing_of_the_noise() -> None:
    history, same = History(), scores({"faithfulness": [1.0, 0.0, 1.0, 0.0]})
    for number in range(20):
        history = history.with_run(line(number), compacted(same))
    wear = wear_of([history], "f" * 64, NOW, {"faithfulness": 4})
    assert wear is not None
    assert (wear.metrics[0].versions, wear.metrics[0].sd) == (0, TYPICAL_SD)


def test_looks_of_several_files_are_put_together_and_a_sum_in_one_leaves_the_other_alone() -> None:
    branch = History().with_run(line(0, github_run=1), compacted(scores({"faithfulness": [0.5]})))
    own = History().with_looks([look(5000, since="2026-01-01T00:00:00Z", by={"local": 30.0}, candidates=12.0)], {})
    wear = wear_of([branch, own], "f" * 64, compact(scores({"m": [1.0]}), ()).samples, {"faithfulness": 100})
    assert wear is not None
    assert wear.looks.by == {"local": 30.0, "main": 1.0}
    assert wear.looks.candidates == 13.0


def test_the_metric_in_which_chance_is_worth_most_is_named() -> None:
    history = History().with_looks([look(at) for at in range(20)], {})
    wear = wear_of([history], "f" * 64, NOW, {"faithfulness": 400, "context_recall": 50})
    assert wear is not None
    assert [one.metric for one in wear.metrics] == ["context_recall", "faithfulness"]
    assert "points of context_recall" in str(wear.sentence())
    assert replace(wear, metrics=()).sentence() is None
