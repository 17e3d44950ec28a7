"""The embedded offline judge: lexical means only, no key, no download, the same verdict every time."""

from ragstone.judge.offline.judge import OfflineJudge

__all__ = ["OfflineJudge"]
