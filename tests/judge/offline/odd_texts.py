"""Texts that nobody writes, each as a function of its length: what splits, joins and compares must stay linear in it.

Run as a program with a name, a length and the part that the text plays, it judges one in all six ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

ODD: dict[str, Callable[[int], str]] = {
    "negations": lambda n: "".join(f"It is not {i}. " for i in range(n // 14)),
    "short sentences": lambda n: "It is 5. " * (n // 9),
    "Chinese": lambda n: "北京是中国的首都。" * (n // 9),
    "Chinese without a stop": lambda n: "北京是中国的首都它很大" * (n // 11),
    "Japanese quotations": lambda n: "「あ。」" * (n // 4),
    "Thai": lambda n: "ภาษาไทย" * (n // 7),
    "Hindi": lambda n: "कि" * (n // 2),
    "combining accents": lambda n: "e" + "\u0301" * (n - 1),
    "quotation marks": lambda n: '"' * n,
    "quoted sentences": lambda n: '"A. b" ' * (n // 7),
    "open quotations": lambda n: "“ a " * (n // 4),
    "brackets": lambda n: "(" * n,
    "open brackets": lambda n: "(a. " * (n // 4),
    "open citations": lambda n: "[1" * (n // 2),
    "one endless word": lambda n: "a" * n,
    "digits": lambda n: "7" * n,
    "digits and commas": lambda n: "7," * (n // 2),
    "digits and stops": lambda n: "7." * (n // 2),
    "newlines": lambda n: "\n" * n,
    "short lines": lambda n: "a\n" * (n // 2),
    "spaces": lambda n: "a" + " " * (n - 2) + "b",
    "full stops": lambda n: "." * n,
    "initials": lambda n: "A. " * (n // 3),
    "titles": lambda n: "Mr. " * (n // 4),
    "questions": lambda n: "What? " * (n // 6),
    "apostrophes": lambda n: "a'" * (n // 2),
    "open tags": lambda n: "<a" * (n // 2),
    "open thoughts": lambda n: "</think>" + "<think>" * (n // 7),
    "open links": lambda n: "[1](" * (n // 4),
    "stars": lambda n: "*" * n,
    "headings": lambda n: "# " * (n // 2),
    "table": lambda n: "| " * (n // 2) + "x",
    "clauses": lambda n: "the red cat was here, and " * (n // 26),
    "words that differ": lambda n: " ".join(f"word{i}" for i in range(n // 11)),
    "one word": lambda n: "cat " * (n // 4),
    "magnitudes": lambda n: "3 million " * (n // 10),
    "names": lambda n: "Cat of " * (n // 7),
    "refusals": lambda n: "I don't know. " * (n // 14),
    "two alphabets": lambda n: "aб" * (n // 2),
    "emoji": lambda n: "😀" * n,
}
PARTS = ("question", "answer", "reference", "context")


async def judge_in_all_ways(text: str, part: str) -> None:
    from ragstone.judge.offline import OfflineJudge
    from ragstone.judge.protocol import Call, JudgementFailed
    from ragstone.system.response import Context

    plain = "The house with the number 5 is red."
    question, answer, reference, context = (text if part == one else plain for one in PARTS)
    judge = OfflineJudge()
    contexts = [Context(context)]
    call = Call("s")
    statements = (await judge.statements("What?", plain, call=call)).statements
    with contextlib.suppress(JudgementFailed):
        statements = (await judge.statements(question, answer, call=call)).statements or statements
    for work in (
        judge.support(contexts, statements, call=call),
        judge.context_use(question, reference, answer, contexts, call=call),
        judge.context_use(question, None, answer, contexts, call=call),
        judge.reverse_questions(question, answer, n=3, call=call),
        judge.reference_match(question, reference, statements, answer, call=call),
        judge.context_relevance(question, contexts, call=call),
    ):
        with contextlib.suppress(JudgementFailed):
            await work


if __name__ == "__main__":
    asyncio.run(judge_in_all_ways(ODD[sys.argv[1]](int(sys.argv[2])), sys.argv[3]))
