"""Time and memory of the offline judge: ``python bench/offline_judge.py [SAMPLES]``.

Prints CPU milliseconds per sample (5 contexts of 120 words, an answer and a reference of 3 sentences; the four headline
judgements), samples per second on one core, the same for samples seen before, and how memory grows with the number of
samples. Texts are made of invented words
with a Zipf-like distribution and a fixed seed, so that caches work no better than on real text.
"""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import time

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import JudgementKind
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.system.response import Context, Response

HEADLINE = frozenset(
    {JudgementKind.STATEMENTS, JudgementKind.SUPPORT, JudgementKind.CONTEXT_USE, JudgementKind.REVERSE_QUESTIONS}
)
EVERYTHING = frozenset(JudgementKind)
CONTEXTS = 5
CORPUS = 100
CONTEXT_WORDS = 120
FUNCTION = ("the", "of", "and", "to", "in", "a", "is", "was", "for", "on", "with", "by", "that", "it", "as", "at")


def words(draw: random.Random, count: int) -> list[str]:
    """`count` words: two in five are function words, the rest invented, common ones more often."""
    return [
        draw.choice(FUNCTION) if draw.random() < 0.4 else f"w{'aeiou'[number % 5]}r{number:x}k"
        for number in (int(draw.paretovariate(0.7)) % 50_000 for _ in range(count))
    ]


def text(draw: random.Random, count: int) -> str:
    """Sentences of some fifteen words."""
    found = words(draw, count)
    return " ".join(" ".join(found[start : start + 15]).capitalize() + "." for start in range(0, count, 15))


def sample(number: int) -> tuple[Sample, Response]:
    draw = random.Random(number)
    contexts = tuple(Context(text(draw, CONTEXT_WORDS)) for _ in range(CONTEXTS))
    answer = ". ".join(context.text.split(". ")[1] for context in contexts[:3]) + "."
    reference = ". ".join(context.text.split(". ")[2] for context in contexts[:3]) + "."
    question = f"What is {' '.join(words(draw, 8))}?"
    return Sample(str(number), question, reference=reference), Response(str(number), answer, contexts)


async def judge_all(judge: OfflineJudge, count: int, needs: frozenset[JudgementKind]) -> float:
    """CPU seconds spent judging, without generating the texts."""
    spent = 0.0
    for number in range(count):
        one, response = sample(number)
        start = time.process_time()
        await collect_judgements(judge, one, response, needs, Call(one.id))
        spent += time.process_time() - start
    return spent


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def main(count: int) -> None:
    judge = OfflineJudge()
    asyncio.run(judge_all(judge, 50, EVERYTHING))
    before = peak_mb()
    for name, needs in (("four headline judgements", HEADLINE), ("all six judgements", EVERYTHING)):
        each = asyncio.run(judge_all(judge, count, needs)) / count
        print(f"{name}: {each * 1e3:.2f} ms of CPU a sample, {1 / each:.0f} samples a second and core")
    asyncio.run(judge_all(judge, CORPUS, HEADLINE))
    known = asyncio.run(judge_all(judge, CORPUS, HEADLINE)) / CORPUS
    print(f"four headline judgements, contexts that were seen before: {known * 1e3:.2f} ms of CPU a sample")
    middle = peak_mb()
    asyncio.run(judge_all(judge, 4 * count, HEADLINE))
    print(f"peak memory: {before:.0f} MB warm, {middle:.0f} MB after {2 * count}, {peak_mb():.0f} MB after {6 * count}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
