"""Who replied as the judge: models, request modes and backends, as the provider reports
them."""

from __future__ import annotations

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import some


def observed_difference(current: RunScores, baseline: RunScores) -> str | None:
    """How judges of the same name differed in two runs, as a clause; None if they did
    not, or it is unknown."""
    observed = current.rounds.judge.observed
    before = baseline.rounds.judge.observed
    if current.manifest is None or observed is None or before is None:
        return None
    for what, names, names_before in (
        ("model", observed.models, before.models),
        ("request mode", observed.ways, before.ways),
    ):
        new = new_names(names, names_before)
        if names_before and new:
            return f"the judge's {what} is {quoted(new)} now and was {quoted(names_before)} before"
    return None


def new_names(current: tuple[str, ...], baseline: tuple[str, ...]) -> tuple[str, ...]:
    """The names that the baseline does not have, sorted."""
    return tuple(sorted(set(current) - set(baseline)))


def quoted(names: tuple[str, ...]) -> str:
    """The first three names in quotes, and how many more there are."""
    return some([f"'{name}'" for name in names], 3)
