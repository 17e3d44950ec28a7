"""What a judge is built from in another process: only for judges that need neither a
key nor a network."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.judge.fitted import FittedFile, FittedJudge
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Judge


@dataclass(frozen=True, slots=True)
class PortableJudge:
    """The offline judge, or the one that was fitted to labels: its file's name, content
    and digest."""

    fitted: tuple[str, FittedFile, str] | None = None

    def build(self) -> Judge:
        """A judge that gives the same judgements."""
        offline = OfflineJudge()
        return FittedJudge(*self.fitted, offline) if self.fitted else offline


def portable_judge(judge: Judge) -> PortableJudge | None:
    """What `judge` is built from; None if it needs a key or a network, or is the user's
    own."""
    fitted, offline = None, judge
    if type(judge) is FittedJudge:
        fitted, offline = (judge.name, judge.file, judge.digest), judge.offline
    return PortableJudge(fitted) if type(offline) is OfflineJudge else None
