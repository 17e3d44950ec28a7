"""A server on loopback whose replies have no end, unpack to far more than they are, or are no HTTP at all."""

from __future__ import annotations

import contextlib
import functools
import gzip
import re
import socket
import threading
import zlib
from collections.abc import Callable, Iterator

_PIECE = b" " * (1 << 16)
_OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"


@functools.cache
def bomb(layers: int = 1, megabytes: int = 256) -> bytes:
    """About a megabyte, or a few kilobytes with two layers, that unpacks to so many megabytes of spaces."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(_PIECE) for _ in range(megabytes * 16)) + packer.flush()
    for _ in range(layers - 1):
        packed = gzip.compress(packed)
    return packed


def _packed(encoding: bytes, body: bytes) -> bytes:
    return _OK + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (encoding, len(body), body)


def _without_end(head: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    def reply(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)

    return reply


def _once(text: Callable[[], bytes]) -> Callable[[socket.socket], None]:
    made = functools.cache(text)

    def reply(connection: socket.socket) -> None:
        connection.sendall(made())

    reply.prepare = made  # type: ignore[attr-defined]
    return reply


_GONE = b"HTTP/1.1 307 Gone\r\nConnection: close\r\nContent-Length: 0\r\nLocation: "
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
REPLIES: dict[str, Callable[[socket.socket], None]] = {
    "gzip bomb": _once(lambda: _packed(b"gzip", bomb())),
    "bomb in a bomb": _once(lambda: _packed(b"gzip, gzip", bomb(layers=2))),
    "unknown packing": _once(lambda: _packed(b"br", b"xx")),
    "endless body": _without_end(_OK + b"\r\n", _PIECE),
    "endless chunks": _without_end(_CHUNKED, b"10000\r\n" + _PIECE + b"\r\n"),
    "endless error": _without_end(b"HTTP/1.1 500 Oh\r\n\r\n", _PIECE),
    "too many headers": _once(
        lambda: _OK + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(5000)) + b"Content-Length: 2\r\n\r\n{}"
    ),
    "a long header": _once(lambda: _OK + b"X: " + b"y" * 1_000_000 + b"\r\nContent-Length: 2\r\n\r\n{}"),
    "endless headers": _without_end(_OK, b"X: " + b"y" * 1000 + b"\r\n"),
    "endless trailers": _without_end(_CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: " + b"y" * 1000 + b"\r\n"),
    "an endless line": _without_end(_CHUNKED, b"2;" + b"y" * 60_000),
    "endless interim replies": _without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "cut off": _once(lambda: _OK + b"Content-Length: 1000000000000000\r\n\r\n{}"),
    "no HTTP": _once(lambda: b"\x00\xff" * 5000),
    "brackets": _once(lambda: _OK + b"Content-Length: 3000000\r\n\r\n" + b"[" * 3_000_000),
    "digits": _once(lambda: _OK + b'Content-Length: 3000012\r\n\r\n{"answer":9' + b"9" * 3_000_000 + b"}"),
    "redirect to half an address": _once(lambda: _GONE + b"http://[::1\r\n\r\n"),
    "redirect to no port": _once(lambda: _GONE + b"http://127.0.0.1:99999999/\r\n\r\n"),
}


@contextlib.contextmanager
def hostile_server(kind: str) -> Iterator[int]:
    """The port of a server that answers each request, once it has come, with REPLIES[kind]."""
    getattr(REPLIES[kind], "prepare", bytes)()  # packing a bomb takes longer than a client waits
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            _read_request(connection)
            REPLIES[kind](connection)
            # A client that is still at its request when the end comes may say that the connection broke, and no more.
            connection.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                connection.recv(1)
                return
            connection.settimeout(None)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=10)


def _read_request(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    missing = (int(length[1]) if length else 0) - len(body)
    while missing > 0:
        missing -= len(connection.recv(1 << 16))
