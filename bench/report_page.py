"""The HTML report of a large run: how long it takes to write and to open, and its size.

    python bench/report_page.py                  # 5,000 samples
    python bench/report_page.py --samples 50000

Both runs are synthetic: 5 contexts of 100 words, an answer of 60, a reference of 40; in the second run, one answer in
three and one context in five differ. "To open" is from the navigation to the table with all samples, in headless
Chromium, from a file; "to open a sample" from the click to its texts.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the driver of the browser is the tests'

from ragstone.golden.sample import Origin, Sample
from ragstone.judge.judgements import Judgements, Statement, StatementList, Support, SupportTable, Verdict
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Scored
from ragstone.run.directory import SAMPLES, RunDirectory
from ragstone.run.manifest import Counts, GoldenManifest, Manifest, SystemManifest
from ragstone.run.record import Answer, SampleRecord
from ragstone.run.serialise import record_to_line
from ragstone.run.writer import write_manifest
from ragstone.system.response import Context, Response

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision", "answer_correctness")
OPENED = "document.getElementById('samples')?.dataset.ready === 'yes'"


def write_run(folder: Path, n: int, *, new: bool) -> None:
    """A run of `n` samples; the second one (`new`) differs in a part of its answers and contexts."""
    common, own = random.Random(1), random.Random(2)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(common.choices(letters, k=common.randint(2, 10))) for _ in range(8000)]
    weights = [1 / rank for rank in range(1, 8001)]

    def words(count: int, source: random.Random = common) -> str:
        return " ".join(source.choices(vocabulary, weights, k=count)) + "."

    folder.mkdir(parents=True)
    with (folder / SAMPLES).open("w", encoding="utf-8") as out:
        for number in range(n):
            sample = Sample(
                f"q{number:06}", words(12), words(40), tags=(f"topic-{number % 40}",), origin=Origin("g.jsonl", number)
            )
            contexts = [Context(words(100), f"doc-{number}-{rank}") for rank in range(5)]
            answer = words(60)
            if new and number % 3 == 0:
                answer = answer[: len(answer) // 2] + words(30, own)
            if new:
                contexts[own.randrange(5)] = Context(words(100, own), f"other-{number}")
            verdicts = [Verdict.SUPPORTED if own.random() < 0.8 else Verdict.UNSUPPORTED for _ in range(4)]
            statements = tuple(Statement(f"s{at}", words(14)) for at in range(4))
            supports = tuple(Support(f"s{at}", verdict, ("c1",)) for at, verdict in enumerate(verdicts))
            judged = Judgements(statements=StatementList(statements, abstains=False), support=SupportTable(supports))
            scores = {name: Scored(round(own.betavariate(6, 1), 4)) for name in METRICS}
            response = Response(sample.id, answer, tuple(contexts), latency_s=0.4)
            record = SampleRecord(sample, (Answer(response, (judged,), scores, {}),), scores)
            out.write(record_to_line(record) + "\n")
    write_manifest(
        folder,
        Manifest(
            ragstone_version="0",
            state="finished",
            created_at=f"2026-11-2{int(new)}T00:00:00+00:00",
            golden=GoldenManifest(files=("g.jsonl",), content_hash="0" * 64, samples=n),
            judge=JudgeIdentity(provider="scripted", model="none", version="1"),
            system=SystemManifest(entrypoint="python:bench:answer"),
            metrics=dict.fromkeys(METRICS, "1"),
            counts=Counts(scored=n),
        ),
    )


def write_report(folder: Path) -> None:
    """Decide, and write the page as the gate does. Prints what it took."""
    from ragstone.app.decide import ComparedRun, Terms, decide, view_of
    from ragstone.app.page import page_of, read_page, write_page
    from ragstone.gate.policy import policy_from_mapping
    from ragstone.report.render import render
    from ragstone.run.redact import Redactor

    policy = policy_from_mapping({"metrics": {name: {"min": 0.7, "max_drop": 0.1} for name in METRICS}})
    run = RunDirectory.open(folder / "now")
    now, then = ComparedRun.of(run), ComparedRun.of(RunDirectory.open(folder / "then"))
    verdict = decide(now, Terms.of(policy, then, now.day))
    redact = Redactor(["sk-a-secret-that-is-nowhere-0123456789"])
    view = redact.view(view_of(now, verdict, then))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.perf_counter()
    write_page(run, page_of(now, verdict, then, redact))
    packed = time.perf_counter() - started
    streamed = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (folder / "report.html").write_text(render(view, "html", page=read_page(run)), encoding="utf-8")
    written = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"to pack {packed:.1f} s, to pack and write {written:.1f} s; ", end="")
    print(f"peak {before:.0f} MB for the verdict, {streamed:.0f} MB when packed, {after:.0f} MB when written; ", end="")
    print(f"{(folder / 'report.html').stat().st_size / 1e6:.1f} MB", flush=True)


def open_report(folder: Path, times: int = 3) -> None:
    """Open the page and its last sample `times` times. Prints the seconds."""
    from tests.report.browser import chromium, find_chromium

    if find_chromium() is None:
        print("no Chromium on the PATH")
        return
    pages, samples = [], []
    for _ in range(times):
        with chromium() as page:
            page.size(1400, 1000)
            started = time.perf_counter()
            page.open(folder / "report.html")
            while not page.run(OPENED):
                time.sleep(0.005)
            pages.append(time.perf_counter() - started)
            started = time.perf_counter()
            page.run("[...document.querySelectorAll('button.open')].pop().click()")
            while not page.run("document.querySelector('.sample') !== null"):
                time.sleep(0.005)
            samples.append(time.perf_counter() - started)
            assert not page.complaints, page.complaints
    print("to open " + ", ".join(f"{one:.2f} s" for one in pages), end="; ")
    print("to open a sample " + ", ".join(f"{1000 * one:.0f} ms" for one in samples))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.folder is not None:
        write_report(options.folder)
        return
    folder = Path(tempfile.mkdtemp(prefix="ragstone-bench-"))
    try:
        write_run(folder / "then", options.samples, new=False)
        write_run(folder / "now", options.samples, new=True)
        size = sum((folder / name / SAMPLES).stat().st_size for name in ("then", "now"))
        print(f"{options.samples:,} samples, both runs {size / 1e6:.0f} MB", flush=True)
        subprocess.run([sys.executable, __file__, "--folder", str(folder)], check=True)
        open_report(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
