"""Would a cascade pay? ``python bench/cascade.py [DATA_DIR]``: the offline judge first, an LLM for what it leaves open.

Selective classification of single statements: one whose probability is at least the upper limit counts as supported,
one at most at the lower limit as unsupported, and the rest would go to the LLM. The limits are the loosest of
`LIMITS` with a Clopper-Pearson bound (one-sided, 95 % over both limits and all that were tried) within the stated
risk. They are calibrated on one half of the pages of a test set, and measured on the other half and on other sets.
The error is the share of decided statements on which people said otherwise, so the LLM is taken to be always right.

Printed besides: the same for sentences with a harmful change (`contrast.py`), and the share of the cost of judging
that a cascade saves, with calls like those of `judge_cost.py`: the support call is dropped only where all statements of
an answer are decided, because the contexts are most of what it sends.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contrast import HARMFUL, contrasts, copied_sentences
from data_sets import data_folder
from labelled_sets import HARD_CASES, Case, EvalTask, Pairwise, Pointwise, load_items
from scipy.stats import beta

from ragstone.judge.llm.prices import listed_price, tariff
from ragstone.judge.llm.prompts import layout_of, prefix_tokens
from ragstone.judge.llm.provider import Usage
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.system.response import Context

FILES = {"BEGIN": "begin.jsonl.gz", "WiCE": "wice_claim.jsonl.gz", "HaluEval QA": "halueval_qa_500.jsonl.gz"}
LIMITS = (0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.4, 0.5)
"""How far from 0 and from the probability of a copied sentence a decided statement may be."""

COPIED = 0.97
RISKS = (0.02, 0.05, 0.1)
CONFIDENCE = 0.95
MAX_CHANGED = 300
SAMPLES = 1_000
MODELS = (
    *(("openai", name) for name in ("gpt-6.1-sol", "gpt-5.4-mini", "gpt-4o-mini")),
    *(("anthropic", name) for name in ("claude-sonnet-5", "claude-haiku-4-5")),
)
QUESTION, ANSWER, REFERENCE, CONTEXT = 18, 75, 50, 150
"""Tokens of the texts of `judge_cost.py`."""


@dataclass(frozen=True)
class Asked:
    """One call of a sample: tokens of its data and of its reply, and the statements it judges."""

    task: str
    data: int
    reply: int
    statements: int = 0


def calls(chance: random.Random) -> list[Asked]:
    """The four calls of one sample."""
    statements, reference, contexts = chance.randint(3, 8), chance.randint(2, 5), chance.randint(3, 6)
    read = contexts * CONTEXT
    return [
        Asked("statements", QUESTION + ANSWER, ANSWER + 20),
        Asked("support", read + ANSWER * 3 // 2, statements * 25, statements),
        Asked("context_use", QUESTION + REFERENCE + read, contexts * 7 + reference * 20),
        Asked("reverse_questions", ANSWER, 3 * 24),
    ]


class Cache:
    """The prefixes that a provider has seen, by name."""

    def __init__(self, cache_from: int | None, *, writes: bool) -> None:
        self._from = cache_from
        self._writes = writes
        self._seen: set[str] = set()

    def usage(self, prefix: str, tokens: int, rest: int, reply: int) -> Usage:
        if self._from is None or tokens < self._from:
            return Usage(tokens + rest, 0, 0, reply)
        if prefix in self._seen:
            return Usage(rest, tokens, 0, reply)
        self._seen.add(prefix)
        return Usage(rest, 0, tokens, reply) if self._writes else Usage(tokens + rest, 0, 0, reply)


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement with the offline judge's probability that it is supported, and whether people say so."""

    chance: float
    supported: bool
    group: str

    @property
    def first_half(self) -> bool:
        return hashlib.sha256(self.group.encode()).digest()[0] % 2 == 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What is decided: up to `lower` and from `upper` on; None where no limit keeps the risk."""

    lower: float | None
    upper: float | None

    def decided(self, found: Sequence[Judged]) -> list[bool]:
        """Whether each decided statement is decided as people would."""
        return [one.supported for one in found if self.upper is not None and one.chance >= self.upper] + [
            not one.supported for one in found if self.lower is not None and one.chance <= self.lower
        ]


def bound(wrong: int, of: int, confidence: float) -> float:
    """The upper Clopper-Pearson bound of a share."""
    return float(beta.ppf(confidence, wrong + 1, of - wrong)) if wrong < of else 1.0


def calibrated(found: Sequence[Judged], risk: float) -> Limits:
    confidence = 1 - (1 - CONFIDENCE) / (2 * len(LIMITS))

    def keeps(decided: list[bool]) -> bool:
        return bool(decided) and bound(decided.count(False), len(decided), confidence) <= risk

    lower = [at for at in LIMITS if keeps(Limits(at, None).decided(found))]
    upper = [COPIED - at for at in LIMITS if keeps(Limits(None, COPIED - at).decided(found))]
    return Limits(max(lower, default=None), min(upper, default=None))


async def judged(cases: Sequence[tuple[Case, bool, str]]) -> list[Judged]:
    """The cases whose answer is a single statement, so that a label is a label of this statement."""
    judge, call = OfflineJudge(), Call("cascade")
    found = []
    for case, supported, group in cases:
        try:
            listed = await judge.statements(case.question, case.answer, call=call)
            if len(listed.statements) != 1:
                continue
            table = await judge.support([Context(text) for text in case.contexts], listed.statements, call=call)
        except JudgementFailed:
            continue
        found.append(Judged(table.supports[0].probability or 0.0, supported, group))
    return found


def labelled(path: Path) -> list[tuple[Case, bool, str]]:
    found = []
    for item in load_items(path):
        if item.task is not EvalTask.FAITHFULNESS:
            continue
        if isinstance(item, Pointwise):
            found.append((item.case, item.label == 1, item.group))
        elif isinstance(item, Pairwise):
            found.extend(
                [(item.first, item.preference < 0, item.group), (item.second, item.preference > 0, item.group)]
            )
    return found


def interval(right: list[bool]) -> str:
    wrong, of = right.count(False), len(right)
    low = float(beta.ppf(0.025, wrong, of - wrong + 1)) if wrong else 0.0
    return f"{wrong / of:.3f} ({low:.3f} to {bound(wrong, of, 0.975):.3f})"


def saved(provider: str, model: str, share: float) -> float:
    """The share of the cost of the four calls that is saved if each statement is decided with probability `share`."""
    price, layout = tariff(provider, model), layout_of(provider, model)
    assert price is not None
    listed = listed_price(provider, model)
    cache = Cache(listed.cache_from if listed else None, writes=provider == "anthropic" or layout.breakpoints)
    chance, draw = random.Random(11), random.Random(5)
    whole = less = 0.0
    for _ in range(SAMPLES):
        for call in calls(chance):
            tokens = prefix_tokens(layout.prompts[call.task])
            cost = price.cost_usd(cache.usage(call.task, tokens, call.data + 20, call.reply))
            whole += cost
            if call.task == "support":
                open_ones = sum(draw.random() >= share for _ in range(call.statements))
                reply = call.reply * open_ones // call.statements
                cost = price.cost_usd(cache.usage(call.task, tokens, call.data + 20, reply)) if open_ones else 0.0
            less += cost
    return 1 - less / whole


def main(data: Path) -> None:
    sets = {name: asyncio.run(judged(labelled(data / file))) for name, file in FILES.items()}
    sets["hard cases"] = asyncio.run(judged(labelled(HARD_CASES)))
    sentences = [one for one in copied_sentences(data) if not one.training]
    pairs = [pair for name, change in HARMFUL.items() for pair in contrasts(name, change, sentences, MAX_CHANGED)]
    changed = asyncio.run(judged([(Case("", text, (one.context,)), False, "") for one, text in pairs]))
    halves = {
        name: ([one for one in sets[name] if one.first_half], [one for one in sets[name] if not one.first_half])
        for name in ("BEGIN", "WiCE")
    }
    print("| calibrated on | stated risk | limits | measured on | statements | decided | wrong of the decided |")
    print("|---|---|---|---|---|---|---|")
    for source in (("BEGIN",), ("WiCE",), ("BEGIN", "WiCE")):
        for risk in RISKS:
            limits = calibrated([one for name in source for one in halves[name][0]], risk)
            lower, upper = (f"{at:.2f}" if at is not None else "none" for at in (limits.lower, limits.upper))
            seen = {**{name: halves[name][1] for name in halves}, **{n: f for n, f in sets.items() if n not in halves}}
            for name, found in (seen | {"harmful changes": changed}).items():
                right = limits.decided(found)
                shown = interval(right) if right else "nothing decided"
                print(
                    f"| {' and '.join(source)} | {risk:.0%} | {lower}, {upper} | {name} | {len(found)} "
                    f"| {len(right) / len(found):.1%} | {shown} |"
                )
    print("\n| model | saved at 15 % decided | at 50 % | at 80 % | at 100 % |\n|---|---|---|---|---|")
    for provider, model in MODELS:
        each = " | ".join(f"{saved(provider, model, share):.1%}" for share in (0.15, 0.5, 0.8, 1.0))
        print(f"| {model} | {each} |")


if __name__ == "__main__":
    main(data_folder(FILES.values(), *sys.argv[1:2]))
