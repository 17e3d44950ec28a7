"""The offline judge, with embeddings of a server for answer similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragstone.judge.judgements import AnswerSimilarity
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.judge.similarity import Similarity


class OfflineJudgeWithEmbeddings(OfflineJudge):
    """Compares answers with references by embeddings of `endpoint`; all else by words.

    `answer_similarity` raises JudgeError when the server can't be used any more.
    """

    def __init__(self, similarity: Similarity, endpoint: str | None = None) -> None:
        super().__init__()
        self._similarity = similarity
        self.identity = replace(
            self.identity, endpoint=endpoint, embeddings=similarity.label
        )

    async def close(self) -> None:
        await self._similarity.close()

    async def answer_similarity(
        self, answer: str, references: Sequence[str], *, call: Call
    ) -> AnswerSimilarity:
        if not references:
            return AnswerSimilarity(())
        cosines = await self._similarity.similarities(answer, references, call=call)
        return AnswerSimilarity(cosines)
