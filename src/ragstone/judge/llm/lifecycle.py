"""What is known of a model's name: whether the provider may move it, and when the model is retired."""

from __future__ import annotations

from datetime import date

from ragstone.judge.providers import find_provider

SOON_DAYS = 60
"""Warn about a retirement nearer than this: the shortest notice that Anthropic gives."""


def moving_name(provider: str, model: str) -> str | None:
    """One sentence if the provider may point `model` to another model; None if it is fixed or unknown."""
    known = find_provider(provider)
    if known is None or not known.snapshots:
        return None
    if model.endswith("-latest"):
        return f"the judge's name '{model}' means the newest model: its verdicts change when that does."
    if model not in known.snapshots:
        return None
    fixed = known.snapshots[model]
    instead = f"; '{fixed}' is a fixed model" if fixed else "; a name with a date is a fixed model"
    return f"the judge's name '{model}' may be moved to another snapshot{instead}."


def near_end(provider: str, model: str, today: date) -> str | None:
    """One sentence if the model's announced end is past, or at most SOON_DAYS away."""
    known = find_provider(provider)
    end = known.end(model) if known else None
    if known is None or end is None or (end - today).days > SOON_DAYS:
        return None
    when = "was due to be retired on" if end < today else "will be retired on"
    return (
        f"the judge's model '{model}' {when} {end.isoformat()} (as announced by {known.read_on}): choose another, "
        "and let the main branch create a baseline with it."
    )
