"""Whether what an answer cites is among its contexts, however the citations are numbered."""

from __future__ import annotations

import pytest

from ragstone.metrics.citations import MAX_BRACKETS, cites_what_is_there
from ragstone.system.response import Context

CONTEXTS = (Context("A single ticket costs 7 euros.", "tickets"), Context("Dogs travel free.", "42"))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("An adult pays 7 euros.", None),
        ("An adult pays 7 euros [1].", True),
        ("An adult pays 7 euros [2].", True),
        ("An adult pays 7 euros [0].", True),  # counted from 0
        ("An adult pays 7 euros [tickets].", True),
        ("An adult pays 7 euros [42].", True),
        ("An adult pays 7 euros [1, 42].", True),
        ("An adult pays 7 euros [3].", False),
        ("An adult pays 7 euros [34].", False),
        ("An adult pays 7 euros [1][2][3].", False),
        ("An adult pays 7 euros [see the list].", None),
    ],
)
def test_positions_and_ids_are_there(answer: str, expected: bool | None) -> None:
    assert cites_what_is_there(answer, CONTEXTS) is expected


def test_a_bracket_of_the_contexts_is_no_citation() -> None:
    assert (
        cites_what_is_there("Use items[9] for it.", (Context("Read the last value with items[9].", "arrays"),)) is None
    )


class Searched(str):
    """A text that counts how often something is looked for in it."""

    searches = 0

    def __contains__(self, other: object) -> bool:
        type(self).searches += 1
        return str(other) in str(self)


def test_only_the_first_distinct_brackets_are_looked_up() -> None:
    contexts = (Context(Searched("A single ticket costs 7 euros."), "tickets"),)
    cites_what_is_there("".join(f"[note {number}]" for number in range(1000)), contexts)
    assert Searched.searches == MAX_BRACKETS


def test_a_bracket_after_many_repeated_ones_is_looked_up() -> None:
    assert cites_what_is_there(f"An adult pays 7 euros {'[1]' * 2 * MAX_BRACKETS}[9].", CONTEXTS) is False
