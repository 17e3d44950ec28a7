"""What changed since the baseline: its questions, the corpus, the judge, the policy and the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, without_drafts
from ragstone.gate.changes import Corpus, changes_line, changes_since
from ragstone.gate.comparability import with_ids_of
from ragstone.gate.findings import Level
from ragstone.gate.golden_set_change import GoldenSetChange, golden_set_change, golden_set_finding, left_out
from ragstone.gate.verdict import Changed
from ragstone.golden.sample import Sample
from ragstone.judge.protocol import JudgeIdentity
from ragstone.system.response import INDEX_DIGEST, Context, Response
from tests.gate.conftest import build_run, make_manifest


def record(ids: str, digest: str = "", **texts: str) -> SampleRecord:
    """A sample for which the documents with these letters were returned."""
    contexts = tuple(Context(texts.get(name, f"The text of {name}."), name) for name in ids)
    extra = {INDEX_DIGEST: digest} if digest else {}
    return SampleRecord(Sample("q", "?"), (Answer(Response("q", "!", contexts, extra=extra)),), {})


def corpus(*pairs: tuple[SampleRecord | None, SampleRecord]) -> Corpus:
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
        ("", "ab", ""),
    ],
)
def test_a_document_is_gone_if_all_else_is_as_it_was(then: str, now: str, says: str) -> None:
    assert str(corpus((record(then), record(now)))) == says


def test_a_document_that_is_returned_elsewhere_is_not_gone_nor_new() -> None:
    once = (record("abcd"), record("acde"))
    assert str(corpus(once, (record("fg"), record("fb")))) == "1 document no longer returned"
    assert str(corpus(once, (record("bc"), record("bc")))) == ""
    assert str(corpus((record("abcd"), record("axbc")), (record("x"), record("x")))) == "1 document no longer returned"
    assert str(corpus((record("abc"), record("abc", b="Another text.")))) == "1 document with another text"
    assert str(corpus((None, record("abc")))) == ""


@pytest.mark.parametrize(
    ("then", "now", "says", "lost"),
    [
        (("abcd", "v1"), ("acde", "v1"), "", (0, 0)),
        (("abcd", "v1"), ("abcd", "v2"), "another index", (0, 0)),
        (("abcd", "v1"), ("acde", "v2"), "1 document no longer returned", (1, 1)),
        (("abcd", ""), ("acde", "v2"), "1 document no longer returned", (1, 1)),
        (("abcd", "v1"), ("abcd", ""), "", (0, 0)),
    ],
)
def test_the_digest_of_the_index_decides_where_the_system_reports_it(then: Any, now: Any, says: str, lost: Any) -> None:
    found = corpus((record(*then), record(*now)))
    assert (str(found), found.lost) == (says, lost)


def manifest(**more: Any) -> Manifest:
    found = make_manifest()
    system: dict[str, Any] = {name: more.pop(name) for name in ("commit", "entrypoint", "version") if name in more}
    return found.model_copy(update={**more, "system": found.system.model_copy(update=system)})


def changes(now: Manifest | None, then: Manifest | None, found: Corpus | None = None, **golden: int) -> dict[str, str]:
    current, baseline = (build_run({"mrr": [1.0] * 3}, manifest=one) for one in (now, then))
    changed = changes_since(current, baseline, found or Corpus(), GoldenSetChange(**golden))
    return {one.what: one.how for one in changed}


OLD = manifest(commit="a" * 40, policy_hash="1")


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [
        (OLD, OLD, {}),
        (None, OLD, {}),
        (OLD, None, {}),
        (
            manifest(commit="b" * 40, policy_hash="2", judge=JudgeIdentity("openai", "judge-2", "prompts-1")),
            OLD,
            {"judge": "from openai judge-1 to openai judge-2", "policy": "other rules", "code": "aaaaaaa → bbbbbbb"},
        ),
        (manifest(entrypoint="app:other"), manifest(entrypoint="app:answer"), {"code": "app:answer → app:other"}),
        (manifest(version="2"), manifest(version="1"), {"code": "1 → 2"}),
        (manifest(commit="b" * 40), manifest(), {}),
        (manifest(), manifest(commit="b" * 40), {}),
        (manifest(policy_hash="2"), manifest(), {}),
    ],
)
def test_what_changed(now: Manifest | None, then: Manifest | None, expected: dict[str, str]) -> None:
    assert changes(now, then) == expected


def test_the_golden_set_and_the_corpus_come_first() -> None:
    found = corpus((record("abcd"), record("acde")))
    new = manifest(commit="b" * 40, policy_hash="1")
    assert list(changes(new, OLD, found, gone=1, new=1).items()) == [
        ("golden set", "1 gone, 1 new"),
        ("corpus", "1 document no longer returned"),
        ("code", "aaaaaaa → bbbbbbb"),
    ]


CORPUS = Changed("corpus", "31 documents no longer returned", lost=31, samples=5)
LISTED = "Changed since the baseline: corpus (31 documents no longer returned)."
BLAMED = "The answers got worse, and 31 documents are no longer returned."


@pytest.mark.parametrize(
    ("found", "worse", "line"),
    [
        ([CORPUS], True, BLAMED),
        ([CORPUS], False, LISTED),
        ([replace(CORPUS, samples=4)], True, LISTED),
        ([CORPUS, Changed("code", "1 → 2")], True, f"{BLAMED} Changed since the baseline: code (1 → 2)."),
        ([Changed("code", "1 → 2")], True, "Changed since the baseline: code (1 → 2)."),
        ([], True, ""),
    ],
)
def test_a_corpus_that_lost_documents_is_said_with_the_answers_that_got_worse(
    found: Any, worse: Any, line: str
) -> None:
    assert changes_line(found, worse=worse) == line


# -- the questions of the baseline -------------------------------------------------------------------------------------

Asked = Mapping[str, str]
"""The question of each id; what follows a colon is its reference."""


def asked(questions: Asked, *, drafts: tuple[str, ...] = (), group: str | None = None) -> RunScores:
    samples = {}
    for name, text in questions.items():
        question, _, reference = text.partition(":")
        parts = (question, reference, "", "", "", "", "")
        samples[name] = SampleFacts(
            content_hash=f"{text} {group}", parts=parts, draft=name in drafts, group=group, question=question
        )
    scores = {"faithfulness": MetricScores(dict.fromkeys(questions, 1.0))}
    return RunScores("run", scores, samples, manifest=make_manifest())


def change(now: RunScores, then: RunScores) -> tuple[str, ...]:
    current, drafts = without_drafts(now)
    baseline, renamed = with_ids_of(current, then)
    return golden_set_change(current, baseline, renamed=renamed, drafts=drafts).counts


THEN = {"a": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}


@pytest.mark.parametrize(
    ("now", "drafts", "counts"),
    [
        (THEN, (), ()),
        ({"a": "Why?", "b": "When?"}, (), ("2 gone",)),
        ({**THEN, "a": "Why now?"}, (), ("1 reworded",)),
        ({**THEN, "a": "Why?:Because."}, (), ("1 relabelled",)),
        ({**THEN, "e": "How?"}, (), ("1 new",)),
        ({**THEN, "a": "When?", "b": "Why?"}, (), ("2 under the id of another",)),
        ({"x": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}, (), ()),
        ({"a": "When?", "c": "Where?", "d": "Who?"}, (), ("1 gone", "1 under the id of another")),
        ({**THEN, "a": "When?", "b": "Whence?"}, (), ("1 reworded", "1 under the id of another")),
        ({"a": "Why?", "b": "When?", "c": "Where?"}, ("a",), ("1 gone", "1 turned into a draft")),
        ({"x": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}, ("x",), ("1 turned into a draft",)),
        ({**THEN, "a": "When?", "b": "Draft?"}, ("b",), ("1 turned into a draft", "1 under the id of another")),
    ],
)
def test_each_question_of_the_baseline_counts_once(
    now: Asked, drafts: tuple[str, ...], counts: tuple[str, ...]
) -> None:
    assert change(asked(now, drafts=drafts), asked(THEN)) == counts


def test_a_group_alone_is_no_other_label() -> None:
    assert change(asked(THEN, group="g"), asked(THEN)) == ()


@pytest.mark.parametrize(
    ("samples", "limited", "evaluated", "missing", "total", "count"),
    [
        (1, True, 0, 3, 4, 3),  # a limit of one question
        (1, True, 0, 4, 4, 3),  # it must leave out three
        (1, False, 0, 3, 4, 0),
        (9, False, 5, 6, 12, 4),  # four were not asked
        (9, True, 5, 9, 12, 7),  # and the limit left out three
    ],
)
def test_a_sample_that_the_gate_left_out_is_not_gone(
    samples: int, limited: bool, evaluated: int, missing: int, total: int, count: int
) -> None:
    found = make_manifest()
    golden = found.golden.model_copy(update={"samples": samples, "limited": limited})
    counts = found.counts.model_copy(update={"scored": evaluated})
    one = replace(asked({}), manifest=found.model_copy(update={"golden": golden, "counts": counts}))
    assert left_out(one, missing, total) == count
    assert left_out(replace(one, manifest=None), missing, total) == 0


@pytest.mark.parametrize(
    ("found", "sentence", "levels"),
    [
        (GoldenSetChange(gone=18, reworded=4), "18 questions are gone, 4 reworded.", [Level.ALERT]),
        (GoldenSetChange(relabelled=1, drafts=2), "1 question is relabelled, 2 turned into drafts.", [Level.ALERT]),
        (GoldenSetChange(new=9), "9 questions are new.", [Level.FACT]),
        (GoldenSetChange(), "", []),
    ],
)
def test_it_stands_beside_line_one_if_the_baseline_is_touched(found: Any, sentence: str, levels: list[Level]) -> None:
    assert str(found) == sentence
    assert [finding.level for finding in golden_set_finding(found)] == levels
