"""Who replied as the judge: models, request modes and backends, as the provider reports
them."""

from __future__ import annotations

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import some


def observed_difference(current: RunScores, baseline: RunScores) -> str | None:
    """How judges of the same name differed in two runs, as a clause; None if they did
    not, or it is unknown."""
    observed = current.rounds.judge.observed
    baseline_observed = baseline.rounds.judge.observed
    if current.manifest is None or observed is None or baseline_observed is None:
        return None
    new_models = new_names(observed.models, baseline_observed.models)
    if baseline_observed.models and new_models:
        name = current.manifest.judge.model
        return f"the judge '{name}' replied as {quoted(new_models)} now and as {quoted(baseline_observed.models)} before"
    new_ways = new_names(observed.ways, baseline_observed.ways)
    if baseline_observed.ways and new_ways:
        return f"the judge's request mode is {quoted(new_ways)} now and was {quoted(baseline_observed.ways)} before"
    return None


def new_names(current: tuple[str, ...], baseline: tuple[str, ...]) -> tuple[str, ...]:
    """The names that the baseline does not have, sorted."""
    return tuple(sorted(set(current) - set(baseline)))


def quoted(names: tuple[str, ...]) -> str:
    """The first three names in quotes, and how many more there are."""
    return some([f"'{name}'" for name in names], 3)
