"""Bounded HTTP replies: the body is measured as it arrives, and is never
decompressed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

UNCOMPRESSED: Mapping[str, str] = {"Accept-Encoding": "identity"}
"""Headers that ask for an uncompressed reply, the only kind that `bound_reply` lets
through."""


class ReplyTooLarge(httpx2.TransportError):
    """The body of a reply is too large.

    An error of httpx2, so that the SDKs of LLM providers handle it like a failed
    transfer. `reason` is the size as a phrase: "more than 100 bytes".
    """

    def __init__(self, max_bytes: int) -> None:
        self.reason = f"more than {max_bytes:,} bytes"
        super().__init__(self.reason)


def bound_reply(reply: httpx2.Response, max_bytes: int) -> None:
    """Make reading the body of `reply` raise ReplyTooLarge beyond `max_bytes`.

    Call it before the body is read. A compressed body, which was not requested, raises
    httpx2.DecodingError.
    """
    encoding = reply.headers.get("content-encoding", "identity").strip().lower()
    if isinstance(reply.stream, httpx2.AsyncByteStream):
        reply.stream = _BoundedStream(reply.stream, encoding, max_bytes)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, encoding: str, max_bytes: int
    ) -> None:
        self._stream = stream
        self._encoding = encoding
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in ("", "identity"):
            raise httpx2.DecodingError(
                f"the body is packed as '{self._encoding[:80]}', which was not requested"
            )
        received_bytes = 0
        async for chunk in self._stream:
            received_bytes += len(chunk)
            if received_bytes > self._max_bytes:
                raise ReplyTooLarge(self._max_bytes)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
