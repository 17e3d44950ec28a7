"""Right answers in conversations, and to standalone questions: ``python bench/conversations.py [MTRAG]``.

Prints the share of right answers in which the offline judge calls a statement unsupported: as turns, judged with the
contexts of the turn and of earlier ones, and as answers to the question written out, with the passages that it needs.
MTRAG is a file of tasks of that benchmark: there, the history is given or left out.
"""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Message, Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind, SupportTable, Verdict
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.system.response import Context, ConversationSoFar, Response

DATA = Path(__file__).with_name("conversations.toml")
NEEDS = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT})
Case = tuple[Sample, Response]


@dataclass(frozen=True)
class Pair:
    """A right answer as a turn, and as the answer to a question that stands alone."""

    field: str
    turn: Case
    alone: Case


def own_pairs() -> Iterator[Pair]:
    """The pairs of `conversations.toml`."""
    for number, conversation in enumerate(tomllib.loads(DATA.read_text(encoding="utf-8"))["conversations"]):
        yield from _pairs_of(conversation, f"c{number}")


def _pairs_of(conversation: dict[str, Any], name: str) -> Iterator[Pair]:
    passages = [Context(text) for text in conversation["passages"]]
    messages: list[Message] = []
    earlier: list[Context] = []
    for number, (question, written_out, answer, places) in enumerate(conversation["turns"], 1):
        own = tuple(passages[place - 1] for place in places)
        sample = Sample(f"{name}-{number}", question, history=tuple(messages))
        so_far = ConversationSoFar(tuple(messages), tuple(earlier))
        turn = (sample, Response(sample.id, answer, own, so_far=so_far))
        alone = Sample(sample.id, written_out or question)
        yield Pair(conversation["field"], turn, (alone, Response(sample.id, answer, own or tuple(earlier))))
        messages += [Message("user", question), Message("assistant", answer)]
        earlier += own


def mtrag_pairs(path: str) -> Iterator[Pair]:
    """The answerable tasks of MTRAG that have passages and a history: with the history, and without."""
    for sample in load_golden_set(path):
        if sample.history and sample.answerable and sample.reference_contexts and sample.reference:
            contexts = tuple(map(Context, sample.reference_contexts))
            response = Response(sample.id, sample.reference, contexts)
            yield Pair("MTRAG", (sample, response), (replace(sample, history=()), response))


async def is_unsupported(judge: OfflineJudge, case: Case) -> bool | None:
    """Whether a statement of the answer is called unsupported; None if it makes none."""
    sample, response = case
    judged = await collect_judgements(judge, sample, response, NEEDS, Call(sample.id))
    if not isinstance(judged.support, SupportTable):
        return None
    return any(support.verdict is not Verdict.SUPPORTED for support in judged.support.supports)


def shares(pairs: Iterable[Pair]) -> dict[str, tuple[int, float, float]]:
    """By field: the number of pairs that are judged, and the share that is called unsupported as turns and alone."""

    async def judged() -> dict[str, list[tuple[bool, bool]]]:
        judge = OfflineJudge()
        found: dict[str, list[tuple[bool, bool]]] = {}
        for pair in pairs:
            turn, alone = await is_unsupported(judge, pair.turn), await is_unsupported(judge, pair.alone)
            if turn is not None and alone is not None:
                found.setdefault(pair.field, []).append((turn, alone))
        return found

    return {
        field: (len(rows), sum(turn for turn, _ in rows) / len(rows), sum(alone for _, alone in rows) / len(rows))
        for field, rows in asyncio.run(judged()).items()
    }


def main() -> None:
    pairs = list(own_pairs())
    whole = [replace(pair, field="all") for pair in pairs]
    for path in sys.argv[1:]:
        whole += mtrag_pairs(path)
    print(f"{'field':10} {'answers':>8} {'as turns':>9} {'alone':>7}")
    for field, (size, turns, alone) in shares([*pairs, *whole]).items():
        print(f"{field:10} {size:8} {turns:9.3f} {alone:7.3f}")


if __name__ == "__main__":
    main()
