"""A dated table of model names: whether the provider may move a name, and when a model is retired."""

from __future__ import annotations

import functools
import re
import tomllib
from datetime import date
from importlib.resources import files

from pydantic import BaseModel, ConfigDict

SOON_DAYS = 60
"""Warn about a retirement nearer than this: the shortest notice that Anthropic gives."""

_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")


class _Provider(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    snapshots: dict[str, str]
    ends: dict[str, date]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    openai: _Provider
    anthropic: _Provider


def moving_name(provider: str, model: str) -> str | None:
    """One sentence if the provider may point `model` to another model; None if it is fixed or unknown."""
    known = _known(provider)
    if known is None:
        return None
    if model.endswith("-latest"):
        return f"the judge's name '{model}' means the newest model: its verdicts change when that does."
    if model not in known.snapshots:
        return None
    fixed = known.snapshots[model]
    instead = f"; '{fixed}' is a fixed model" if fixed else "; a name with a date is a fixed model"
    return f"the judge's name '{model}' may be moved to another snapshot{instead}."


def end_of(provider: str, model: str) -> date | None:
    """The announced day from which `model` no longer answers; None if none is known."""
    known = _known(provider)
    return None if known is None else known.ends.get(model) or known.ends.get(_DATE.sub("", model))


def near_end(provider: str, model: str, today: date) -> str | None:
    """One sentence if the model's announced end is past, or at most SOON_DAYS away."""
    end = end_of(provider, model)
    if end is None or (end - today).days > SOON_DAYS:
        return None
    what = "was to end" if end < today else "ends"
    return (
        f"the judge's model '{model}' {what} on {end.isoformat()} (as announced by {table_date()}): "
        "choose another, and let the main branch make a baseline with it."
    )


def table_date() -> str:
    """The date (ISO 8601) of the shipped table."""
    return _table().date


def _known(provider: str) -> _Provider | None:
    # Bedrock and Vertex name and retire models on their own schedules.
    return {"openai": _table().openai, "anthropic": _table().anthropic}.get(provider)


@functools.cache
def _table() -> _Table:
    text = files("ragstone.judge").joinpath("models.toml").read_text("utf-8")
    return _Table.model_validate(tomllib.loads(text))
