"""Decides how many other processes judge, without importing what starts them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from ragstone.errors import ConfigError

MIN_ANSWERS = 500
"""Fewer answers are judged before worker processes have started."""

MAX_WORKERS = 16

_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def worker_count(workers: int | Literal["auto"], answers: int) -> int:
    """How many worker processes to judge so many answers with; 0 to judge in this
    process."""
    if workers != "auto":
        count = workers
    elif answers >= MIN_ANSWERS:
        count = min(usable_cores(), MAX_WORKERS)
    else:
        count = 1
    return count if count > 1 else 0


def usable_cores() -> int:
    """How many cores this process may use, by its affinity and the limit of its
    container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = os.cpu_count() or 1
    if affinity is not None:
        cores = len(affinity(0))
    try:
        quota, _, period = _CPU_LIMIT.read_text(encoding="ascii").strip().partition(" ")
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):  # "max" or no file: no limit
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
