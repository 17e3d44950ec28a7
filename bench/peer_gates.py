"""What other gates decide by their defaults, on the changes of bench/losses.py.

    pip install statgate==0.1.1 evalproof==0.2.1
    python bench/peer_gates.py                  # the table of docs/statistics.md
    python bench/peer_gates.py --runs 100 --n 80

Each compares two runs, one answer to each question, in each of the four metrics. A change fails if any metric fails,
and passes if all do. statgate (margin .02, 95 % interval) and evalproof (a drop of .02, p < .05) are called as
packages. The rule of NeMo Evaluator's `compare` is written here after its documentation: an exact one-sided McNemar
test at .05 of the answers that flipped, where a score of at least .5 is a right answer.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from evalproof.compare import compare_runs
from evalproof.config import GateConfig
from evalproof.gate import decide
from evalproof.models import CaseResult, Run, RunInfo, Score, SystemOutput
from losses import KINDS, METRICS, RENEWED, SCORES, Kind, System
from numpy.typing import NDArray
from scipy.stats import binomtest
from statgate.config import GateSettings
from statgate.records import EvalRecord
from statgate.verdict import Verdict, evaluate_gate

Floats = NDArray[np.float64]

RIGHT = 0.5
"""A score from here on is a right answer, where a gate knows right and wrong only."""
ALPHA = 0.05


def mcnemar(then: Floats, now: Floats) -> str:
    """The verdict on one metric by the flips of right and wrong answers."""
    lost = int(np.sum((then >= RIGHT) & (now < RIGHT)))
    won = int(np.sum((then < RIGHT) & (now >= RIGHT)))
    if lost + won == 0:
        return "pass"
    p = binomtest(lost, lost + won, alternative="greater").pvalue
    return "fail" if p < ALPHA else "pass"


def statgate(then: Floats, now: Floats) -> str:
    """The verdict of statgate on one metric."""
    records = [[EvalRecord(case_id=str(i), score=float(x)) for i, x in enumerate(side)] for side in (then, now)]
    verdict = evaluate_gate(*records, GateSettings(seed=0)).verdict
    return {Verdict.SHIP: "pass", Verdict.BLOCK: "fail"}.get(verdict, "inconclusive")


def evalproof(then: Floats, now: Floats) -> str:
    """The verdict of evalproof on one metric."""
    before, after = (_run_of(side) for side in (then, now))
    comparison = compare_runs(before, after, alpha=ALPHA)
    decision = decide(comparison, GateConfig(metric="score"))
    return {0: "pass", 1: "fail"}.get(decision.exit_code, "inconclusive")


def _run_of(scores: Floats) -> Run:
    info = RunInfo.model_construct(dataset_hash="", system="", suite="")
    output = SystemOutput.model_construct(error=None, latency_ms=1.0, cost_usd=0.0, cached=False)
    results = [
        CaseResult.model_construct(case_id=str(i), tags=[], output=output, scores={"score": Score(value=float(x))})
        for i, x in enumerate(scores)
    ]
    return Run.model_construct(info=info, results=results)


GATES: dict[str, Callable[[Floats, Floats], str]] = {
    "NeMo compare": mcnemar,
    "statgate": statgate,
    "evalproof": evalproof,
}


def verdicts(kind: Kind, n: int, scores: str, seed: int) -> dict[str, str]:
    """What each gate says of one change."""
    rng = np.random.default_rng((seed, n, KINDS.index(kind)))
    system = System(n, rng, RENEWED, SCORES[scores])
    for _ in range(10):
        system.ask()
    then = system.ask().scores
    system.change(kind)
    now = system.ask().scores
    decided = {}
    for name, gate in GATES.items():
        by_metric = [gate(then[:, metric], now[:, metric]) for metric in range(len(METRICS))]
        undecided = "inconclusive" if "inconclusive" in by_metric else "pass"
        decided[name] = "fail" if "fail" in by_metric else undecided
    return decided


def row(case: tuple[int, str, Kind], runs: int) -> str:
    """The shares of one kind of change."""
    n, scores, kind = case
    decided = [verdicts(kind, n, scores, seed) for seed in range(runs)]
    cells = []
    for name in GATES:
        shares = [float(np.mean([each[name] == verdict for each in decided])) for verdict in ("fail", "inconclusive")]
        cells.append(" / ".join(f"{share:.3f}".removeprefix("0") for share in shares))
    return f"| {n} | {scores} | {kind.name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="changes a row")
    parser.add_argument("--n", type=int, nargs="+", default=[20, 80, 200])
    parser.add_argument("--scores", nargs="+", choices=tuple(SCORES), default=["graded"])
    parser.add_argument("--kinds", type=int, nargs="+", default=range(len(KINDS)), help="rows, counted from 0")
    options = parser.parse_args()
    kinds = [KINDS[index] for index in options.kinds if not KINDS[index].tagged]
    print(f"| n | scores | change | {' | '.join(GATES)} |\n| --- | --- | --- |{' --- |' * len(GATES)}")
    with ProcessPoolExecutor() as pool:
        for line in pool.map(partial(row, runs=options.runs), itertools.product(options.n, options.scores, kinds)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
