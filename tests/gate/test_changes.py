"""What changed since the baseline: its questions, the corpus, the judge, the policy and the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.scores import MetricScores, RunScores, SampleFacts, split_drafts
from ragstone.gate.changes import CorpusChange, changes_since
from ragstone.gate.comparability import with_ids_of
from ragstone.gate.findings import Level
from ragstone.gate.golden_set_change import GoldenSetChange, golden_set_change, golden_set_finding
from ragstone.golden.sample import Sample
from ragstone.judge.protocol import JudgeIdentity
from ragstone.system.response import INDEX_DIGEST, Context, Response
from tests.gate.conftest import build_run, make_manifest


def record(ids: str, digest: str = "", **texts: str) -> SampleRecord:
    """A sample for which the documents with these letters were returned."""
    contexts = tuple(Context(texts.get(name, f"The text of {name}."), name) for name in ids)
    extra = {INDEX_DIGEST: digest} if digest else {}
    return SampleRecord(Sample("q", "?"), (Answer(Response("q", "!", contexts, extra=extra)),), {})


def corpus(*pairs: tuple[SampleRecord | None, SampleRecord]) -> CorpusChange:
    found = CorpusChange()
    for then, now in pairs:
        found.add(now, then)
    return found


OTHER = {"b": "Another text."}


@pytest.mark.parametrize(
    ("then", "now", "says"),
    [
        (record("abcd"), record("wxyz"), ""),  # another retriever
        (record("abc"), record("acb", **OTHER), "1 document with another text"),
        (None, record("abc"), ""),
        # The digest of the index decides where the system reports it.
        (record("abc", "v1"), record("abc", "v1", **OTHER), ""),
        (record("abc", "v1"), record("abc", "v2"), "another index"),
        (record("abc", "v1"), record("abc", "v2", **OTHER), "1 document with another text"),
        (record("abc", ""), record("abc", "v2"), ""),
    ],
)
def test_what_the_contexts_tell_of_the_corpus(then: SampleRecord | None, now: SampleRecord, says: str) -> None:
    assert str(corpus((then, now))) == says


def manifest(**more: Any) -> Manifest:
    found = make_manifest()
    system: dict[str, Any] = {name: more.pop(name) for name in ("commit", "entrypoint", "version") if name in more}
    return found.model_copy(update={**more, "system": found.system.model_copy(update=system)})


def changes(
    now: Manifest | None, then: Manifest | None, found: CorpusChange | None = None, **golden: int
) -> dict[str, str]:
    current, baseline = (build_run({"mrr": [1.0] * 3}, manifest=one) for one in (now, then))
    changed = changes_since(current, baseline, found or CorpusChange(), GoldenSetChange(**golden))
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
    found = corpus((record("abcd"), record("abcd", **OTHER)))
    new = manifest(commit="b" * 40, policy_hash="1")
    assert list(changes(new, OLD, found, gone=1, new=1).items()) == [
        ("golden set", "1 gone, 1 new"),
        ("corpus", "1 document with another text"),
        ("code", "aaaaaaa → bbbbbbb"),
    ]


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
    current, drafts = split_drafts(now)
    baseline, _ = with_ids_of(current, then)
    return golden_set_change(current, baseline, drafts=drafts).counts


THEN = {"a": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}


@pytest.mark.parametrize(
    ("now", "drafts", "counts"),
    [
        (THEN, (), ()),
        ({"a": "Why?", "b": "When?"}, (), ("2 gone",)),
        ({**THEN, "a": "Why now?"}, (), ("1 reworded",)),
        ({**THEN, "a": "Why?:Because."}, (), ("1 relabelled",)),
        ({**THEN, "e": "How?"}, (), ("1 new",)),
        ({**THEN, "a": "When?", "b": "Why?"}, (), ()),
        ({"x": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}, (), ()),
        ({"a": "When?", "c": "Where?", "d": "Who?"}, (), ("1 gone",)),
        ({**THEN, "a": "When?", "b": "Whence?"}, (), ("1 reworded",)),
        ({"x": "Why?", "b": "When?", "c": "Where?", "d": "Who?"}, ("x",), ("1 drafts now",)),
        ({**THEN, "a": "When?", "b": "Draft?"}, ("b",), ("1 drafts now",)),
    ],
)
def test_each_question_of_a_baseline_counts_once(now: Asked, drafts: tuple[str, ...], counts: tuple[str, ...]) -> None:
    assert change(asked(now, drafts=drafts), asked(THEN)) == counts


def test_a_group_alone_is_no_other_label() -> None:
    assert change(asked(THEN, group="g"), asked(THEN)) == ()


@pytest.mark.parametrize(
    ("found", "sentence", "levels"),
    [
        (GoldenSetChange(gone=18, reworded=4), "The golden set changed: 18 gone, 4 reworded.", [Level.ALERT]),
        (GoldenSetChange(relabelled=1, drafts=2), "The golden set changed: 1 relabelled, 2 drafts now.", [Level.ALERT]),
        (GoldenSetChange(new=9), "The golden set changed: 9 new.", [Level.FACT]),
        (GoldenSetChange(), "", []),
    ],
)
def test_it_stands_beside_line_one_if_the_baseline_is_touched(found: Any, sentence: str, levels: list[Level]) -> None:
    assert str(found) == sentence
    assert [finding.level for finding in golden_set_finding(found)] == levels
