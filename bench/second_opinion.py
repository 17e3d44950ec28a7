"""How often the offline judge is sure, and right: ``python bench/second_opinion.py [DATA_DIR]``.

Single statements with people's labels, as in `cascade.py`, which it shares the data with. Prints for each data set on
how many the offline judge is sure (`reliability.sure`), how many of these verdicts people don't share, and last how
long `doubts_of` takes for 500 samples with five of 1,000 passages of 120 words and four statements each.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from cascade import FILES, labelled
from data_sets import data_folder
from labelled_sets import HARD_CASES

from ragstone.app.second_opinion import doubts_of
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import Judgements, Statement, StatementList, Support, SupportTable, Verdict
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.reliability import sure
from ragstone.judge.protocol import Call, JudgeIdentity, JudgementFailed
from ragstone.metrics.score import Scored
from ragstone.run.directory import RunDirectory
from ragstone.run.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.run.record import Answer, SampleRecord
from ragstone.run.writer import RunWriter
from ragstone.system.response import Context, Response

SAMPLES, PASSAGES = 500, 1_000
DOCS = Path(__file__).parents[1] / "docs"


async def measure(path: Path) -> tuple[int, list[bool], list[bool]]:
    """How many statements there are, and for those that the judge is sure of (supported, and not) if it is right."""
    judge, call, all_of = OfflineJudge(), Call("second opinion"), 0
    right: tuple[list[bool], list[bool]] = ([], [])
    for case, supported, _ in labelled(path):
        try:
            listed = await judge.statements(case.question, case.answer, call=call)
            if len(listed.statements) != 1:
                continue
            opinion = judge.supports([Context(text) for text in case.contexts], listed.statements).supports[0]
        except JudgementFailed:
            continue
        all_of += 1
        if sure(opinion, listed.statements[0].text, case.contexts):
            found = opinion.verdict is Verdict.SUPPORTED
            right[not found].append(found is supported)
    return all_of, *right


def main(data: Path) -> None:
    print("| data | statements | sure: supported | of these wrong | sure: not supported | of these wrong |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, path in {**{one: data / file for one, file in FILES.items()}, "hard cases": HARD_CASES}.items():
        count, yes, no = asyncio.run(measure(path))
        print(f"| {name} | {count} | {len(yes)} | {yes.count(False)} | {len(no)} | {no.count(False)} |")
    with tempfile.TemporaryDirectory() as folder:
        run = stored(Path(folder) / "run")
        run.scores()
        start = time.process_time()
        found = len(list(doubts_of(run)))
        print(f"\n{found} doubts in {SAMPLES} samples of 4 statements: {time.process_time() - start:.2f} s of CPU")


def stored(path: Path) -> RunDirectory:
    """A run that a language model judged: passages of the docs, and answers of their words, one in four invented."""
    words = " ".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))).split()
    rng = random.Random(0)
    corpus = [rng.randrange(len(words) - 120) for _ in range(PASSAGES)]
    judge = JudgeIdentity(provider="openai", model="m", version="1")
    manifest = Manifest(
        ragstone_version="1",
        state="running",
        created_at="2026-11-21T00:00:00+00:00",
        golden=GoldenManifest(files=("golden.jsonl",), content_hash="", samples=SAMPLES),
        judge=judge,
        system=SystemManifest(entrypoint="app:answer"),
        metrics={"faithfulness": "1"},
    )
    writer, ids = RunWriter.create(path, manifest), []
    for number in range(SAMPLES):
        starts = rng.sample(corpus, 5)
        contexts = tuple(Context(" ".join(words[start : start + 120])) for start in starts)
        said = [" ".join(words[start + 20 : start + 32]) for start in starts[:3]]
        said.append(" ".join(rng.choice(words) for _ in range(12)))
        listed = tuple(Statement(f"s{rank}", text) for rank, text in enumerate(said, 1))
        table = SupportTable(tuple(Support(one.id, Verdict.SUPPORTED, ("c1",)) for one in listed))
        sample = Sample(f"q{number}", "What do the docs say?")
        judged = Judgements(statements=StatementList(listed, abstains=False), support=table)
        answer = Answer(Response(sample.id, ". ".join(said), contexts), (judged,), {"faithfulness": Scored(1.0)})
        writer.append(SampleRecord(sample, (answer,), answer.scores))
        ids.append(sample.id)
    return writer.finish(ids, wall_s=1.0)


if __name__ == "__main__":
    main(data_folder(FILES.values(), *sys.argv[1:2]))
