"""What changed since the baseline: golden set, corpus, judge, policy and code."""

from __future__ import annotations

from ragstone.evaluation.manifest import SystemManifest
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.formatting import counted
from ragstone.gate.comparability import judge_difference
from ragstone.gate.golden_set_change import GoldenSetChange
from ragstone.gate.judge_drift import is_judge_changed
from ragstone.gate.verdict import Changed
from ragstone.system.response import INDEX_DIGEST


class CorpusChange:
    """How the corpus changed, as far as the contexts of a run and of its baseline
    show."""

    def __init__(self) -> None:
        self._edited: set[str] = set()
        self._digests: set[object] = set()
        self._baseline_digests: set[object] = set()

    def add(self, record: SampleRecord, baseline_record: SampleRecord | None) -> None:
        """Take in the contexts of one sample in both runs."""
        if baseline_record is None:
            return
        response = record.response
        baseline_response = baseline_record.response
        texts = {context.id: context.text for context in response.contexts}
        for context in baseline_response.contexts:
            text = texts.get(context.id, context.text)
            if context.id and text != context.text:
                self._edited.add(context.id)
        self._digests.add(response.extra.get(INDEX_DIGEST))
        self._baseline_digests.add(baseline_response.extra.get(INDEX_DIGEST))

    def __str__(self) -> str:
        """``31 documents with another text``; empty if no change shows."""
        digests = self._digests | self._baseline_digests
        is_known = None not in digests
        if is_known and self._digests == self._baseline_digests:
            return ""
        if self._edited:
            documents = counted(len(self._edited), "document")
            return f"{documents} with another text"
        return "another index" if is_known else ""


def changes_since(
    current: RunScores,
    baseline: RunScores,
    corpus: CorpusChange,
    golden: GoldenSetChange,
) -> tuple[Changed, ...]:
    """What is known to have changed between two runs."""
    manifest = current.manifest
    before = baseline.manifest
    if manifest is None or before is None:
        return ()
    judge = ""
    if is_judge_changed(current.rounds.judge.canaries):
        judge = "its verdicts on the same texts"
    difference = judge_difference(current, baseline)
    if difference is not None:
        judge = difference.removeprefix("the judge changed ")
    known_policies = {manifest.policy_hash, before.policy_hash} - {None}
    policy = "other rules" if len(known_policies) == 2 else ""
    counts = ", ".join(golden.counts)
    code = _code(manifest.system, before.system)
    changes = (
        Changed("golden set", counts),
        Changed("corpus", str(corpus)),
        Changed("judge", judge),
        Changed("policy", policy),
        Changed("code", code),
    )
    return tuple(change for change in changes if change.how)


def _code(system: SystemManifest, before: SystemManifest) -> str:
    """How the code of the system changed: its entrypoint, commit or version; empty if
    no change shows."""
    if system.entrypoint != before.entrypoint:
        return f"{before.entrypoint} → {system.entrypoint}"
    if system.commit != before.commit and system.commit and before.commit:
        commit_before = before.commit[:7]
        commit = system.commit[:7]
        return f"{commit_before} → {commit}"
    if system.version != before.version:
        return f"{before.version} → {system.version}"
    return ""
