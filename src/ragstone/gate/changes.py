"""What changed since the baseline, in one line: golden set, corpus, judge, policy,
code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragstone.evaluation.manifest import Manifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted
from ragstone.gate.comparability import judge_difference
from ragstone.gate.golden_set_change import GoldenSetChange
from ragstone.gate.judge_drift import moved
from ragstone.gate.verdict import MIN_SAMPLES, Changed
from ragstone.system.response import INDEX_DIGEST


class Corpus:
    """What the contexts of a run and its baseline, sample by sample, tell of the corpus
    behind them.

    A document counts as no longer returned if it was for a question, the others of that
    question still are, in their order and with another in its place, and it is nowhere
    now. Only the system knows whether it is gone from the index.
    """

    def __init__(self) -> None:
        self._times_missing: Counter[str] = Counter()
        self._new: set[str] = set()
        self._edited: set[str] = set()
        self._ids: set[str] = set()
        self._baseline_ids: set[str] = set()
        self._digests: set[str] = set()
        self._baseline_digests: set[str] = set()

    def add(self, record: SampleRecord, baseline_record: SampleRecord | None) -> None:
        """Look at one sample of both runs."""
        if baseline_record is None:
            return
        texts = _texts(record)
        baseline_texts = _texts(baseline_record)
        self._ids.update(texts)
        self._baseline_ids.update(baseline_texts)
        self._digests |= _index_digest(record)
        self._baseline_digests |= _index_digest(baseline_record)
        common = [document for document in baseline_texts if document in texts]
        self._edited |= {
            document
            for document in common
            if baseline_texts[document] != texts[document]
        }
        is_in_order = common == [
            document for document in texts if document in baseline_texts
        ]
        if (
            is_in_order
            and len(texts) >= len(baseline_texts)
            and 2 * len(common) >= len(baseline_texts)
        ):
            self._times_missing.update(baseline_texts.keys() - texts.keys())
            if common:
                ranked = list(texts)
                before_last_common = ranked[: ranked.index(common[-1])]
                self._new.update(
                    document
                    for document in before_last_common
                    if document not in baseline_texts
                )

    @property
    def lost(self) -> tuple[int, int]:
        """How many documents are no longer returned, and for how many questions they
        were."""
        if self._is_reindexed is False:
            return 0, 0
        times = [
            count
            for document, count in self._times_missing.items()
            if document not in self._ids
        ]
        return len(times), sum(times)

    @property
    def _is_reindexed(self) -> bool | None:
        """Whether the index is another one; None if the system doesn't say."""
        if not self._digests or not self._baseline_digests:
            return None
        return self._digests != self._baseline_digests

    def __str__(self) -> str:
        if self._is_reindexed is False:
            return ""
        documents = {
            "no longer returned": self.lost[0],
            "new": len(self._new - self._baseline_ids),
            "with another text": len(self._edited),
        }
        counts = [
            f"{counted(count, 'document')} {word}"
            for word, count in documents.items()
            if count
        ]
        if counts:
            return ", ".join(counts)
        if self._is_reindexed:
            return "another index"
        return ""


def _texts(record: SampleRecord) -> dict[str, str]:
    """The texts of the contexts with an id, by id."""
    return {
        context.id: context.text for context in record.response.contexts if context.id
    }


def _index_digest(record: SampleRecord) -> set[str]:
    """The digest of the index, if the system returned it."""
    digest = str(record.response.extra.get(INDEX_DIGEST, ""))
    return {digest} - {""}


def changes_since(
    current: RunScores, baseline: RunScores, corpus: Corpus, golden: GoldenSetChange
) -> tuple[Changed, ...]:
    """What is known to have changed between two runs; `golden` is what became of their
    golden set."""
    manifest = current.manifest
    baseline_manifest = baseline.manifest
    if manifest is None or baseline_manifest is None:
        return ()
    changes = (
        Changed("golden set", ", ".join(golden.counts)),
        Changed("corpus", str(corpus), *corpus.lost),
        Changed("judge", _judge(current, baseline)),
        Changed("policy", _policy(manifest, baseline_manifest)),
        Changed("code", _code(manifest, baseline_manifest)),
    )
    return tuple(change for change in changes if change.how)


def _judge(current: RunScores, baseline: RunScores) -> str:
    difference = judge_difference(current, baseline)
    if difference is not None:
        return difference.removeprefix("the judge changed ")
    if moved(current.rounds.judge.canaries):
        return "its verdicts on the same texts"
    return ""


def _policy(manifest: Manifest, baseline_manifest: Manifest) -> str:
    policies = {manifest.policy_hash, baseline_manifest.policy_hash} - {None}
    if len(policies) == 2:
        return "other rules"
    return ""


def _code(manifest: Manifest, baseline_manifest: Manifest) -> str:
    system = manifest.system
    before = baseline_manifest.system
    if system.entrypoint != before.entrypoint:
        return f"{before.entrypoint} → {system.entrypoint}"
    if system.commit != before.commit and system.commit and before.commit:
        return f"{before.commit[:7]} → {system.commit[:7]}"
    if system.version != before.version:
        return f"{before.version} → {system.version}"
    return ""


def changes_line(changes: Sequence[Changed], *, worse: bool) -> str:
    """``Changed since the baseline: corpus (31 documents new); code (1f3c9aa →
    7d2e0b1).``; empty if nothing did."""
    lost = next((change.lost for change in changes if change.samples >= MIN_SAMPLES), 0)
    first = ""
    if worse and lost:
        verb = "is" if lost == 1 else "are"
        documents = counted(lost, "document")
        first = f"The answers got worse, and {documents} {verb} no longer returned. "
        changes = [
            change
            for change in changes
            if change.how != f"{documents} no longer returned"
        ]
    if not changes:
        return first.rstrip()
    listed = "; ".join(f"{change.what} ({change.how})" for change in changes)
    return f"{first}Changed since the baseline: {listed}."
