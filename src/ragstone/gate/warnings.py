"""Warnings and notes of a verdict: what it does not guard, and footnotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from ragstone.formatting import counted, some, usual_reason
from ragstone.gate.checks.applicability import (
    NO_CONTEXTS,
    NO_CONTEXTS_RETURNED,
    RETURN_THEM,
    contexts_of,
    returns_no_contexts,
)
from ragstone.gate.comparability import Pairing, is_judged
from ragstone.gate.evidence import Evidence
from ragstone.gate.verdict import Action
from ragstone.metrics.custom import is_rubric
from ragstone.metrics.hallucination import FLAGGED_FROM
from ragstone.metrics.registry import lower_is_better
from ragstone.system.response import NO_TEXTS

_OTHER_HALF = {
    "context_precision": "context_precision_no_reference",
    "context_precision_no_reference": "context_precision",
}

FLOORS_WARN = "with the offline judge their floors only warn"
_LOST_SHARE = 0.05
"""A metric that no longer applies to more samples than this is worth a note."""


def permissive(evidence: Evidence) -> Iterator[str]:
    """A warning that rules apply because there is no policy."""
    policy = evidence.policy
    floors_warn = any(rule.min is not None and rule.floor_action is Action.WARN for rule in evidence.rules)
    floors = f", and {FLOORS_WARN}" if evidence.offline and floors_warn else ""
    if policy.file is None and not policy.named:
        yield f"There is no policy file: the default rules apply{floors}. ragstone init writes one."


def assumed_directions(evidence: Evidence) -> Iterator[str]:
    """A warning that names metrics of another evaluator that sound as if less were better, and are taken otherwise."""
    unwritten = {rule.metric for rule in evidence.rules if not rule.written and rule.slice is None}
    named = sorted(filter(_sounds_lower, unwritten & evidence.current.metrics.keys()))
    if named:
        yield (
            f"Assuming higher is better for {some(named)}, which Ragstone doesn't know. If lower is better, set "
            f"max_rise (or max) under [metrics.{named[0]}] in the policy."
        )


def _sounds_lower(metric: str) -> bool:
    words = set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric).lower()))
    return lower_is_better(metric) is None and bool(words & _LOWER_WORDS)


_LOWER_WORDS = frozenset(
    {"bias", "cer", "cost", "error", "errors", "failure", "failures", "hallucination", "hallucinations", "harm"}
    | {"latency", "loss", "noise", "perplexity", "risk", "toxicity", "violation", "violations", "wer"}
)


def forgotten(evidence: Evidence) -> Iterator[str]:
    """A warning about conversations of which the system got the last question only."""
    manifest = evidence.current.manifest
    system = None if manifest is None else manifest.system
    if system is not None and system.conversations and system.takes_history is False:
        verb = "has" if system.conversations == 1 else "have"
        yield (
            f"{counted(system.conversations, 'sample')} of the golden set {verb} earlier turns, which the entrypoint "
            "doesn't take: it was asked the last question alone. Give it a parameter `history`."
        )


def ungraded(evidence: Evidence) -> Iterator[str]:
    """A warning that names the rubrics of a run whose judge can't grade by them."""
    current = evidence.current
    names = sorted(
        name for name, scores in current.metrics.items() if is_rubric(scores.version) and not scores.applies_to
    )
    if names and current.manifest is not None and evidence.offline:
        judge = current.manifest.judge.label()
        yield f"Not scored: {some(names)}. A rubric needs a language model, and the {judge} uses none."


def without_contexts(evidence: Evidence) -> Iterator[str]:
    """A warning that contexts, or their texts, are missing: then scores say nothing of the retriever."""
    run = evidence.current
    is_decided = any(check.reason.startswith(NO_CONTEXTS_RETURNED) for check in evidence.decided)
    if returns_no_contexts(run) and not is_decided:
        had = evidence.compared is not None and bool(contexts_of(evidence.compared.baseline) - {NO_CONTEXTS})
        yield f"{NO_CONTEXTS_RETURNED}{', and did in the baseline' if had else ''}: {RETURN_THEM}."
    missing = set[str]()
    for scores in run.metrics.values():
        reasons = {name: failure.reason for name, failure in scores.failed.items()} | dict(scores.not_applicable)
        missing |= {name for name, reason in reasons.items() if reason.startswith(NO_TEXTS)}
    if missing:
        yield (
            f"Of {counted(len(missing), 'answer')}, {NO_TEXTS}: only metrics with relevant_ids are measured. Return "
            "the texts, or name their field in context_text_field under [system]."
        )


def unmatched_ids(evidence: Evidence) -> Iterator[str]:
    """A warning about relevant ids that no answer's contexts have, with an id of the contexts: both may be the same
    document, written differently."""
    rankings = evidence.current.system.ranked.values()
    found = {name for ranked in rankings for name in ranked.relevant_ids}
    missed = {name: None for ranked in rankings for name in ranked.missed_ids if name not in found}
    others = {name: None for ranked in rankings for name in ranked.other_ids if name not in found}
    alike = next(_alike(missed.keys() - others.keys(), others.keys() - missed.keys()), None)
    if alike is not None:
        yield (
            f"The golden set's '{alike[0]}' and the contexts' '{alike[1]}' are different ids: they are compared as "
            "they are written. Write both the same way."
        )
    elif missed and others and not found:
        yield (
            f"No relevant id of the golden set was ever returned: it names '{next(iter(missed))}', the contexts "
            f"'{next(iter(others))}'. Ids are compared as they are written."
        )


def _alike(labels: Set[str], returned: Set[str]) -> Iterator[tuple[str, str]]:
    """Labels and returned ids that could name one document, but for case, folders, what follows a ``#``, or ``.0``."""
    by_end = {end: name for name in sorted(returned, reverse=True) for end in _ends(name)}
    whole = {_ends(name)[0]: name for name in sorted(returned, reverse=True)}
    for label in sorted(labels):
        ends = _ends(label)
        match = by_end.get(ends[0]) or next((whole[end] for end in ends if end in whole), None)
        # Of two that both name a part of the document, the parts differ.
        if match is not None and not ("#" in label and "#" in match):
            yield label, match


def _ends(name: str) -> list[str]:
    """`name` without what may differ, and then without its first folder, its first two, and so on."""
    parts = name.casefold().partition("#")[0].removesuffix(".0").removeprefix("./").split("/")
    return ["/".join(parts[first:]) for first in range(len(parts))]


def footnotes(evidence: Evidence) -> Iterator[str]:
    """Notes about generated questions, answers that say more than their contexts, and metrics that do not apply."""
    run = evidence.current
    golden = None if run.manifest is None else run.manifest.golden
    judged = [name for name, scores in run.metrics.items() if scores.values and is_judged(name, scores.version)]
    if golden is not None and judged and 2 * golden.generated > golden.samples:
        yield (
            f"{golden.generated:,} of {counted(golden.samples, 'question')} were generated and not reviewed. Such "
            "questions rank retrievers as people's do, answers less reliably (arXiv 2508.11758), so drops of "
            f"{some(judged)} deserve a second look. Review them with `ragstone review`."
        )
    invented = run.scores_of("hallucination").values.values()
    flagged = sum(value >= FLAGGED_FROM for value in invented)
    if flagged and not evidence.offline:
        yield f"Something that the contexts don't say is in {flagged:,} of {counted(len(invented), 'answer')}."
    for rule in evidence.rules:
        scores = run.scores_of(rule.metric)
        # Every sample belongs to one half of the family, so an empty other half is expected.
        is_other_half = run.scores_of(_OTHER_HALF.get(rule.metric, "")).values
        if not rule.written and scores.not_applicable and not scores.applies_to and not is_other_half:
            why = usual_reason(scores.not_applicable.values())
            yield f"{rule.metric} applies to no sample, most often because {why}."
    if evidence.pairing is not None:
        for metric in evidence.pairing.metrics:
            yield from _no_longer_applicable(metric, evidence.pairing)


def _no_longer_applicable(metric: str, pairing: Pairing) -> Iterator[str]:
    """A note on a metric that lost samples: an answer that makes no claims can't be unfaithful."""
    excused = pairing.current.metrics[metric].not_applicable
    before = pairing.baseline.metrics[metric].values
    lost = [excused[name] for name in pairing.samples if name in excused and name in before]
    if len(lost) > _LOST_SHARE * len(pairing.samples):
        yield (
            f"{metric} no longer applies to {len(lost)} of {counted(len(pairing.samples), 'sample')} with a score in "
            f"the baseline, most often because {usual_reason(lost)}."
        )
