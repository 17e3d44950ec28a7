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


QUICK = ("full minutes", "a bucket of five, silent", "tokens, silent")
"""Servers of each kind of limit; the others take longer and are heavy."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.heavy) for name in SERVERS]
)
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


def test_a_limit_that_is_refused_before_it_held_means_one_call_after_another_at_the_rate_that_was_taken() -> None:
    provider = Provider()
    provider.take(10)
    provider.refuse(3)
    provider.at = 2.0
    provider.take(1)
    provider.at = 6.0
    provider.take(3)
    provider.refuse(2)
    provider.at = 10.0
    provider.take(1)  # four calls were taken from the second to the tenth second
    assert provider.allowance.wait_s(10) == pytest.approx(8.0 / 4 / 0.95, abs=1e-5)
    for _ in range(5):
        provider.at += provider.allowance.wait_s(10)
        assert provider.allowance.wait_s(10) == pytest.approx(0.0)
        provider.take(1)
        assert provider.allowance.wait_s(10) == pytest.approx(8.0 / 4 / 0.95, abs=1e-5)


def test_a_limit_by_tokens_that_is_refused_before_it_held_is_a_rate_of_tokens() -> None:
    provider = Provider()
    provider.take(10)
    for _ in range(3):
        provider.allowance.refused(provider.allowance.send(10), None, tokens=True)
    provider.at = 2.0
    provider.take(1)
    provider.at = 6.0
    provider.take(3)
    provider.refuse(2)
    provider.at = 10.0
    provider.take(1)
    assert provider.allowance.wait_s(10) == pytest.approx(8.0 / 4 / 0.95, abs=1e-5)
    assert provider.allowance.wait_s(5) == pytest.approx(8.0 / 8 / 0.95, abs=1e-5)


def held_back(provider: Provider) -> bool:
    """Whether a fifth call waits for an answer to four that are on their way."""
    calls = [provider.allowance.send(10) for _ in range(4)]
    wait_s = provider.allowance.wait_s(10)
    for call in calls:
        provider.allowance.took(call)
    return wait_s == pytest.approx(0.1)


def with_limit_of_ten() -> Provider:
    """A provider that has taken ten calls in each window of a minute."""
    provider = Provider()
    provider.take(10)
    provider.refuse(3, 59.9)
    provider.at += provider.allowance.wait_s(10)
    provider.take(1)
    return provider


def test_calls_are_held_back_until_a_limit_has_held_for_ten_calls() -> None:
    for taken, careful in ((9, True), (10, False)):
        provider = with_limit_of_ten()
        provider.take(taken)
        assert held_back(provider) is careful


def test_a_limit_that_held_once_is_trusted_after_a_higher_one_was_refused() -> None:
    provider = with_limit_of_ten()
    for _ in range(40):
        provider.at += 6.1
        provider.take(1)
    assert held_back(provider)  # a higher limit is tried
    provider.refuse(1)
    provider.at += 61.0
    provider.take(1)
    assert not held_back(provider)
