"""`ragstone migrate --compare`: where the judge of the gate differs from the one whose scores were migrated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import StatisticsError, correlation, fmean

from ragstone.config.load import load_settings
from ragstone.errors import ConfigError
from ragstone.gate.policy_file import read_policy_file
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.report.templates import render_text_template
from ragstone.run.directory import RunDirectory
from ragstone.run.score_files import read_score_file
from ragstone.run.scores import RunScores
from ragstone.tools.migrate.write import OLD_POLICY, SCORES

_SHOWN = 3
"""Number of samples that are named for each metric."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric by both judges, on the samples that both scored. `worst` are id, score there, score here.

    `correlation` is None where one of them gives every sample the same score; `agreed` counts the samples that both
    pass or both fail, None without a bound.
    """

    metric: str
    n: int
    there: float
    here: float
    correlation: float | None
    agreed: int | None
    worst: tuple[tuple[str, float, float], ...]


def differences(folder: Path) -> str:
    """What the migrated scores and the run of `folder` say of each metric. Raises ConfigError if one is missing."""
    if not (folder / SCORES).is_file():
        raise ConfigError(
            "there are no migrated scores.", where=str(folder / SCORES), hint="Run: ragstone migrate PATH"
        )
    settings = load_settings(directory=folder, environ={})
    run = RunDirectory.open(settings.path(settings.run.out))
    policy = next((file for file in (folder / OLD_POLICY, folder / POLICY_FILE) if file.is_file()), None)
    rules = (read_policy_file(policy)[0].metrics or {}) if policy is not None else {}
    bounds = {
        name: (rule.min if rule.min is not None else rule.max, rule.max is not None) for name, rule in rules.items()
    }
    there, here = read_score_file(folder / SCORES), run.scores()
    found = tuple(_differences(there, here, bounds))
    missing = [name for name in there if name not in {one.metric for one in found}]
    return render_text_template(
        "differences.txt.j2",
        __package__,
        metrics=found,
        missing=missing,
        judge=run.manifest.judge.label(),
        run=run.path,
    )


def _differences(
    there: RunScores, here: RunScores, bounds: dict[str, tuple[float | None, bool]]
) -> Iterator[Difference]:
    for metric in there:
        if metric not in here:
            continue
        theirs, ours = there[metric].values, here[metric].values
        pairs = [(name, value, ours[name]) for name, value in theirs.items() if name in ours]
        if not pairs:
            continue
        bound, lower = bounds.get(metric, (None, False))
        passes = [
            [(one <= bound) if lower else (one >= bound) for one in pair[1:]] for pair in pairs if bound is not None
        ]
        try:
            related = correlation([one for _, one, _ in pairs], [one for _, _, one in pairs])
        except StatisticsError:  # fewer than two, or all the same
            related = None
        worst = sorted(pairs, key=lambda pair: -abs(pair[1] - pair[2]))[:_SHOWN]
        yield Difference(
            metric,
            len(pairs),
            fmean(one for _, one, _ in pairs),
            fmean(one for _, _, one in pairs),
            related,
            None if bound is None else sum(one == other for one, other in passes),
            tuple(pair for pair in worst if pair[1] != pair[2]),
        )
