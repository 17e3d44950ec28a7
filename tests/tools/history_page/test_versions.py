"""Which run a name means, and what changed between two runs."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from ragstone.errors import ConfigError
from ragstone.history.codes import decode
from ragstone.history.file import History
from ragstone.stats.estimate import Estimate
from ragstone.stats.intervals import mean_interval
from ragstone.tools.history_page.versions import find_version, paired_changes, run_before, why_not_paired
from tests.tools.history_page.histories import make_history


def interval_by_gate(history: History, before: int, after: int, metric: str) -> Estimate:
    """The interval of the difference between two runs, by the gate's statistics."""
    then, now = (
        dict(zip(history.samples[run.samples or ""].ids, decode(run.scores[metric]), strict=True))
        for run in (history.runs[before], history.runs[after])
    )
    line = history.samples[history.runs[after].samples or ""]
    groups, codes = line.groups, line.ids
    both = [at for at, code in enumerate(codes) if code in then]
    values = np.array([now[codes[at]] - then[codes[at]] for at in both])
    labels = None if groups is None else np.unique([groups[at] for at in both], return_inverse=True)[1]
    return mean_interval(values, bounds=(-1.0, 1.0), groups=labels)


@pytest.mark.parametrize("groups", [0, 3])
def test_an_interval_is_the_one_that_the_gate_finds(groups: int) -> None:
    history = make_history(40, groups=groups) if groups else make_history(40)
    for before, after in ((35, 39), (38, 39), (37, 38), (24, 27), (38, 35)):
        paired = paired_changes(history, history.runs[before], history.runs[after], "faithfulness")
        assert paired is not None
        wanted = interval_by_gate(history, before, after, "faithfulness")
        assert paired.interval() == wanted


def test_a_run_is_compared_with_the_newest_before_it_that_has_a_verdict() -> None:
    history = make_history(4)
    plain = history.runs[2].model_copy(update={"verdict": "none"})
    history = replace(history, runs=(*history.runs[:2], plain, history.runs[3]))
    assert run_before(history.runs, 3) == history.runs[1]
    assert run_before(history.runs, 0) is None
    alone = replace(history, runs=tuple(run.model_copy(update={"verdict": "none"}) for run in history.runs))
    assert run_before(alone.runs, 3) == alone.runs[2]


@pytest.mark.parametrize(
    ("change", "metric", "reason"),
    [
        ({"judge_key": "f" * 16, "judge": "openai judge-3"}, "faithfulness", "the judge changed from"),
        ({"part": "generation"}, "faithfulness", "earlier runs evaluated another half"),
        ({"versions": {"faithfulness": "9"}}, "faithfulness", "faithfulness is version"),
        ({"samples": None}, "faithfulness", "the scores of single questions are no longer stored"),
        ({"scores": {}}, "faithfulness", "the scores of single questions are no longer stored"),
        ({}, "mrr", "not measured"),
    ],
)
def test_runs_that_differ_in_more_than_the_system_are_not_compared(
    change: dict[str, object], metric: str, reason: str
) -> None:
    history = make_history(6)
    before, after = history.runs[4], history.runs[5].model_copy(update=change)
    for first, second in ((before, after), (after, before)):
        assert paired_changes(history, first, second, metric) is None
        assert (why_not_paired(first, second, metric) or "").startswith(reason)
    assert why_not_paired(history.runs[4], history.runs[5], "faithfulness") is None


def test_a_version_is_named_by_release_system_commit_or_run_and_the_newest_is_meant() -> None:
    history = make_history(40)
    commit = history.runs[17].commit or ""
    assert history.runs[2].commit == history.runs[3].commit
    names = ["v1.2", "model-1, prompt 0001", commit, commit[:7], commit[:4], history.runs[3].run]
    names.append(history.runs[2].commit or "")
    found = [find_version(history, name) for name in names]
    assert [history.runs.index(run) for run in found] == [25, 19, 17, 17, 17, 3, 3]
    for name in ("v9", "0", "", "model", commit[:3]):
        with pytest.raises(ConfigError, match="no run of the history is the version"):
            find_version(history, name)
