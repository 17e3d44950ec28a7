"""What changed since the baseline, in one line: golden set, corpus, judge, policy, code."""

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
    """What the contexts of a run and its baseline, sample by sample, tell of the corpus behind them.

    A document counts as no longer returned if it was for a question, the others of that question still are, in their
    order and with another in its place, and it is nowhere now. Only the system knows whether it is gone from the index.
    """

    def __init__(self) -> None:
        self._gone: Counter[str] = Counter()
        self._new: set[str] = set()
        self._edited: set[str] = set()
        self._ids: tuple[set[str], set[str]] = (set(), set())
        self._digests: tuple[set[str], set[str]] = (set(), set())

    def add(self, now: SampleRecord, then: SampleRecord | None) -> None:
        """Look at one sample of both runs."""
        if then is None:
            return
        before, after = ({one.id: one.text for one in run.response.contexts if one.id} for run in (then, now))
        for record, texts, ids, digests in zip((then, now), (before, after), self._ids, self._digests, strict=True):
            ids.update(texts)
            digests.add(str(record.response.extra.get(INDEX_DIGEST, "")))
        kept = [name for name in before if name in after]
        added = [name for name in after if name not in before]
        self._edited |= {name for name in kept if before[name] != after[name]}
        in_order = kept == [name for name in after if name in before]
        if in_order and len(after) >= len(before) and 2 * len(kept) >= len(before):
            self._gone.update(before.keys() - after.keys())
            places = list(after)
            self._new.update(name for name in added if kept and places.index(name) < places.index(kept[-1]))

    @property
    def lost(self) -> tuple[int, int]:
        """How many documents are no longer returned, and for how many questions they were."""
        times = [count for name, count in self._gone.items() if name not in self._ids[1]]
        if self._moved is not False:
            return (len(times), sum(times))
        return (0, 0)

    @property
    def _moved(self) -> bool | None:
        """Whether the index is another one; None if the system doesn't say."""
        then, now = (digests - {""} for digests in self._digests)
        if then and now:
            return then != now
        return None

    def __str__(self) -> str:
        if self._moved is False:
            return ""
        documents = {
            "no longer returned": self.lost[0],
            "new": len(self._new - self._ids[0]),
            "with another text": len(self._edited),
        }
        counts = [f"{counted(count, 'document')} {word}" for word, count in documents.items() if count]
        return ", ".join(counts) or ("another index" if self._moved else "")


def changes_since(now: RunScores, then: RunScores, corpus: Corpus, golden: GoldenSetChange) -> tuple[Changed, ...]:
    """What is known to have changed between two runs; `golden` is what became of their golden set."""
    mine = now.manifest
    theirs = then.manifest
    if mine is None or theirs is None:
        return ()
    judge = judge_difference(now, then) or ("its verdicts on the same texts" if moved(mine.canaries) else None)
    policies = {mine.policy_hash, theirs.policy_hash} - {None}
    found = (
        Changed("golden set", ", ".join(golden.counts)),
        Changed("corpus", str(corpus), *corpus.lost),
        Changed("judge", "" if judge is None else judge.removeprefix("the judge changed ")),
        Changed("policy", "other rules" if len(policies) == 2 else ""),
        Changed("code", _code(mine, theirs)),
    )
    return tuple(one for one in found if one.how)


def _code(now: Manifest, then: Manifest) -> str:
    system = now.system
    before = then.system
    if system.entrypoint != before.entrypoint:
        return f"{before.entrypoint} → {system.entrypoint}"
    if system.commit != before.commit and system.commit and before.commit:
        return f"{before.commit[:7]} → {system.commit[:7]}"
    if system.version != before.version:
        return f"{before.version} → {system.version}"
    return ""


def changes_line(changes: Sequence[Changed], *, worse: bool) -> str:
    """``Changed since the baseline: corpus (31 documents new); code (1f3c9aa → 7d2e0b1).``; empty if nothing did."""
    lost = next((change.lost for change in changes if change.samples >= MIN_SAMPLES), 0)
    first = ""
    if worse and lost:
        documents = f"{counted(lost, 'document')} {'is' if lost == 1 else 'are'}"
        first = f"The answers got worse, and {documents} no longer returned. "
        only_lost = f"{counted(lost, 'document')} no longer returned"
        changes = [change for change in changes if change.how != only_lost]
    listed = "; ".join(f"{change.what} ({change.how})" for change in changes)
    if listed:
        return f"{first}Changed since the baseline: {listed}."
    return first.rstrip()
