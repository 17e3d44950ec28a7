"""Whether other processes judge, and how many: decided without loading what starts
them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from ragstone.errors import ConfigError

MIN_ANSWERS = 500
"""Fewer are judged sooner than worker processes have started."""

MAX_WORKERS = 16

_CGROUP = Path("/sys/fs/cgroup/cpu.max")


def worker_count(workers: int | Literal["auto"], answers: int) -> int:
    """How many worker processes to judge so many answers with; 0: none, this process
    does it."""
    if workers != "auto":
        return 0 if workers == 1 else workers
    cores = usable_cores()
    return min(cores, MAX_WORKERS) if cores > 1 and answers >= MIN_ANSWERS else 0


def usable_cores() -> int:
    """The cores that this process may use: those of the machine, its affinity, and the
    limit of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = os.cpu_count() or 1
    if affinity is not None:
        cores = len(affinity(0))
    try:
        quota, _, period = _CGROUP.read_text(encoding="ascii").strip().partition(" ")
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max": no limit
        return cores


def refuse_without_dask() -> None:
    """Raise ConfigError if Dask is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ConfigError(
            "run.dask needs the package 'distributed', which is not installed.",
            where="run.dask",
            hint='Run: pip install "ragstone[dask]"',
        ) from None
