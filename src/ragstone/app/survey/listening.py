"""Services that listen on this machine. Ports are only connected to, unless their description is asked for."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from ragstone.app.survey.openapi import proposals_in
from ragstone.app.survey.proposal import Proposal

PORTS = (8000, 8080, 8001, 5000, 3000)
"""Ports that web frameworks use unless told otherwise."""

_HOST = "127.0.0.1"
_CONNECT_S = 0.2
_READ_S = 2.0
_MAX_BYTES = 2_000_000


def listening(ports: Sequence[int] = PORTS) -> tuple[int, ...]:
    """Those of `ports` on which something accepts a connection. Nothing is sent."""
    return tuple(port for port in ports if _accepts(port))


def proposals_on(port: int) -> Iterator[Proposal]:
    """What the service on `port` offers, by its own `/openapi.json`: one GET, no redirects, no proxies, no question."""
    server = f"http://{_HOST}:{port}"
    document = _described(f"{server}/openapi.json")
    if document is not None:
        yield from proposals_in(document, f"{server}/openapi.json", server=server)


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((_HOST, port), timeout=_CONNECT_S):
            return True
    except OSError:
        return False


def _described(url: str) -> Any:
    import httpx2

    body = b""
    try:
        with (
            httpx2.Client(timeout=_READ_S, trust_env=False, follow_redirects=False) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as reply,
        ):
            if reply.status_code != 200:
                return None
            for piece in reply.iter_raw():
                body += piece
                if len(body) > _MAX_BYTES:
                    return None
        return json.loads(body)
    except (httpx2.HTTPError, ValueError, RecursionError):
        return None
