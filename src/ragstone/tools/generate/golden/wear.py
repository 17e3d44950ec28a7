"""`ragstone golden wear`: how often a golden set was seen, by whom, what that is worth, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ragstone.golden.sample import GoldenSet
from ragstone.history.codes import compact
from ragstone.history.file import read_history
from ragstone.history.lines import MeanPart
from ragstone.history.wear import Wear, wear_of
from ragstone.report.templates import render_text_template
from ragstone.run.scores import RunScores, SampleFacts

NOTABLE = 0.01
"""From this worth on, there is something to do."""


def wear_in(files: Sequence[Path | None], golden: GoldenSet) -> Wear | None:
    """The wear of `golden` by the looks in histories, the first of which is the branch's. Raises RunDirectoryError."""
    histories = [read_history(path) for path in files if path is not None]
    samples = {sample.id: SampleFacts.of(sample) for sample in golden if not sample.draft}
    by_run = (line.metrics for one in histories for line in reversed(one.gated))
    by_look = (line.metrics for one in histories for line in reversed(one.looks))
    measured: Mapping[str, MeanPart | float] = next(filter(None, (*by_run, *by_look)), {})
    sizes = {name: one.n if isinstance(one, MeanPart) else len(samples) for name, one in measured.items()}
    return wear_of(histories, golden.content_hash(), compact(RunScores("", {}, samples), ()).samples, sizes)


def wear_text(wear: Wear | None) -> str:
    """What to tell of it on a terminal of 80 columns."""
    return render_text_template("wear.txt.j2", __package__, wear=wear, notable=NOTABLE)


def wear_json(wear: Wear | None) -> dict[str, object]:
    """All of it; ``{"looks": 0}`` if no look is known."""
    if wear is None:
        return {"looks": 0}
    facts = wear.looks.model_dump(mode="json", include={"candidates", "since", "time", "by", "golden"})
    return {"looks": wear.count, **facts, "metrics": [asdict(one) for one in wear.metrics]}
