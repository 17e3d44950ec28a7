"""Time windows: days or weeks of a time zone, each named by its first day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

Length = Literal["day", "week"]


def zone_of(name: str) -> tzinfo:
    """The time zone `name`; UTC needs no database. Raises ZoneInfoNotFoundError, ValueError or OSError."""
    return UTC if name == "UTC" else ZoneInfo(name)


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a `length` in a `zone`. Weeks begin on Monday. A window's name is the ISO date of its first day."""

    length: Length
    zone: tzinfo

    @property
    def days(self) -> int:
        return 1 if self.length == "day" else 7

    @property
    def per_year(self) -> float:
        return 365.25 / self.days

    def name(self, when: datetime) -> str:
        """The window that `when` is in."""
        day = when.astimezone(self.zone).date()
        if self.length == "week":
            day -= timedelta(days=day.weekday())
        return day.isoformat()

    def end(self, name: str) -> datetime:
        """The first instant after the window, in UTC."""
        day = date.fromisoformat(name) + timedelta(days=self.days)
        return datetime.combine(day, time(), self.zone).astimezone(UTC)

    def after(self, name: str) -> str:
        return (date.fromisoformat(name) + timedelta(days=self.days)).isoformat()
