"""The engine's own cost per sample: recorded answers through the offline judge, compared with the judge alone.

    python bench/engine.py --samples 1000 --samples 100000

Prints one JSON line for each size: seconds, milliseconds per sample, peak memory of the process, and the ratio of the
whole run to its floor, which is the offline judge called in a bare loop over the same samples, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

WORDS = [
    f"{a}{b}" for a in ("red", "old", "wide", "calm", "north", "deep") for b in ("bridge", "river", "mill", "gate")
]


@dataclass(frozen=True)
class Figures:
    wall_s: float
    cpu_s: float
    peak_mib: float


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


def _measured(job: Callable[[Path], None], folder: Path, results: multiprocessing.Queue[Figures]) -> None:
    started, used = perf_counter(), process_time()
    job(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 * (1024 if sys.platform == "darwin" else 1))
    results.put(Figures(perf_counter() - started, process_time() - used, peak))


def measure(job: Callable[[Path], None], folder: Path) -> Figures:
    """Run `job` in a fresh process, so that its memory is its own."""
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Figures] = context.Queue()
    process = context.Process(target=_measured, args=(job, folder, results))
    process.start()
    figures = results.get()
    process.join()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, action="append")
    for n in parser.parse_args().samples or [1000]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_world(folder, n)
            floor, run = measure(judge_alone, folder), measure(whole_run, folder)
        print(
            json.dumps(
                {
                    "samples": n,
                    "run_wall_s": round(run.wall_s, 2),
                    "run_ms_a_sample": round(1000 * run.cpu_s / n, 2),
                    "run_peak_mib": round(run.peak_mib),
                    "judge_alone_ms_a_sample": round(1000 * floor.cpu_s / n, 2),
                    "ratio_cpu": round(run.cpu_s / floor.cpu_s, 2),
                }
            )
        )


if __name__ == "__main__":
    main()
