"""A random sample of a run, judged again by the verifier's own judge: how often the two agree."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from ragstone.app.rescore import rescore
from ragstone.commands.context import run_context, run_to_end
from ragstone.config.settings import Settings
from ragstone.formatting import percent
from ragstone.golden.sample import GoldenSet
from ragstone.project.plan import run_plan
from ragstone.run.directory import SAMPLES, RunDirectory
from ragstone.run.files import replace_texts
from ragstone.run.manifest import Counts
from ragstone.run.writer import write_manifest
from ragstone.stats.intervals import proportion_interval

_NEAR = 0.1


def judged_again(path: Path, settings: Settings, count: int, *, seed: int) -> list[str]:
    """A line per metric: of `count` random samples, how many have nearly the score that they have in the run.

    Nothing that the run's judge said is reused. A `seed` of 0 draws other samples each time, which nobody can foresee.
    """
    run = RunDirectory.open(path)
    ids = list(run.scores().samples)
    rng = np.random.default_rng(seed or None)
    chosen = {ids[index] for index in rng.choice(len(ids), size=min(count, len(ids)), replace=False)}
    with tempfile.TemporaryDirectory(prefix="ragstone-") as private, run_context(settings) as context:
        part, out = Path(private) / "part", Path(private) / "again"
        part.mkdir()
        lines = (line.decode() for (_, line), name in zip(run.lines(), ids, strict=True) if name in chosen)
        replace_texts(part / SAMPLES, lines)
        write_manifest(part, run.manifest.model_copy(update={"counts": Counts(scored=len(chosen))}))
        plan = run_plan(settings.having("run.out", str(out)), context, golden=GoldenSet(()), command=None)
        run_to_end(rescore((part,), plan, context))
        again = RunDirectory.open(out)
        return [*_agreement(run, again), f"Judged again by {again.manifest.judge.label()}."]


def _agreement(run: RunDirectory, again: RunDirectory) -> list[str]:
    lines = []
    for name, mine in again.scores().metrics.items():
        theirs = run.scores().metrics[name].values
        pairs = [(mine.values[one], theirs[one]) for one in mine.values if one in theirs]
        if not pairs:
            continue
        near = sum(abs(one - other) <= _NEAR for one, other in pairs)
        found = proportion_interval(near, len(pairs))
        lines.append(f"{name}: {near} of {len(pairs)} agree ({percent(found.low)} to {percent(found.high)})")
    return lines
