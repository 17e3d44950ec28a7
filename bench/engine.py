"""The engine's own cost per sample: recorded answers through the offline judge, compared with the judge alone.

    python bench/engine.py --samples 1000 --samples 100000

Prints a table: the whole run, and its floor, which is the offline judge called in a bare loop over the same samples.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from pathlib import Path

from processes import run

WORDS = [
    f"{a}{b}" for a in ("red", "old", "wide", "calm", "north", "deep") for b in ("bridge", "river", "mill", "gate")
]


def write_world(folder: Path, n: int) -> None:
    """A golden set of `n` samples and recorded answers: 5 contexts of 120 words, 60 of answer, 40 of reference."""
    chance = random.Random(7)

    def text(words: int) -> str:
        sentences = [" ".join(chance.choices(WORDS, k=12)).capitalize() + "." for _ in range(words // 12)]
        return " ".join(sentences)

    with (folder / "golden.jsonl").open("w") as golden, (folder / "out.jsonl").open("w") as out:
        for i in range(n):
            contexts = [text(120) for _ in range(5)]
            golden.write(
                json.dumps({"id": f"q{i}", "question": f"Where is {WORDS[i % 24]} {i}?", "reference": text(40)})
            )
            golden.write("\n")
            out.write(json.dumps({"id": f"q{i}", "answer": contexts[0][:250] + ". " + text(24), "contexts": contexts}))
            out.write("\n")


def whole_run(folder: Path) -> None:
    """The work of `ragstone run`, in this process."""
    from ragstone.evaluation.rounds.context import RunContext
    from ragstone.pipeline.run import evaluate_run
    from ragstone.pipeline.run_plan import run_plan
    from ragstone.settings.load import load_settings

    settings = load_settings(
        directory=folder,
        environ={},
        overrides={
            "golden.paths": (str(folder / "golden.jsonl"),),
            "system.entrypoint": f"file:{folder / 'out.jsonl'}",
            "run.out": str(folder / "run"),
        },
    )
    context = RunContext(environ={})
    asyncio.run(evaluate_run(run_plan(settings, context), context))


def judge_alone(folder: Path) -> None:
    """The floor: the same judgements in a bare loop; nothing is asked, scored, or written."""
    from ragstone.evaluation.scoring import needed_judgements
    from ragstone.golden.load import load_golden_set
    from ragstone.judge.collect import collect_judgements
    from ragstone.judge.offline import OfflineJudge
    from ragstone.judge.protocol import Call
    from ragstone.metrics.registry import select_metrics
    from ragstone.system.response import Context, Response

    golden = load_golden_set([folder / "golden.jsonl"])
    judge = OfflineJudge()
    metrics = select_metrics()

    async def loop() -> None:
        with (folder / "out.jsonl").open() as lines:
            for sample, line in zip(golden, lines, strict=True):
                found = json.loads(line)
                response = Response(sample.id, found["answer"], tuple(Context(text) for text in found["contexts"]))
                await collect_judgements(judge, sample, response, needed_judgements(metrics, sample), Call(sample.id))

    asyncio.run(loop())


STEPS = {"judge": judge_alone, "run": whole_run}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, action="append")
    parser.add_argument("--step", choices=STEPS, help="do this alone, in the folder that is named")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.step is not None:
        STEPS[options.step](options.folder)
        return
    print("| samples | step | CPU per sample | wall | peak memory |\n|---|---|---|---|---|")
    for n in options.samples or [1000]:
        with tempfile.TemporaryDirectory() as folder:
            write_world(Path(folder), n)
            for step in STEPS:
                finished = run([sys.executable, __file__, "--step", step, "--folder", folder], Path(folder))
                cells = f"{1000 * finished.cpu_s / n:.2f} ms | {finished.wall_s:.1f} s | {finished.peak_mib:.0f} MiB"
                print(f"| {n:,} | {step} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
