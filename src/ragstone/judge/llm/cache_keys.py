"""Under which keys an LLM judge's replies are cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ragstone.judge.llm.replies import READING
from ragstone.judge.protocol import JudgeIdentity

_FORMAT = f"ragstone-judgement-{READING}"


class CacheKeys:
    """Cache keys of one judge: its identity, the form, the content and the repeat."""

    def __init__(self, identity: JudgeIdentity) -> None:
        # Not the version, which hashes all prompts: editing one prompt leaves the
        # others' entries valid.
        who = [
            _FORMAT,
            identity.provider,
            identity.endpoint,
            identity.model,
            list(identity.parameters),
        ]
        self._start = hashlib.sha256(json.dumps(who).encode())

    def key(
        self, digest: str, content: Sequence[str], *, repeat: int | None = None
    ) -> bytes:
        """SHA-256 over the judge, the form's digest, all texts that the judgement
        reads, and the repeat number.

        Lengths are hashed with the texts, so that different contents never give the
        same bytes.
        """
        whole = self._start.copy()
        whole.update(
            f"\0{digest}\0{'-' if repeat is None else repeat}\0{len(content)}".encode()
        )
        for text in content:
            data = text.encode("utf-8", "surrogatepass")
            whole.update(f"\0{len(data)}:".encode())
            whole.update(data)
        return whole.digest()
