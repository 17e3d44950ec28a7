"""The page of a long history: its size, and how long it takes to write, to open, to hover, to show all, and to compare.

    python bench/history_page.py                 # 2,000 runs

The history is synthetic: 4 metrics and 10 slices, scores of 200 samples, in steps of 1/60, for the newest quarter of
the runs. It isn't cut to the size that `ragstone gate` keeps. "To open" is from the navigation, in headless Chromium
and from a file, until the first chart is drawn with the newest 300 runs; "all runs" is from the choice of all runs
until the charts in view are drawn; "hover" is the script's time for one move of the pointer with all runs; "slices"
until the charts of slices in view are drawn; "compare" until five versions are side by side, with 16 paired tests and
the table of samples.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the driver of the browser and the histories are the tests'

from ragstone.gate.policy import policy_from_mapping
from ragstone.tools.history_page.page import history_page, render_history
from tests.report.browser import Page, chromium, find_chromium
from tests.tools.history_page.histories import made

POLICY = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.8}}})
MOVES = 200
HOVER = f"""(() => {{
  const plot = document.querySelector('.plot'), box = plot.getBoundingClientRect(), took = [];
  for (let at = 0; at < {MOVES}; at++) {{
    const start = performance.now();
    plot.dispatchEvent(new PointerEvent('pointermove', {{ clientX: box.left + 70 + at * (box.width - 90) / {MOVES}, clientY: box.top + 50 }}));
    plot.getBoundingClientRect();
    took.push(performance.now() - start);
  }}
  return took;
}})()"""  # noqa: E501


def until(page: Page, condition: str) -> None:
    while not page.run(condition):
        time.sleep(0.005)


def timed(page: Page, script: str, condition: str) -> float:
    started = time.perf_counter()
    page.run(script)
    until(page, condition)
    return time.perf_counter() - started


def measure(path: Path, runs: int) -> None:
    with chromium() as page:
        page.size(1400, 1000)
        started = time.perf_counter()
        page.open(path)
        until(page, "document.documentElement.dataset.ready && document.querySelector('.plot svg') !== null")
        opened = time.perf_counter() - started
        choose = "(box => { box.value = box.lastElementChild.value; box.dispatchEvent(new Event('change')); })"
        shown = f"document.querySelector('.plot').getAttribute('aria-valuemax') === '{runs}'"
        everything = timed(page, f"{choose}(document.getElementById('range'))", shown)
        hover = page.run(HOVER)
        slices = timed(
            page,
            "document.querySelector('.slices').open = true; document.querySelector('.slices').scrollIntoView()",
            "document.querySelectorAll('.slices .plot svg').length >= 4",
        )
        page.run("document.getElementById('by').value = 'run'")
        page.run("document.getElementById('by').dispatchEvent(new Event('change'))")
        until(page, "document.querySelector('#versions input')?.id.startsWith('version-run-')")
        for at in (0, 20, 40, 60):
            page.run(f"document.querySelectorAll('#versions input')[{at}].click()")
            time.sleep(0.5)
        compare = timed(
            page,
            "document.querySelectorAll('#versions input')[80].click()",
            "document.querySelectorAll('#means thead th').length === 6 && "
            "document.getElementById('result').dataset.ready === 'yes'",
        )
        assert not page.complaints, page.complaints
    print(
        f"| {opened:.2f} s | {1000 * everything:.0f} ms | {statistics.median(hover):.1f} ms, {max(hover):.1f} ms "
        f"| {1000 * slices:.0f} ms | {1000 * compare:.0f} ms |"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    options = parser.parse_args(argv)
    history = made(options.runs, samples=200, slices=10, exact=False, kept=options.runs // 4, steps=60)
    started = time.perf_counter()
    text = render_history(history_page(history, POLICY))
    print(f"{options.runs:,} runs: history {len(history.text()) / 1e6:.1f} MB, page {len(text) / 1e6:.1f} MB, ", end="")
    print(f"written in {time.perf_counter() - started:.1f} s; load average {os.getloadavg()[0]:.1f}")
    if find_chromium() is None:
        print("no Chromium on the PATH")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.html"
        path.write_text(text, encoding="utf-8")
        print("| to open | all runs | hover: median, most | slices | compare |")
        print("|---|---|---|---|---|")
        for _ in range(3):
            measure(path, options.runs)


if __name__ == "__main__":
    main()
