"""Bounded HTTP replies: the body is measured as it arrives and is decompressed in
pieces."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Mapping

import httpx2

ACCEPTED: Mapping[str, str] = {"Accept-Encoding": "gzip"}
"""Headers for a request whose reply `bound_reply` can read."""

_PIECE = 1 << 16
_GZIP_BITS = 16 + zlib.MAX_WBITS


class ReplyTooLarge(
    httpx2.TransportError
):  # derived from httpx2's errors, so that the SDKs handle it like them
    """The body of a reply is too large, on the wire or decompressed. `reason` says so
    in a few words."""

    def __init__(self, limit: int) -> None:
        self.reason = f"more than {limit:,} bytes"
        super().__init__(self.reason)


def bound_reply(reply: httpx2.Response, limit: int) -> None:
    """Make reading the unread body of `reply` raise ReplyTooLarge beyond `limit` bytes.

    The limit applies to the bytes on the wire and to the decompressed bytes; at most
    one piece beyond it is held in memory. A body that is compressed in a way that was
    not requested, or damaged raises httpx2.DecodingError.
    """
    packed_as = reply.headers.get("content-encoding", "identity").strip().lower()
    # Or httpx2 would decompress it again.
    reply.headers.pop("content-encoding", None)
    if isinstance(reply.stream, httpx2.AsyncByteStream):
        reply.stream = _Bounded(reply.stream, packed_as, limit)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, packed_as: str, limit: int
    ) -> None:
        self._stream = stream
        self._packed_as = packed_as
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = _counted(self._stream, self._limit)
        if self._packed_as == "gzip":
            pieces = _counted(_unpacked(pieces), self._limit)
        elif self._packed_as not in ("", "identity"):
            raise httpx2.DecodingError(
                f"the body is packed as '{self._packed_as[:80]}', which was not requested"
            )
        async for piece in pieces:
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _counted(pieces: AsyncIterable[bytes], limit: int) -> AsyncIterator[bytes]:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > limit:
            raise ReplyTooLarge(limit)
        yield piece


async def _unpacked(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP_BITS)
    async for packed in pieces:
        unpacked = b""
        while packed or len(unpacked) == _PIECE:
            try:
                unpacked = unpacker.decompress(packed, _PIECE)
            except zlib.error as error:
                raise httpx2.DecodingError(str(error)) from None
            if unpacked:
                yield unpacked
            packed = unpacker.unconsumed_tail
