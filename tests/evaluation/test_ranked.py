"""Whether the evidence ranks lower than before, among the contexts that both answers have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragstone.evaluation.ranked import RankedContexts, evidence_ranks, ranked_contexts
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import ContextUse, Judgements, Support, Verdict
from ragstone.system.response import Context, Response

TEXTS = {
    "a": "Opening hours on Sundays differ between the northern branches and the harbour.",
    "b": "The warranty of the Arden pump lasts five years from the day of purchase.",
    "c": "Invoices are sent by letter unless the customer has asked for something else.",
    "d": "Returned goods are inspected in the warehouse before money is paid back.",
    "e": "Gift cards can be used in every branch, but not for other gift cards.",
    "f": "Parking is free for an hour behind the main building.",
}
BY_ID = Sample("q", "Which?", relevant_ids={"b": 1.0})
BY_TEXT = Sample("q", "Which?", reference_contexts=(TEXTS["b"],))
JUDGED = Sample("q", "Which?", reference="The second.")


def ranked(names: Sequence[str], sample: Sample = BY_ID, *, ids: bool = True) -> RankedContexts:
    contexts = tuple(Context(TEXTS[name], name if ids else None) for name in names)
    supporting = tuple(f"c{rank}" for rank, name in enumerate(names, start=1) if name == "b")
    support = Support("r1", Verdict.SUPPORTED if supporting else Verdict.UNSUPPORTED, supporting)
    judged = Judgements(context_use=ContextUse((), against_reference=True, attributions=(support,)))
    return ranked_contexts(sample, Response("q", "The second.", contexts), judged)


@pytest.mark.parametrize(
    ("now", "before", "ranks"),
    [
        ("abcdef", "abc", (2, 2)),  # more contexts after the same ones
        ("dabc", "abc", (2, 2)),  # a new one before them is compared by the metrics
        ("cab", "abc", (3, 2)),
        ("ba", "abc", (1, 2)),
        ("acd", "abc", None),  # the evidence is gone: that is no matter of order
        ("abc", "acd", None),
        ("", "abc", None),
    ],
)
@pytest.mark.parametrize(("sample", "ids"), [(BY_ID, True), (BY_TEXT, False), (JUDGED, True)])
def test_ranks_count_only_contexts_that_both_have(
    now: str, before: str, ranks: tuple[int, int] | None, sample: Sample, ids: bool
) -> None:
    assert evidence_ranks(ranked(now, sample, ids=ids), ranked(before, sample, ids=ids)) == ranks


def test_relevant_ids_are_told_from_those_that_no_context_has() -> None:
    sample = Sample("q", "Which?", relevant_ids={"b": 1.0, "z": 2.0, "none": 0.0})
    now = ranked("abc", sample)
    assert (now.has_relevant, now.unmatched) == (True, None)
    missed = ranked("ac", sample)
    assert (missed.has_relevant, missed.unmatched) == (False, ("b", "a"))
    without_ids = ranked("ac", sample, ids=False)
    assert (without_ids.has_relevant, without_ids.unmatched) == (False, None)


def test_contexts_of_one_id_are_compared_by_text() -> None:
    parts = Response("q", "?", (Context(TEXTS["a"], "doc"), Context(TEXTS["b"], "doc"), Context(TEXTS["c"], "doc")))
    swapped = Response("q", "?", (parts.contexts[1], parts.contexts[0]))
    now, before = (ranked_contexts(BY_TEXT, response, Judgements()) for response in (swapped, parts))
    assert (now.ids, before.ids) == ((), ())
    assert evidence_ranks(now, before) == (1, 2)
