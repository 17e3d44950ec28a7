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
    from ragstone.stats.losses import Change, p_values

    rng = np.random.Generator(np.random.PCG64(0))
    then = rng.beta(6, 1, size=(n, 4))
    now = np.where(rng.random((n, 1)) < 0.4, rng.beta(6, 1.05, size=(n, 4)), then)
    units = np.arange(n)
    tag = rng.integers(0, max(1, slices), size=n)
    floors, drops = [], []
    whole: dict[int, Change] = {}
    for part in (units, *(units[tag == one] for one in range(slices))):
        alike = np.zeros(len(part), dtype=np.bool_)
        for j in range(4):
            floors.append(Hypothesis("floor", now[part, j], part, 0.85))
            drops.append(
                Change(part, now[part, j : j + 1], then[part, j : j + 1], alike, part=j in whole, whole=whole.get(j))
            )
            whole.setdefault(j, drops[-1])
    started, cpu = time.perf_counter(), time.process_time()
    decide(floors)
    p_values(drops)
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
