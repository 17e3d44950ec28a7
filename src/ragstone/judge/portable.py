"""What a judge is built from in another process: only for judges that need neither a
key nor a network."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.judge.fitted import FittedFile, FittedJudge
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Judge


@dataclass(frozen=True, slots=True)
class FittedTo:
    """The labels that a fitted judge was fitted to: its file's name, content and
    digest."""

    name: str
    file: FittedFile
    digest: str


@dataclass(frozen=True, slots=True)
class PortableJudge:
    """The offline judge, or the one that was fitted to labels."""

    fitted: FittedTo | None = None

    def build(self) -> Judge:
        """A judge that gives the same judgements."""
        offline = OfflineJudge()
        if self.fitted is None:
            return offline
        return FittedJudge(
            self.fitted.name, self.fitted.file, self.fitted.digest, offline
        )


def portable_judge(judge: Judge) -> PortableJudge | None:
    """What `judge` is built from; None if it needs a key or a network, or is the user's
    own."""
    if isinstance(judge, OfflineJudge):
        offline, fitted = judge, None
    elif isinstance(judge, FittedJudge):
        offline, fitted = judge.offline, FittedTo(judge.name, judge.file, judge.digest)
    else:
        return None
    own = (
        type(judge) not in (OfflineJudge, FittedJudge)
        or type(offline) is not OfflineJudge
    )
    return (
        None
        if own or offline.identity.embeddings is not None
        else PortableJudge(fitted)
    )
