"""Bounded HTTP replies: the body is measured as it arrives, and is never unpacked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

ACCEPTED: Mapping[str, str] = {"Accept-Encoding": "identity"}
"""Headers for a request whose reply `bound_reply` can read."""


class ReplyTooLarge(
    httpx2.TransportError
):  # derived from httpx2's errors, so that the SDKs handle it like them
    """The body of a reply is too large. `reason` says so in a few words."""

    def __init__(self, limit: int) -> None:
        self.reason = f"more than {limit:,} bytes"
        super().__init__(self.reason)


def bound_reply(reply: httpx2.Response, limit: int) -> None:
    """Make reading the unread body of `reply` raise ReplyTooLarge beyond `limit` bytes.

    A compressed body, which was not requested, raises httpx2.DecodingError.
    """
    encoding = reply.headers.get("content-encoding", "identity").strip().lower()
    if isinstance(reply.stream, httpx2.AsyncByteStream):
        reply.stream = _Bounded(reply.stream, encoding, limit)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, encoding: str, limit: int
    ) -> None:
        self._stream = stream
        self._encoding = encoding
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in ("", "identity"):
            raise httpx2.DecodingError(
                f"the body is packed as '{self._encoding[:80]}', which was not requested"
            )
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > self._limit:
                raise ReplyTooLarge(self._limit)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
