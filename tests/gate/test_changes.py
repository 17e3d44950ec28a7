"""What changed since the baseline, and whether the corpus got worse with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.gate.changes import Corpus, changes_line, changes_since
from ragstone.gate.golden_set_change import GoldenSetChange
from ragstone.gate.verdict import Changed
from ragstone.golden.sample import Sample
from ragstone.judge.protocol import JudgeIdentity
from ragstone.system.response import INDEX_DIGEST, Context, Response
from tests.gate.conftest import build_run, make_manifest


def record(ids: Sequence[str], digest: str = "", **texts: str) -> SampleRecord:
    contexts = tuple(Context(texts.get(name, f"The text of {name}."), name) for name in ids)
    extra = {INDEX_DIGEST: digest} if digest else {}
    return SampleRecord(Sample("q", "?"), (Answer(Response("q", "!", contexts, extra=extra)),), {})


def corpus(*pairs: tuple[SampleRecord, SampleRecord]) -> Corpus:
    found = Corpus()
    for then, now in pairs:
        found.add(now, then)
    return found


@pytest.mark.parametrize(
    ("then", "now", "says"),
    [
        ("abcd", "abcd", ""),
        ("abcd", "acde", "1 document no longer returned"),
        ("abcd", "axbc", "1 document no longer returned, 1 document new"),  # the last made room
        ("abcd", "wxyz", ""),  # a retriever that broke loses more than a document
        ("abcd", "dcba", ""),
        ("abcd", "dcax", ""),  # in another order
        ("abcd", "abxy", "2 documents no longer returned"),
        ("abcd", "axyz", ""),
        ("abcd", "ab", ""),  # top k
    ],
)
def test_a_document_is_gone_if_all_else_is_as_it_was(then: str, now: str, says: str) -> None:
    assert str(corpus((record(then), record(now)))) == says


def test_a_document_that_is_returned_elsewhere_is_not_gone() -> None:
    assert (
        str(corpus((record("abcd"), record("acde")), (record("fg"), record("fb")))) == "1 document no longer returned"
    )
    assert str(corpus((record("abcd"), record("acde")), (record("bc"), record("bc")))) == ""


def test_a_text_that_changed_under_its_id_is_counted() -> None:
    assert str(corpus((record("abc"), record("abc", b="Another text.")))) == "1 document with another text"


def test_the_digest_of_the_index_decides_where_the_system_reports_it() -> None:
    assert str(corpus((record("abcd", "v1"), record("acde", "v1")))) == ""
    assert str(corpus((record("abcd", "v1"), record("abcd", "v2")))) == "another index"
    assert str(corpus((record("abcd", "v1"), record("acde", "v2")))) == "1 document no longer returned"
    assert corpus((record("abcd", "v1"), record("acde", "v1"))).lost == (0, 0)


def manifest(**more: Any) -> Manifest:
    found = make_manifest()
    system: dict[str, Any] = {name: more.pop(name) for name in ("commit", "entrypoint", "version") if name in more}
    return found.model_copy(update={**more, "system": found.system.model_copy(update=system)})


def test_what_changed_is_one_line() -> None:
    judge = JudgeIdentity("openai", "judge-2", "prompts-1")
    then = build_run({"mrr": [1.0] * 3}, manifest=manifest(commit="a" * 40, policy_hash="1"), hashes={"s1": "x"})
    now = build_run(
        {"mrr": [1.0] * 3},
        manifest=manifest(commit="b" * 40, policy_hash="2", judge=judge),
        hashes={"s1": "y", "s2": "z"},
        offset=1,
    )
    golden = GoldenSetChange(gone=1, reworded=1, new=1)
    line = changes_line(changes_since(now, then, corpus((record("abcd"), record("acde"))), golden), worse=True)
    parts = (
        "(1 gone, 1 reworded, 1 new)",
        "1 document no longer returned",
        "judge-1 to openai judge-2",
        "policy",
        "aaaaaaa → bbbbbbb",
    )
    places = [line.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)
    assert changes_line(changes_since(then, then, Corpus(), GoldenSetChange()), worse=True) == ""
    assert changes_since(build_run({"mrr": [1.0]}), then, Corpus(), GoldenSetChange()) == ()


@pytest.mark.parametrize(("worse", "samples", "blamed"), [(True, 40, True), (False, 40, False), (True, 4, False)])
def test_a_corpus_that_lost_documents_is_said_with_the_answers_that_got_worse(
    worse: bool, samples: int, blamed: bool
) -> None:
    line = changes_line((Changed("corpus", "31 documents no longer returned", lost=31, samples=samples),), worse=worse)
    listed = "Changed since the baseline: corpus (31 documents no longer returned)."
    assert line == ("The answers got worse, and 31 documents are no longer returned." if blamed else listed)
