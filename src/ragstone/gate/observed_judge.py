"""Who replied as the judge: models, request modes and backends, as the provider reports them."""

from __future__ import annotations

from ragstone.evaluation.manifest import Manifest


def observed_difference(now: Manifest, then: Manifest) -> str | None:
    """How judges of the same name differed in two runs, as a clause; None if they did not, or it is unknown."""
    mine = now.observed
    theirs = then.observed
    if mine is None or theirs is None:
        return None
    if theirs.models and (new := new_names(mine.models, theirs.models)):
        return f"the judge '{now.judge.model}' replied as {quoted(new)} now and as {quoted(theirs.models)} before"
    if theirs.ways and (new := new_names(mine.ways, theirs.ways)):
        return f"the judge's request mode is {quoted(new)} now and was {quoted(theirs.ways)} before"
    return None


def new_names(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """The names that were not there before, sorted."""
    return tuple(sorted(set(now) - set(before)))


def quoted(names: tuple[str, ...]) -> str:
    """The first three names in quotes, and how many more there are."""
    return " and ".join(f"'{name}'" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
