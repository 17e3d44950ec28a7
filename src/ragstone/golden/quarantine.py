"""Questions in quarantine: they are asked and shown, but count in no check until a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from difflib import get_close_matches

from ragstone.config.settings import Quarantined
from ragstone.errors import ConfigError
from ragstone.formatting import counted, percent
from ragstone.golden.sample import GoldenSet

MAX_DAYS = 90
"""Days from now on that a question can be in quarantine."""

MAX_SHARE = 0.05
"""Share of the golden set that can be in quarantine; one question always can."""

_KEY = "[[golden.quarantine]]"


def most_of(samples: int) -> int:
    """How many of so many questions can be in quarantine."""
    return max(1, int(MAX_SHARE * samples))


def with_quarantine(
    golden: GoldenSet, entries: Sequence[Quarantined], today: date, *, where: str | None, whole: bool = True
) -> GoldenSet:
    """`golden` with those of `entries` in quarantine that have not expired.

    `whole`: it is the golden set that the entries are about, and not a part of it or another one; else those that it
    lacks are left out. Raises ConfigError with `where` for an entry that can't be in force, and for too many.
    """
    if not entries:
        return golden
    last, known = today + timedelta(days=MAX_DAYS), {sample.id for sample in golden}
    seen = set[str]()
    for one in entries:
        if one.id in seen:
            raise ConfigError(f"{_KEY} names '{one.id}' twice.", where=where, hint="Remove one of the entries.")
        if whole and one.id not in known:
            message = f"{_KEY} names '{one.id}', which is not in the golden set."
            close = get_close_matches(one.id, known, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else "Remove the entry."
            raise ConfigError(message, where=where, hint=hint)
        if one.until > last:
            message = f"{_KEY} keeps '{one.id}' until {one.until}, which is more than {MAX_DAYS} days from now."
            raise ConfigError(
                message, where=where, hint=f"Use {last} or an earlier date, and repair the question by then."
            )
        seen.add(one.id)
    held = tuple(one for one in entries if one.until >= today and one.id in known)
    if whole and len(held) > most_of(len(known)):
        raise ConfigError(
            f"{_KEY} has {len(held)} of {counted(len(known), 'question')}; at most {most_of(len(known))} can be in "
            f"quarantine ({percent(MAX_SHARE)}, and 1 in any case).",
            where=where,
            hint="Repair or remove the others: `ragstone golden health` says what is wrong with them.",
        )
    return replace(golden, quarantine=held)


def expired(entries: Sequence[Quarantined], today: date) -> Iterator[str]:
    """A warning for each of `entries` that is no longer in force."""
    for one in entries:
        if one.until < today:
            yield f"The quarantine of {one.id} ended on {one.until}, so it counts again: remove its entry."
