"""The built-in offline judge: lexical methods only, no key, no download, always the
same verdict."""

from ragstone.judge.offline.judge import OfflineJudge

__all__ = ["OfflineJudge"]
