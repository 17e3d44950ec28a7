"""Bounded HTTP replies: the body is measured as it arrives and is decompressed in
pieces."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping

import httpx2

ACCEPTED: Mapping[str, str] = {"Accept-Encoding": "gzip, deflate"}
"""Headers for a request whose reply `bound_reply` can read."""

_PIECE = 1 << 16
_GZIP, _ZLIB = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS
_WINDOW_BITS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


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
    one piece beyond it is held in memory. A body that is compressed twice, in a way
    that was not requested, or damaged raises httpx2.DecodingError.
    """
    packed_as = [
        name.strip().lower()
        for name in reply.headers.get("content-encoding", "").split(",")
    ]
    packed_as = [name for name in packed_as if name not in ("", "identity")]
    if packed_as:
        del reply.headers["content-encoding"]  # or httpx2 would decompress it again
    if isinstance(reply.stream, httpx2.AsyncByteStream):
        reply.stream = _Bounded(reply.stream, packed_as, limit)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(
        self, stream: httpx2.AsyncByteStream, packed_as: list[str], limit: int
    ) -> None:
        self._stream = stream
        self._packed_as = packed_as
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = _counted(self._stream, self._limit)
        if self._packed_as:
            pieces = _counted(_unpacked(pieces, self._packed_as), self._limit)
        async for piece in pieces:
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _counted(pieces: AsyncIterable[bytes], limit: int) -> AsyncIterator[bytes]:
    read = 0
    async for piece in pieces:
        read += len(piece)
        if read > limit:
            raise ReplyTooLarge(limit)
        yield piece


async def _unpacked(
    pieces: AsyncIterable[bytes], packed_as: list[str]
) -> AsyncIterator[bytes]:
    if len(packed_as) > 1 or packed_as[0] not in _WINDOW_BITS:
        raise httpx2.DecodingError(
            f"the body is packed as '{', '.join(packed_as)[:80]}', which was not requested"
        )
    unpacker = zlib.decompressobj(_WINDOW_BITS[packed_as[0]])
    started = False
    async for piece in pieces:
        try:
            for unpacked in _inflated(unpacker, piece):
                yield unpacked
        except zlib.error as error:
            if started or packed_as[0] != "deflate":
                raise httpx2.DecodingError(str(error)) from None
            unpacker = zlib.decompressobj(
                -zlib.MAX_WBITS
            )  # some servers omit zlib's header
            for unpacked in _inflated(unpacker, piece):
                yield unpacked
        started = True


def _inflated(unpacker: zlib._Decompress, packed: bytes) -> Iterator[bytes]:
    piece = b""
    while packed or len(piece) == _PIECE:
        if piece := unpacker.decompress(packed, _PIECE):
            yield piece
        packed = unpacker.unconsumed_tail
