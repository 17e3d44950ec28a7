"""What a provider takes in how long is learned from its refusals, at the cost of few of them and of little time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rate_limits import Bucket, Case, Changing, Fixed, Server, Sliding, measure

from ragstone.judge.llm.allowance import Allowance

SERVERS: dict[str, tuple[Callable[[], Server], bool, bool, float, int]] = {
    "fixed windows, silent": (lambda: Fixed(30, 60), False, False, 1.05, 12),
    "full minutes": (lambda: Fixed(30, 60, 37), True, False, 1.14, 24),
    "sliding": (lambda: Sliding(60, 60), True, False, 1.09, 17),
    "a bucket of five, silent": (lambda: Bucket(30, 5), False, False, 1.03, 16),
    "seconds": (lambda: Fixed(3, 6), True, False, 1.09, 16),
    "tokens, silent": (lambda: Sliding(20_000, 60), False, True, 1.03, 17),
    "a smaller limit later": (lambda: Changing(Fixed(30, 60), Fixed(15, 60), 300), True, False, 1.03, 16),
    "a larger limit later": (lambda: Changing(Fixed(15, 60), Fixed(30, 60), 600), True, False, 1.10, 11),
}
"""Each server, whether it says how long to wait, whether it counts tokens, and the most time and refusals."""


@pytest.mark.parametrize("name", SERVERS)
def test_a_limit_is_learned_from_few_refusals_and_used_to_the_full(name: str) -> None:
    make, says, tokens, most_time, most_refused = SERVERS[name]
    found = measure(Case(name, make, says, tokens), 1.0)
    assert found.lost == 0
    assert found.ratio <= most_time
    assert found.refused <= most_refused


class Provider:
    """A clock, and an allowance that reads it."""

    def __init__(self) -> None:
        self.at = 0.0
        self.allowance = Allowance(lambda: self.at)

    def refuse(self, count: int, asked_s: float | None = None) -> None:
        for _ in range(count):
            self.allowance.refused(self.allowance.send(10), asked_s)

    def take(self, count: int) -> None:
        for _ in range(count):
            self.allowance.took(self.allowance.send(10))


def test_three_refusals_in_a_row_stop_all_calls_and_two_do_not() -> None:
    provider = Provider()
    provider.take(4)
    provider.refuse(2)
    provider.take(1)
    provider.refuse(2)
    assert provider.allowance.wait_s(10) == 0.0
    provider.refuse(1, 7.0)
    assert provider.allowance.wait_s(10) == pytest.approx(7.1)


def test_one_call_at_a_time_tries_whether_calls_are_taken_again_after_longer_and_longer_waits() -> None:
    provider = Provider()
    waits = []
    provider.refuse(3)
    for _ in range(6):
        waits.append(provider.allowance.wait_s(10))
        provider.at += waits[-1]
        trying = provider.allowance.send(10)
        assert provider.allowance.wait_s(10) == pytest.approx(0.1)
        provider.allowance.refused(trying, None)
    assert waits == pytest.approx([2.0, 13.0, 25.0, 20.0, 30.0, 30.0])
    assert provider.allowance.stalled_s == pytest.approx(120.0)
    provider.at += 30.0
    provider.allowance.took(provider.allowance.send(10))
    assert provider.allowance.stalled_s == 0.0


def test_a_provider_that_refuses_what_it_asked_to_be_sent_is_not_believed_three_times() -> None:
    provider = Provider()
    provider.refuse(3, 1.0)
    waits = []
    for _ in range(5):
        waits.append(provider.allowance.wait_s(10))
        provider.at += waits[-1]
        provider.refuse(1, 1.0)
    assert waits == pytest.approx([1.1, 1.1, 1.1, 20.0, 30.0])


def test_what_was_taken_until_the_refusals_ended_is_the_limit() -> None:
    provider = Provider()
    provider.take(10)
    provider.refuse(3, 59.9)
    provider.at += provider.allowance.wait_s(10)
    provider.take(1)
    for _ in range(9):
        assert provider.allowance.wait_s(10) < 0.3
        provider.at += provider.allowance.wait_s(10)
        provider.take(1)
    assert provider.allowance.wait_s(10) == pytest.approx(60.0, abs=1.0)
