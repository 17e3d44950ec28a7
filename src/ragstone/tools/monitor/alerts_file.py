"""alerts.toml: which logs are watched, in which windows of time, how, and what warns or fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ragstone.errors import suggestion
from ragstone.gate.source import Source
from ragstone.settings.load import parse_toml, read_text
from ragstone.settings.toml_lines import key_lines
from ragstone.stats.surveillance import MIN_ANCHOR
from ragstone.tools.monitor.interaction import NAMES

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

    def after(self, name: str, count: int = 1) -> str:
        return (date.fromisoformat(name) + timedelta(days=self.days * count)).isoformat()


ALERTS_FILE = "alerts.toml"
Action = Literal["fail", "warn", "off"]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LogRules(_Table):
    """[logs]"""

    paths: tuple[str, ...] = Field(default=(), description="Log files and globs, relative to this file.")
    columns: dict[str, str] = Field(
        default_factory=dict, description="Field to the column that holds it, dotted paths allowed."
    )
    good_feedback: float | None = Field(
        default=None, allow_inf_nan=False, description="Least number that is good feedback; default: above 0."
    )

    @field_validator("columns")
    @classmethod
    def _known(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name not in NAMES:
                raise ValueError(f"has no field '{name}' ({suggestion(name, NAMES)})")
        return value


class WindowRules(_Table):
    """[windows]"""

    length: Length = Field(default="day", description="day or week (from Monday).")
    timezone: str = Field(default="UTC", description="Time zone in which days begin, such as Europe/Berlin.")
    grace_hours: float = Field(
        default=1.0, ge=0.0, le=240.0, allow_inf_nan=False, description="Hours after its end until a window is decided."
    )
    slow_s: float = Field(
        default=5.0, gt=0.0, allow_inf_nan=False, description="Seconds above which an answer is slow."
    )
    anchor: int = Field(
        default=28, ge=MIN_ANCHOR, le=366, description="Windows that are averaged as the anchor; no alert before."
    )
    anchor_from: date | None = Field(
        default=None, description="First day of the anchor; default: the first window. Set it to accept a new level."
    )
    keep: int = Field(
        default=35, ge=2, le=400, description="Windows for which single interactions are remembered, without texts."
    )

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            zone_of(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("must be a known time zone, such as UTC or Europe/Berlin") from None
        return value


class SampleRules(_Table):
    """[sample]"""

    size: int = Field(default=200, ge=0, le=100_000, description="Answers per window that the judge scores; 0: none.")


class PrivacyRules(_Table):
    """[privacy]"""

    texts: bool = Field(
        default=True, description="false: no text of an interaction in any output, and none kept after it is scored."
    )
    fields: tuple[str, ...] = Field(
        default=(), description="Fields of a record, dotted paths allowed, whose values are replaced in drafts."
    )

    @field_validator("fields")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(path.strip() for path in value):
            raise ValueError("must not have an empty field")
        return value


class DraftRules(_Table):
    """[drafts]"""

    size: int = Field(default=10, ge=1, le=1000, description="Drafts per window that --drafts writes, at most.")


class AlertRule(_Table):
    """[alerts.NAME], where NAME is a figure or a metric"""

    action: Action | None = Field(default=None, description="fail, warn or off.")
    shift: float | None = Field(
        default=None, gt=0.0, allow_inf_nan=False, description="Change to find, in the unit of the figure."
    )
    worse: Literal["higher", "lower"] | None = Field(default=None, description="Which way is worse.")
    max: float | None = Field(
        default=None, ge=0.0, allow_inf_nan=False, description="Most that is allowed, from the first window on."
    )
    min: float | None = Field(
        default=None, ge=0.0, allow_inf_nan=False, description="Least that is allowed, from the first window on."
    )

    @property
    def lines(self) -> dict[str, float]:
        return {name: line for name, line in (("max", self.max), ("min", self.min)) if line is not None}


class WebhookRules(_Table):
    """[webhook]: where the address is in the environment variable RAGSTONE_WEBHOOK_URL"""

    format: Literal["json", "slack", "teams"] = Field(default="json", description="What the receiver reads.")
    when: Literal["changes", "alerts"] = Field(
        default="changes", description="changes: if other alerts last than at the last message. alerts: at every job."
    )


class AlertsTable(_Table):
    """The content of alerts.toml."""

    logs: LogRules = Field(default=LogRules(), description="Which logs are read, and how.")
    windows: WindowRules = Field(default=WindowRules(), description="How time is divided into windows.")
    sample: SampleRules = Field(default=SampleRules(), description="What is scored by the judge.")
    privacy: PrivacyRules = Field(default=PrivacyRules(), description="Which personal data is stored and shown.")
    drafts: DraftRules = Field(default=DraftRules(), description="Which cases become drafts of golden samples.")
    webhook: WebhookRules = Field(default=WebhookRules(), description="When and how a webhook is called.")
    alerts: dict[str, AlertRule] = Field(default_factory=dict, description="Figure or metric to its rule.")


def read_alerts_file(path: Path) -> AlertsTable:
    """The rules in `path`. Raises ConfigError with the key and its line."""
    text = read_text(path)
    return parse_alerts(parse_toml(text, path), Source(str(path), key_lines(text)))


def parse_alerts(document: Mapping[str, Any], source: Source) -> AlertsTable:
    """The rules in a parsed document. Raises ConfigError with the key."""
    try:
        return AlertsTable.model_validate(document)
    except ValidationError as error:
        raise source.invalid(error, AlertsTable, document) from None
