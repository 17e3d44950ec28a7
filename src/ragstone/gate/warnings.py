"""Warnings and notes of a verdict: what it does not guard, and footnotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from ragstone.evaluation.scores import RunScores
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
    floors_warn = any(
        rule.min is not None and rule.floor_action is Action.WARN
        for rule in evidence.rules
    )
    floors = f", and {FLOORS_WARN}" if evidence.offline and floors_warn else ""
    if policy.file is None and not policy.named:
        yield f"There is no policy file: the default rules apply{floors}. ragstone init writes one."


def assumed_directions(evidence: Evidence) -> Iterator[str]:
    """A warning that names metrics of another evaluator that sound as if less were
    better, and are taken otherwise."""
    unwritten = {
        rule.metric
        for rule in evidence.rules
        if not rule.written and rule.slice is None
    }
    named = sorted(filter(_sounds_lower, unwritten & evidence.current.metrics.keys()))
    if named:
        yield (
            f"Assuming higher is better for {some(named)}, which Ragstone doesn't know. If lower is better, set "
            f"max_rise (or max) under [metrics.{named[0]}] in the policy."
        )


def _sounds_lower(metric: str) -> bool:
    in_snake_case = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric).lower()
    words = set(re.split(r"[^a-z]+", in_snake_case))
    return lower_is_better(metric) is None and not words.isdisjoint(_LOWER_WORDS)


_LOWER_WORDS = frozenset(
    {
        "bias",
        "cer",
        "cost",
        "error",
        "errors",
        "failure",
        "failures",
        "hallucination",
        "hallucinations",
        "harm",
    }
    | {
        "latency",
        "loss",
        "noise",
        "perplexity",
        "risk",
        "toxicity",
        "violation",
        "violations",
        "wer",
    }
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
    manifest = evidence.current.manifest
    if manifest is None or not evidence.offline:
        return
    metrics = evidence.current.metrics.items()
    names = sorted(
        name
        for name, scores in metrics
        if is_rubric(scores.version) and not scores.applies_to
    )
    if names:
        judge = manifest.judge.label()
        yield f"Not scored: {some(names)}. A rubric needs a language model, and the {judge} uses none."


def without_contexts(evidence: Evidence) -> Iterator[str]:
    """A warning that contexts, or their texts, are missing: then scores say nothing of
    the retriever."""
    run = evidence.current
    is_decided = any(
        check.reason.startswith(NO_CONTEXTS_RETURNED) for check in evidence.decided
    )
    if returns_no_contexts(run) and not is_decided:
        before = ""
        if evidence.compared is not None and contexts_of(evidence.compared.baseline) - {
            NO_CONTEXTS
        }:
            before = ", and did in the baseline"
        yield f"{NO_CONTEXTS_RETURNED}{before}: {RETURN_THEM}."
    without_texts: set[str] = set()
    for scores in run.metrics.values():
        reasons = {
            sample_id: failure.reason for sample_id, failure in scores.failed.items()
        }
        reasons |= scores.not_applicable
        without_texts |= {
            sample_id
            for sample_id, reason in reasons.items()
            if reason.startswith(NO_TEXTS)
        }
    if without_texts:
        yield (
            f"Of {counted(len(without_texts), 'answer')}, {NO_TEXTS}: only metrics with relevant_ids are measured. "
            "Return the texts, or name their field in context_text_field under [system]."
        )


def unmatched_ids(evidence: Evidence) -> Iterator[str]:
    """A warning about relevant ids that no answer's contexts have, with an id of the
    contexts: both may be the same document, written differently."""
    returned: set[str] = set()
    missed: dict[str, None] = {}  # in the order in which they come
    irrelevant: dict[str, None] = {}
    for ranked in evidence.current.system.ranked.values():
        returned.update(ranked.relevant_ids)
        missed |= dict.fromkeys(ranked.missed_ids)
        irrelevant |= dict.fromkeys(ranked.other_ids)
    never_returned = [label for label in missed if label not in returned]
    unlabelled = [context_id for context_id in irrelevant if context_id not in returned]
    pairs = _alike(
        set(never_returned) - set(unlabelled), set(unlabelled) - set(never_returned)
    )
    label, context_id = next(pairs, (None, None))
    if label is not None:
        yield (
            f"The golden set's '{label}' and the contexts' '{context_id}' are different ids: they are compared as "
            "they are written. Write both the same way."
        )
    elif never_returned and unlabelled and not returned:
        yield (
            f"No relevant id of the golden set was ever returned: it names '{never_returned[0]}', the contexts "
            f"'{unlabelled[0]}'. Ids are compared as they are written."
        )


def _alike(labels: Set[str], returned: Set[str]) -> Iterator[tuple[str, str]]:
    """Labels and returned ids that could name one document, but for case, folders, what
    follows a ``#``, or ``.0``."""
    by_end: dict[str, str] = {}
    by_whole: dict[str, str] = {}
    for context_id in sorted(returned, reverse=True):
        ends = _ends(context_id)
        by_end |= dict.fromkeys(ends, context_id)
        by_whole[ends[0]] = context_id
    for label in sorted(labels):
        ends = _ends(label)
        match = by_end.get(ends[0]) or next(
            (by_whole[end] for end in ends if end in by_whole), None
        )
        # Of two that both name a part of the document, the parts differ.
        if match is not None and not ("#" in label and "#" in match):
            yield label, match


def _ends(name: str) -> list[str]:
    """`name` without what may differ, and then without its first folder, its first two,
    and so on."""
    parts = (
        name.casefold()
        .partition("#")[0]
        .removesuffix(".0")
        .removeprefix("./")
        .split("/")
    )
    return ["/".join(parts[first:]) for first in range(len(parts))]


def footnotes(evidence: Evidence) -> Iterator[str]:
    """Notes about generated questions, answers that say more than their contexts, and
    metrics that do not apply."""
    run = evidence.current
    yield from _generated_questions(run)
    hallucinations = run.scores_of("hallucination").values.values()
    flagged = sum(value >= FLAGGED_FROM for value in hallucinations)
    if flagged and not evidence.offline:
        yield f"Something that the contexts don't say is in {flagged:,} of {counted(len(hallucinations), 'answer')}."
    for rule in evidence.rules:
        scores = run.scores_of(rule.metric)
        # Every sample belongs to one half of the family, so an empty other half is
        # expected.
        is_other_half = run.scores_of(_OTHER_HALF.get(rule.metric, "")).values
        if (
            not rule.written
            and scores.not_applicable
            and not scores.applies_to
            and not is_other_half
        ):
            reason = usual_reason(scores.not_applicable.values())
            yield f"{rule.metric} applies to no sample, most often because {reason}."
    if evidence.pairing is not None:
        for metric in evidence.pairing.metrics:
            yield from _no_longer_applicable(metric, evidence.pairing)


def _generated_questions(run: RunScores) -> Iterator[str]:
    """A note on a golden set of which most questions were generated and not
    reviewed."""
    golden = None if run.manifest is None else run.manifest.golden
    judged = [
        name
        for name, scores in run.metrics.items()
        if scores.values and is_judged(name, scores.version)
    ]
    if golden is not None and judged and 2 * golden.generated > golden.samples:
        yield (
            f"{golden.generated:,} of {counted(golden.samples, 'question')} were generated and not reviewed. Such "
            "questions rank retrievers as people's do, answers less reliably (arXiv 2508.11758), so drops of "
            f"{some(judged)} deserve a second look. Review them with `ragstone review`."
        )


def _no_longer_applicable(metric: str, pairing: Pairing) -> Iterator[str]:
    """A note on a metric that lost samples: an answer that makes no claims can't be
    unfaithful."""
    excused = pairing.current.metrics[metric].not_applicable
    before = pairing.baseline.metrics[metric].values
    lost = [
        excused[name] for name in pairing.samples if name in excused and name in before
    ]
    if len(lost) > _LOST_SHARE * len(pairing.samples):
        yield (
            f"{metric} no longer applies to {len(lost)} of {counted(len(pairing.samples), 'sample')} with a score in "
            f"the baseline, most often because {usual_reason(lost)}."
        )
