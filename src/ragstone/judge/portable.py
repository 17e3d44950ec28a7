"""Builds a judge again in another process, if it needs neither a key nor a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ragstone.judge.fitted import FittedJudge
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Judge

PortableJudge = Callable[[], Judge]
"""Builds a judge that gives the same judgements in any process."""


def portable_judge(judge: Judge) -> PortableJudge | None:
    """A function that builds `judge` in any process; None if it may need a key or a
    network, or is the user's own."""
    if type(judge) is OfflineJudge:
        return OfflineJudge
    if type(judge) is FittedJudge:
        return partial(FittedJudge, judge.name, judge.file, judge.digest)
    return None
