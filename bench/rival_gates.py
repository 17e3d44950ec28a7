"""Other ways to gate on the same scores: each says for (n, 4) scores of two runs whether it would fail the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Groups = NDArray[np.int64] | None

EVALSIG_RESAMPLES = 1000


def bare_mean(baseline: Floats, current: Floats, groups: Groups) -> dict[str, bool]:
    """Fails when the mean of any metric is lower; with a tolerance, when it is lower by more than 0.02."""
    change = (current - baseline).mean(axis=0)
    return {"bare mean": bool(np.any(change < -1e-12)), "tolerance .02": bool(np.any(change < -0.02 - 1e-12))}


def evalsig(baseline: Floats, current: Floats, groups: Groups) -> dict[str, bool]:
    """evalsig's `compare` on each metric as it ships (method "auto", two-sided): alone, and with its Holm."""
    from evalsig.compare.compare import compare
    from evalsig.inference.multiplicity import holm

    results = [
        compare(
            _frame(baseline[:, j], "baseline", groups),
            _frame(current[:, j], "current", groups),
            cluster=None if groups is None else "group",
            n_resamples=EVALSIG_RESAMPLES,
        )
        for j in range(baseline.shape[1])
    ]
    lower = np.array([result.delta < 0.0 for result in results])
    alone = np.array([result.significant for result in results])
    corrected = holm(np.array([result.p_value for result in results])).reject
    return {"evalsig": bool(np.any(lower & alone)), "evalsig, Holm": bool(np.any(lower & corrected))}


def _frame(scores: Floats, run: str, groups: Groups) -> Any:
    from evalsig.types import ItemResult, RunFrame

    items = [
        ItemResult(f"{i:05d}", float(score), None if groups is None else str(groups[i]))
        for i, score in enumerate(scores)
    ]
    return RunFrame(run, run, "task", "metric", items)


def deltagate(baseline: Floats, current: Floats, groups: Groups) -> dict[str, bool]:
    """deltagate's paired test on each metric (clustered where there are groups) with its Holm correction."""
    from deltagate.multiplicity import holm_bonferroni
    from deltagate.paired import paired_delta

    clusters = None if groups is None else groups.tolist()
    results = [
        paired_delta(current[:, j].tolist(), baseline[:, j].tolist(), clusters=clusters)
        for j in range(baseline.shape[1])
    ]
    rejected = holm_bonferroni([result["p_value"] for result in results]).rejected
    return {
        "deltagate, Holm": any(
            reject and result["delta"] < 0.0 for reject, result in zip(rejected, results, strict=True)
        )
    }


def available() -> dict[str, Callable[[Floats, Floats, Groups], dict[str, bool]]]:
    """The rivals that are installed here (`bench` dependency group)."""
    found: dict[str, Callable[[Floats, Floats, Groups], dict[str, bool]]] = {"bare_mean": bare_mean}
    for name, rival in (("evalsig", evalsig), ("deltagate", deltagate)):
        try:
            __import__(name)
        except ImportError:
            print(f"{name} is not installed: left out (uv pip install --group bench)")
        else:
            found[name] = rival
    return found
