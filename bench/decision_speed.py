"""Time and memory of one decision: `python bench/decision_speed.py`, each case in a separate process."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

CASES = {
    "4 metrics x 1,000 samples x 10 slices": (1_000, 10),
    "4 metrics x 100,000 samples": (100_000, 0),
    "4 metrics x 100,000 samples x 10 slices": (100_000, 10),
}


def decide_once(n: int, slices: int) -> tuple[float, float]:
    """Wall and CPU seconds to decide a floor and a drop on each of four metrics, over the whole and every slice."""
    from ragstone.stats.family import Hypothesis, decide

    rng = np.random.Generator(np.random.PCG64(0))
    scores = rng.beta(6, 1, size=(n, 4))
    change = np.where(rng.random((n, 1)) < 0.4, rng.normal(-0.01, 0.2, size=(n, 4)), 0.0).clip(-1.0, 1.0)
    units = np.arange(n)
    tag = rng.integers(0, max(1, slices), size=n)
    asked = []
    for part in (units, *(units[tag == one] for one in range(slices))):
        for j in range(4):
            asked.append(Hypothesis("floor", scores[part, j], part, 0.85))
            asked.append(Hypothesis("drop", change[part, j], part, -0.02, (-1.0, 1.0)))
    started, cpu = time.perf_counter(), time.process_time()
    decide(asked)
    return time.perf_counter() - started, time.process_time() - cpu


def main() -> None:
    if len(sys.argv) == 3:
        n, slices = map(int, sys.argv[1:])
        wall, cpu = decide_once(n, slices)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{wall:.2f} s, {cpu:.2f} s of CPU, peak {peak:.0f} MB")
        return
    for name, (n, slices) in CASES.items():
        command = [sys.executable, __file__, str(n), str(slices)]
        print(f"{name}: {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()}")


if __name__ == "__main__":
    main()
