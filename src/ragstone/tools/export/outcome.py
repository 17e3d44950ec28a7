"""What became of an export to a tracker of experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

State = Literal["new", "updated", "same", "waiting"]


@dataclass(frozen=True, slots=True)
class Exported:
    """Where the run is now. `state`: it is new there, it was brought up to date, it was there as it is, or it
    waits in a folder to be sent."""

    where: str
    id: str
    state: State


def shown_address(address: str) -> str:
    """`address` without what may be secret in it: user, password, query, fragment."""
    try:
        parts = urlsplit(address)
        if not parts.hostname:
            return f"{parts.scheme}:{parts.path}" if parts.scheme else parts.path
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        port = f":{parts.port}" if parts.port is not None else ""
        return f"{parts.scheme}://{host}{port}{parts.path}"
    except ValueError:
        return "an address that can't be read"
