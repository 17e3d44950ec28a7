"""How many calls a provider takes in how long, learned from what it refuses with 429."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

WINDOW_S = 60.0
"""The window of most limits, and of those that are not known better."""

PATIENCE_S = 200.0
"""So long may everything be refused: more than three windows."""

_PROBES_S = (2.0, 13.0, 25.0, 20.0, 30.0)
"""Waits before one call tries whether the provider takes calls again, if it does not say; the last is repeated."""

_POLL_S = 0.1
_STREAK = 3
_CAREFUL = 4
_EXPLORE_AFTER = 40
_SLACK = 0.95


@dataclass(slots=True, eq=False)
class Sent:
    """A call that was sent `at`, and that counts if it was not refused. `units`: 1, or its tokens."""

    at: float
    tokens: int
    units: float
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `cap` units in any `window` seconds; or, if `even`, `cap` per `window`, one call after another."""

    cap: float
    window: float
    even: bool = False

    def times(self, factor: float) -> Limit:
        return Limit(self.cap * factor, self.window, self.even)

    def at_least(self, cap: float) -> Limit:
        return Limit(max(self.cap, cap), self.window, self.even)


class Allowance:
    """The limit of a provider in calls, or in tokens if it says so; nothing is known at first.

    Three refusals in a row mean that a limit is reached; fewer are a matter of the call alone. Then nothing is sent
    until the provider takes calls again: when it said, or when a single call finds out. What it had taken, in the time
    until then, is the limit, for any span of that length: this holds for windows that begin at a full minute and for
    those that slide. If that is refused before it has held once, it was the burst that a bucket allows, and calls go
    one by one from then on, at the rate at which they were taken. After every forty calls that were taken a limit is
    exceeded, in case it has grown: by 6 %, then by twice that as long as it goes well.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sent: deque[Sent] = deque()
        self._unanswered = 0
        self._by_tokens = False
        self._limit: Limit | None = None
        self._before: Limit | None = None
        self._factor = 1.0
        self._patience = _EXPLORE_AFTER
        self._confirmed = False
        self._taken = 0
        self._changed_at = float("-inf")
        self._level, self._level_at = 0.0, 0.0
        self._opened: float | None = None
        self._wall: float | None = None
        self._streak = 0
        self._probes = 0
        self._probing = False
        self._next = float("-inf")
        self._refusing_since: float | None = None

    @property
    def stalled_s(self) -> float:
        """For how long nothing was taken; 0 if the last call was."""
        return 0.0 if self._refusing_since is None else self._now() - self._refusing_since

    def wait_s(self, tokens: int) -> float:
        """Seconds until a call of `tokens` should be sent, or ask again."""
        now, limit = self._now(), self._limit
        if self._wall is not None:
            return _POLL_S if self._probing else max(0.0, self._next - now)
        if limit is None:
            return 0.0
        if self._unanswered >= _CAREFUL and (not self._confirmed or self._before is not None):
            return _POLL_S
        return max(self._next - now, self._room_in(limit, self._units(tokens), now))

    def _room_in(self, limit: Limit, units: float, now: float) -> float:
        if limit.even:
            rate = limit.cap / limit.window
            self._level = min(max(limit.cap, units), self._level + (now - self._level_at) * rate)
            self._level_at = now
            return max(0.0, units - self._level - 1e-6) / rate
        inside = [one for one in self._sent if one.at > now - limit.window]
        over = sum(one.units for one in inside) + units - limit.cap
        for one in inside:
            if over <= 0:
                break
            over -= one.units
            if over <= 0:
                return one.at + limit.window - now
        return 0.0

    def send(self, tokens: int) -> Sent:
        """Book a call that is sent now."""
        now = self._now()
        one = Sent(now, tokens, self._units(tokens), probe=self._wall is not None)
        self._opened = now if self._opened is None else self._opened
        self._probing = self._probing or one.probe
        self._unanswered += 1
        self._level -= one.units
        span = WINDOW_S if self._limit is None else max(WINDOW_S, self._limit.window)
        while self._sent and self._sent[0].at < (now if self._wall is None else self._wall) - span:
            self._sent.popleft()
        self._sent.append(one)
        return one

    def took(self, one: Sent) -> None:
        """The provider took a call, whatever came of it."""
        self._unanswered -= 1
        self._streak = 0
        self._refusing_since = None
        if self._wall is None:
            self._taken += 1
            if self._limit is not None:
                self._explore(self._limit)
        elif one.probe:
            self._learn(self._wall, one.at)

    def refused(self, one: Sent, asked_s: float | None, *, tokens: bool | None = None) -> None:
        """The provider refused a call, and asked to wait; `tokens`: because of too many tokens or, if False, calls."""
        now = self._now()
        self._unanswered -= 1
        if one in self._sent:
            self._sent.remove(one)
        self._refusing_since = now if self._refusing_since is None else self._refusing_since
        if self._wall is not None:
            if one.probe:
                self._probing = False
                self._probes += 1
                self._plan(now, asked_s)
            return
        if one.at < self._changed_at:
            return
        self._streak += 1
        limit = self._limit
        if self._before is not None:
            if self._before.even:
                limit = self._measured(self._before, now)
                self._patience = min(4 * _EXPLORE_AFTER, 2 * self._patience)
            else:
                limit = self._before.at_least(self._held(now - self._before.window, now)[0])
            self._factor = 1.0
            self._set(limit, now)
        elif limit is not None and limit.even:
            limit = self._measured(limit, now)
            self._set(limit, now)
        elif self._streak >= _STREAK or (limit is not None and (self._streak > 1 or self._is_full(limit, now))):
            if tokens is not None and tokens != self._by_tokens:
                self._by_tokens = tokens
                for each in self._sent:
                    each.units = self._units(each.tokens)
            self._reach(now, asked_s)
            return
        else:
            return
        self._level, self._level_at = 0.0, now
        self._next = now + (asked_s or 0.0)
        if self._streak >= _STREAK:
            self._reach(now, asked_s)

    def _measured(self, limit: Limit, now: float) -> Limit:
        """A lower limit than an even one that was refused: what was taken in the last minute, if that is enough."""
        since = max(now if self._opened is None else self._opened, now - WINDOW_S)
        held, calls = self._held(since, now)
        most = held / max(1.0, now - since) * limit.window / limit.cap if calls >= 5 else 1.0
        return limit.times(min(0.98, 0.97 * most))

    def _reach(self, now: float, asked_s: float | None) -> None:
        """The limit is reached."""
        self._wall, self._probes, self._probing = now, 0, False
        limit = self._limit
        if asked_s is None and limit is not None and self._confirmed and not limit.even:
            first = next((one.at for one in self._sent if one.at > now - limit.window), now)
            asked_s = first + limit.window - now
        self._plan(now, asked_s)

    def _units(self, tokens: int) -> float:
        return float(tokens) if self._by_tokens else 1.0

    def _is_full(self, limit: Limit, now: float) -> bool:
        return self._held(now - limit.window, now)[0] >= 0.8 * limit.cap

    def _plan(self, now: float, asked_s: float | None) -> None:
        """When to try again. A provider that refused what it had asked to be sent is not believed three times."""
        wait_s = _PROBES_S[min(self._probes, len(_PROBES_S) - 1)]
        if asked_s is not None:
            wait_s = asked_s + 0.1 if self._probes < _STREAK else max(asked_s, wait_s)
        self._next = now + wait_s

    def _learn(self, wall: float, opened: float) -> None:
        """Calls are taken again from `opened` on."""
        limit = self._limit
        if limit is not None and self._confirmed and not limit.even:
            found, _ = self._held(wall - limit.window, wall)
            limit = Limit(max(1.0, min(found, _SLACK * limit.cap)), limit.window)
        else:
            began = max(self._opened if self._opened is not None else wall, wall - WINDOW_S)
            cap, calls = self._held(began, wall)
            window = opened - began
            if limit is None or (not limit.even and cap >= 0.9 * limit.cap):
                snapped = WINDOW_S if 40.0 <= window <= 80.0 and self._probes else window
                limit = Limit(max(1.0, cap), snapped + 0.2)
            else:
                # It was no window, or the limit has changed.
                calls = max(1, calls)
                limit = Limit(max(1.0, cap) / calls, max(0.01, window) / calls / _SLACK, even=True)
        self._wall, self._opened, self._confirmed, self._factor = None, opened, False, 1.0
        self._level, self._level_at = 0.0, opened
        self._set(limit, opened)

    def _held(self, start: float, end: float) -> tuple[float, int]:
        """The units and the number of calls that were sent then, and not refused."""
        units = [one.units for one in takewhile(lambda one: one.at >= start, reversed(self._sent)) if one.at <= end]
        return sum(units), len(units)

    def _set(self, limit: Limit, at: float) -> None:
        self._limit, self._changed_at, self._before, self._taken = limit, at, None, 0

    def _explore(self, limit: Limit) -> None:
        calls = limit.cap if not self._by_tokens else self._held(self._now() - limit.window, self._now())[1]
        self._confirmed = self._confirmed or self._taken >= min(max(5.0, calls), 10.0)
        before = self._before
        if before is not None:
            held = self._held(self._now() - before.window, self._now())[0] - self._unanswered * limit.cap / max(
                1.0, calls
            )
            if held > before.cap if not limit.even else self._taken >= 10:
                # It has grown: on.
                self._before, self._taken, self._patience = None, self._patience, _EXPLORE_AFTER
        if self._before is None and self._taken >= self._patience:
            self._factor = min(2.0, 1.0 + max(4.0 * (self._factor - 1.0), 0.06))
            one_more = 1.0 if limit.even else 1.0 + 1.0 / max(1.0, calls)
            self._set(limit.times(max(self._factor, one_more)), self._now())
            self._before = limit
