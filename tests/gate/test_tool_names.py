"""Expected tools that were never called."""

from __future__ import annotations

import pytest

from ragstone.gate.tool_names import uncalled_tools

ORDER, SEARCH, REFUND = "lookup_ordr", "search or browse", "refund"


@pytest.mark.parametrize(
    ("expected", "called", "is_whole_run", "named"),
    [
        ([ORDER, SEARCH], {"lookup_order", "browse"}, True, ["'lookup_ordr' (did you mean 'lookup_order'?)"]),
        ([ORDER, REFUND], {"lookup_order"}, False, ["'lookup_ordr' (did you mean 'lookup_order'?)"]),
        ([REFUND, REFUND, SEARCH], {"weather"}, True, ["'refund', 'search or browse'"]),
        (["lookup_orders", "lookup_order"], {"lookup_order"}, True, ["'lookup_orders'."]),
        ([REFUND], set(), True, ["no answer has one"]),
        ([REFUND], set(), False, []),
        ([], set(), True, []),
        ([REFUND], {"refund"}, True, []),
    ],
)
def test_what_is_named(expected: list[str], called: set[str], is_whole_run: bool, named: list[str]) -> None:
    sentences = list(uncalled_tools(expected, called, is_whole_run=is_whole_run))
    assert len(sentences) == len(named)
    assert all(name in sentence for name, sentence in zip(named, sentences, strict=True))
