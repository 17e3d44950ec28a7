"""Which models, and in which request modes, replied as the judge, as the provider
reports them."""

from __future__ import annotations

from ragstone.evaluation.scores import RunScores
from ragstone.formatting import join_first


def observed_difference(current: RunScores, baseline: RunScores) -> str | None:
    """A clause on how judges of the same name differed in two runs; None if they did
    not, or if it is not known."""
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
    """The names in `current` that `baseline` does not have, sorted."""
    new = set(current) - set(baseline)
    return tuple(sorted(new))


def quoted(names: tuple[str, ...]) -> str:
    """The first three names in quotes, and how many more there are."""
    quoted_names = [f"'{name}'" for name in names]
    return join_first(quoted_names, 3)
