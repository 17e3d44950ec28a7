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
        for record, found, ids, digests in zip((then, now), (before, after), self._ids, self._digests, strict=True):
            ids.update(found)
            digests.add(str(record.response.extra.get(INDEX_DIGEST, "")))
        self._edited |= {name for name in before.keys() & after.keys() if before[name] != after[name]}
        left = [name for name in before if name in after]
        in_order = left == [name for name in after if name in before]
        if in_order and len(after) >= len(before) and 2 * len(left) >= len(before):
            self._gone.update(before.keys() - after.keys())
            last = list(after).index(left[-1]) if left else 0
            self._new.update(name for name in list(after)[:last] if name not in before)

    @property
    def lost(self) -> tuple[int, int]:
        """How many documents are no longer returned, and for how many questions they were."""
        found = {name: times for name, times in self._gone.items() if name not in self._ids[1]}
        return (len(found), sum(found.values())) if self._moved is not False else (0, 0)

    @property
    def _moved(self) -> bool | None:
        """Whether the index is another one; None if the system doesn't say."""
        then, now = (digests - {""} for digests in self._digests)
        return then != now if then and now else None

    def __str__(self) -> str:
        if self._moved is False:
            return ""
        new, edited = self._new - self._ids[0], self._edited
        counts = {"no longer returned": self.lost[0], "new": len(new), "with another text": len(edited)}
        said = [f"{counted(count, 'document')} {word}" for word, count in counts.items() if count]
        return ", ".join(said) or ("another index" if self._moved else "")


def changes_since(now: RunScores, then: RunScores, corpus: Corpus, golden: GoldenSetChange) -> tuple[Changed, ...]:
    """What is known to have changed between two runs; `golden` is what became of their golden set."""
    mine, theirs = now.manifest, then.manifest
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
    mine, theirs = now.system, then.system
    if mine.entrypoint != theirs.entrypoint:
        return f"{theirs.entrypoint} → {mine.entrypoint}"
    if mine.commit != theirs.commit and mine.commit and theirs.commit:
        return f"{theirs.commit[:7]} → {mine.commit[:7]}"
    return f"{theirs.version} → {mine.version}" if mine.version != theirs.version else ""


def changes_line(changes: Sequence[Changed], *, worse: bool) -> str:
    """``Changed since the baseline: corpus (31 documents new); code (1f3c9aa → 7d2e0b1).``; empty if nothing did."""
    if not changes:
        return ""
    lost = next((change.lost for change in changes if change.samples >= MIN_SAMPLES), 0)
    if not worse or not lost:
        return _list(changes)
    verb = "is" if lost == 1 else "are"
    first = f"The answers got worse, and {counted(lost, 'document')} {verb} no longer returned."
    others = [change for change in changes if change.how != _not_returned(lost)]
    return f"{first} {_list(others)}".rstrip()


def _list(changes: Sequence[Changed]) -> str:
    listed = "; ".join(f"{change.what} ({change.how})" for change in changes)
    return f"Changed since the baseline: {listed}." if changes else ""


def _not_returned(documents: int) -> str:
    return f"{counted(documents, 'document')} no longer returned"
